#include "server/round_feed.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace ft::server {
namespace {

// Far more than come between two events of a stream; a line takes 2 KiB.
constexpr std::size_t kMaxLines = 256;
constexpr std::int64_t kPauseUs = 50'000;

constexpr const char* kWhat = "trace";

void copy(json::Writer& out,
          const json::Value& from,
          std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const json::Value* value = from.find(name)) out.member(name, *value);
  }
}

void write_token(json::Writer& out, const json::Value& id, const TokenText& token_text) {
  out.begin_object().member("id", id);
  out.member("text", token_text(static_cast<foretoken::Token>(id.as_integer(kWhat)))).end_object();
}

// `source` is "mtp+ngram"; `asked` has [asked for, drafted] of each.
void write_sources(json::Writer& out, const json::Value& round) {
  out.key("sources").begin_array();
  if (const json::Value* source = round.find("source"); source != nullptr && source->is_string()) {
    std::string_view names = source->as_string(kWhat);
    for (const json::Value& counts : round.find("asked")->as_array(kWhat)) {
      const std::string_view name = names.substr(0, names.find('+'));
      names.remove_prefix(std::min(names.size(), name.size() + 1));
      out.begin_object().member("name", name);
      out.member("drafted", counts.as_array(kWhat)[1]).end_object();
    }
  }
  out.end_array();
}

void write_round(json::Writer& out, const json::Value& round, const TokenText& token_text) {
  out.begin_object();
  copy(out, round, {"round", "position", "accepted", "reason"});
  write_sources(out, round);
  out.key("drafts").begin_array();
  for (const json::Value& id : round.find("drafts")->as_array(kWhat)) {
    write_token(out, id, token_text);
  }
  out.end_array();
  write_token(out.key("token"), *round.find("token"), token_text);
  copy(out,
       round,
       {"actual_us", "draft_us", "forward_us", "verify_us", "observe_us", "stall_us", "memory"});
  out.key("experts").begin_object();
  copy(out, *round.find("experts"), {"mode", "hits", "misses", "bytes_read", "stall_ms"});
  out.end_object().end_object();
}

}  // namespace

void RoundFeed::add(std::string_view trace_line) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() < kMaxLines) lines_.emplace_back(trace_line);
}

std::vector<std::string> RoundFeed::take(std::int64_t now_us) {
  if (now_us < taken_us_ + kPauseUs) return {};
  taken_us_ = now_us;
  return take_rest();
}

std::vector<std::string> RoundFeed::take_rest() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

void write_rounds(json::Writer& out,
                  std::span<const std::string> trace_lines,
                  const TokenText& token_text) {
  out.begin_array();
  for (const std::string& line : trace_lines) {
    const json::Value round = json::parse(line, kWhat);
    if (round.find("round") != nullptr) write_round(out, round, token_text);
  }
  out.end_array();
}

}  // namespace ft::server
