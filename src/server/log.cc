#include "server/log.h"

#include "json/json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace ft::server {
namespace {

constexpr std::array<std::pair<LogLevel, std::string_view>, 4> kLevels = {
    {{LogLevel::kError, "error"},
     {LogLevel::kWarning, "warning"},
     {LogLevel::kInfo, "info"},
     {LogLevel::kDebug, "debug"}}};
// Of a method or path; longer ones are cut.
constexpr std::size_t kMaxShown = 128;

std::string iso_time(Log::Time now) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
      fmt::gmtime(static_cast<std::time_t>(std::chrono::floor<std::chrono::seconds>(ms).count())),
      ms.count() % 1000);
}

// As in a URL: one word of printable ASCII whatever the client sent.
std::string shown(std::string_view text) {
  if (text.empty()) return "-";
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) {
    if (c > ' ' && c <= '~' && c != '"' && c != '\\') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text.size() > kMaxShown ? out + "..." : out;
}

// For messages of this program: a file name in one may have any bytes.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

/// Writes name and value in the chosen format.
class Line {
 public:
  Line(LogFormat format, LogLevel level, Log::Time now) : is_json_(format == LogFormat::kJson) {
    if (is_json_) {
      json_.begin_object().member("time", iso_time(now)).member("level", to_string(level));
    } else {
      text_ = fmt::format("{} {:<7}", iso_time(now), to_string(level));
    }
  }
  template <typename T>
  void add(std::string_view name, const T& value) {
    if (is_json_) {
      json_.member(name, value);
    } else {
      text_ += fmt::format(" {}={}", name, value);
    }
  }
  void add(std::string_view name, std::size_t value) {
    add<std::uint64_t>(name, static_cast<std::uint64_t>(value));
  }
  void add_ms(std::string_view name, double ms) {
    if (is_json_) {
      json_.member(name, ms);
    } else {
      text_ += fmt::format(" {}={:.3f}", name, ms);
    }
  }
  void add_message(std::string_view text) {
    if (is_json_) {
      json_.member("message", text);
    } else {
      text_ += " " + one_line(text);
    }
  }
  std::string finished() { return (is_json_ ? json_.end_object().text() : text_) + "\n"; }

 private:
  const bool is_json_;
  json::Writer json_;
  std::string text_;
};

LogLevel level_of(const RequestRecord& record) {
  const bool has_no_reply = record.facts.status == 0 && !record.facts.is_client_gone;
  if (record.facts.status >= 500 || has_no_reply ||
      record.facts.generation.finish_reason == "error") {
    return LogLevel::kError;
  }
  if (record.facts.status >= 400) return LogLevel::kWarning;
  const std::string& path = record.head.path;
  return path == "/health" || path == "/metrics" ? LogLevel::kDebug : LogLevel::kInfo;
}

}  // namespace

std::string_view to_string(LogLevel level) noexcept {
  return kLevels.at(static_cast<std::size_t>(level)).second;
}

std::optional<LogLevel> log_level(std::string_view name) noexcept {
  const auto* known = std::find_if(
      kLevels.begin(), kLevels.end(), [name](const auto& each) { return each.second == name; });
  if (known == kLevels.end()) return std::nullopt;
  return known->first;
}

void Log::message(LogLevel level, std::string_view text) const {
  if (level > least_) return;
  Line line(format_, level, now_());
  line.add_message(text);
  write_(line.finished());
}

void Log::request(const RequestRecord& record) const {
  const LogLevel level = level_of(record);
  if (level > least_) return;
  Line line(format_, level, now_());
  const ReplyFacts& facts = record.facts;
  line.add("id", record.head.id);
  line.add("method", shown(record.head.method));
  line.add("path", shown(record.head.path));
  line.add("status", facts.status);
  line.add_ms("ms", static_cast<double>(record.took.count()) / 1000);
  line.add("bytes", facts.n_bytes);
  line.add("client_gone", facts.is_client_gone);
  if (const GenerationFacts& generation = facts.generation; generation.n_choices > 0) {
    line.add("choices", generation.n_choices);
    line.add("prompt_tokens", generation.n_prompt);
    line.add("cached_tokens", generation.n_cached);
    line.add("completion_tokens", generation.n_tokens);
    line.add("drafted", generation.n_drafted);
    line.add("accepted", generation.n_accepted);
    line.add_ms("queue_ms", generation.queue_ms);
    line.add_ms("ttft_ms", generation.time_to_first_token_ms);
    line.add("finish_reason", generation.finish_reason);
  }
  write_(line.finished());
}

}  // namespace ft::server
