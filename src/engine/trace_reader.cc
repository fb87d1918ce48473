#include "engine/trace_reader.h"

#include "base/error.h"
#include "io/file.h"
#include "json/json.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ft::engine {
namespace {

using speculation::Experience;
using speculation::kMaxDraftTokens;
using speculation::Offer;
using speculation::RecordedRound;
using speculation::RecordedTrace;
using speculation::RoundOutcome;
using speculation::RoundPlan;

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
// A round takes a few thousand bytes.
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxSources = 16;  // more than there are; pairs of them are tried
constexpr std::size_t kMaxPosition = std::size_t{1} << 40;
constexpr double kMaxNumber = 1e18;

/// An object of a line; the names of its members stand in errors.
class Fields {
 public:
  Fields(const json::Value& value, std::string where) : value_(value), where_(std::move(where)) {
    value_.as_object(where_);
  }

  const json::Value* find(std::string_view key) const {
    const json::Value* found = value_.find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  }
  const json::Value& at(std::string_view key) const {
    const json::Value* found = value_.find(key);
    if (found == nullptr) fail("{} has no '{}'", where_, key);
    return *found;
  }
  std::string where(std::string_view key) const { return fmt::format("{}: {}", where_, key); }
  Fields object(std::string_view key) const { return {at(key), where(key)}; }
  const json::Array& array(std::string_view key) const { return at(key).as_array(where(key)); }
  std::size_t count(std::string_view key, std::size_t most) const {
    return checked(at(key), where(key), most);
  }
  double number(std::string_view key) const { return checked_number(at(key), where(key)); }
  std::vector<double> numbers(std::string_view key) const { return numbers(at(key), where(key)); }

  static std::size_t checked(const json::Value& value, const std::string& where, std::size_t most) {
    const std::int64_t n = value.as_integer(where);
    if (n < 0 || static_cast<std::size_t>(n) > most)
      fail("{} is {}, expected 0 to {}", where, n, most);
    return static_cast<std::size_t>(n);
  }
  static std::vector<double> numbers(const json::Value& value, const std::string& where) {
    std::vector<double> out;
    for (const json::Value& number : value.as_array(where)) out.push_back(number.as_real(where));
    return out;
  }
  static double checked_number(const json::Value& value, const std::string& where) {
    const double number = value.as_real(where);
    if (!(number >= 0) || number > kMaxNumber) fail("{} is {}, expected 0 to 1e18", where, number);
    return number;
  }

 private:
  const json::Value& value_;
  std::string where_;
};

speculation::PlanReason to_reason(const std::string& text, const std::string& where) {
  constexpr std::uint8_t kAll = 32;  // more than there are
  for (std::uint8_t i = 0; i < kAll; ++i) {
    const auto reason = static_cast<speculation::PlanReason>(i);
    if (speculation::to_string(reason) == text && text != "unknown") return reason;
  }
  fail("{} is {}, which no plan has", where, in_quotes(text));
}

Experience::Source read_learned_source(const Fields& fields) {
  Experience::Source out;
  const auto read = [&fields](auto& value, std::string_view key) {
    value.set_numbers(fields.numbers(key), fields.where(key));
  };
  read(out.alone, "alone");
  const std::string where = fields.where("offered");
  const json::Array& offered = fields.array("offered");
  if (offered.size() != out.offered.size())
    fail("{} has {} entries, expected {}", where, offered.size(), out.offered.size());
  for (std::size_t i = 0; i < offered.size(); ++i)
    out.offered.at(i).set_numbers(Fields::numbers(offered[i], where), where);
  read(out.as_tail, "as_tail");
  read(out.draft_cost, "draft_cost");
  out.n_asked = fields.count("n_asked", kMaxPosition);
  out.n_as_tail = fields.count("n_as_tail", kMaxPosition);
  return out;
}

Experience read_experience(const Fields& fields, std::size_t n_sources) {
  Experience out;
  const std::string where = fields.where("sources");
  for (const json::Value& source : fields.array("sources"))
    out.sources.push_back(read_learned_source(Fields(source, where)));
  if (out.sources.size() != n_sources)
    fail("{} has {} entries, expected {}", where, out.sources.size(), n_sources);
  speculation::ContextCosts::Numbers rest_cost;
  for (const json::Value& curve : fields.array("rest_cost"))
    rest_cost.curves.push_back(Fields::numbers(curve, fields.where("rest_cost")));
  rest_cost.latest = fields.count("latest_rest_cost", kMaxPosition);
  out.rest_cost.set_numbers(rest_cost, fields.where("rest_cost"));
  out.read_cost.set_numbers(fields.numbers("read_cost"), fields.where("read_cost"));
  out.deepest = fields.count("deepest", kMaxDraftTokens);
  return out;
}

RecordedTrace read_header(const json::Value& line, const std::string& where) {
  RecordedTrace out;
  const Fields plan = Fields(line, where).object("plan");
  const json::Array& names = plan.array("sources");
  if (names.size() > kMaxSources) {
    fail(
        "{} has {} entries, expected at most {}", plan.where("sources"), names.size(), kMaxSources);
  }
  for (const json::Value& value : names) {
    const std::string& name = value.as_string(plan.where("sources"));
    if (std::ranges::find(out.sources, name) != out.sources.end())
      fail("{} has {} twice", plan.where("sources"), in_quotes(name));
    out.sources.push_back(name);
  }
  if (plan.find("draft_tokens") != nullptr) {
    out.options.fixed_depth = plan.count("draft_tokens", kMaxDraftTokens);
  }
  out.options.max_depth = plan.count("max_depth", kMaxDraftTokens);
  if (plan.find("inherited") != nullptr)
    out.inherited = read_experience(plan.object("inherited"), out.sources.size());
  return out;
}

void read_inputs(const Fields& inputs, std::size_t n_sources, RecordedRound& round) {
  round.max_drafts = inputs.count("max_drafts", kMaxPosition);
  round.context = inputs.count("context", kMaxPosition);
  if (inputs.find("offers") != nullptr) {
    const std::string where = inputs.where("offers");
    for (const json::Value& value : inputs.array("offers")) {
      std::optional<Offer>& offer = round.offers.emplace_back();
      if (value.is_null()) continue;
      const Fields fields(value, where);
      offer = Offer{fields.count("n_tokens", kMaxPosition),
                    fields.count("strength", Offer::kStrengths - 1)};
    }
    if (round.offers.size() != n_sources)
      fail("{} has {} entries, expected {}", where, round.offers.size(), n_sources);
  }
  if (inputs.find("missing_bytes") != nullptr) {
    for (const json::Value& value : inputs.array("missing_bytes")) {
      round.missing_bytes.push_back(Fields::checked_number(value, inputs.where("missing_bytes")));
    }
  }
}

void read_chosen(const Fields& chosen, std::size_t n_sources, RoundPlan& plan) {
  for (const json::Value& value : chosen.array("parts")) {
    const Fields fields(value, chosen.where("parts"));
    RoundPlan::Part part;
    part.source = fields.count("source", kMaxDraftTokens);
    if (part.source >= n_sources)
      fail("{} is {}, the trace names {} sources", fields.where("source"), part.source, n_sources);
    part.depth = fields.count("depth", kMaxDraftTokens);
    if (part.depth == 0) fail("{} is 0, expected at least 1", fields.where("depth"));
    if (fields.find("strength") != nullptr)
      part.strength = fields.count("strength", Offer::kStrengths - 1);
    plan.parts.push_back(part);
  }
  if (plan.depth() > kMaxDraftTokens)
    fail("{} ask for {} drafts, expected at most {}",
         chosen.where("parts"),
         plan.depth(),
         kMaxDraftTokens);
  plan.expected_tokens = chosen.number("expected_tokens");
  plan.predicted_us = chosen.number("predicted_us");
}

void read_asked(const Fields& line, const RoundPlan& plan, RoundOutcome& outcome) {
  const std::string where = line.where("asked");
  std::size_t n_drafted = 0;
  for (const json::Value& value : line.array("asked")) {
    const json::Array& pair = value.as_array(where);
    if (pair.size() != 2) fail("{} has an entry of {} numbers, expected 2", where, pair.size());
    RoundOutcome::Part part;
    part.n_asked = Fields::checked(pair[0], where, kMaxDraftTokens);
    part.n_drafted = Fields::checked(pair[1], where, part.n_asked);
    n_drafted += part.n_drafted;
    outcome.parts.push_back(part);
  }
  if (outcome.parts.size() != plan.parts.size())
    fail(
        "{} has {} entries, the plan has {} parts", where, outcome.parts.size(), plan.parts.size());
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    if (outcome.parts[i].n_asked > plan.parts[i].depth)
      fail("{} has {}, the plan's depth is {}",
           where,
           outcome.parts[i].n_asked,
           plan.parts[i].depth);
  }
  outcome.n_accepted = line.count("accepted", n_drafted);
}

RecordedRound read_round(const json::Value& value,
                         const std::string& where,
                         std::size_t n_sources) {
  const Fields line(value, where);
  RecordedRound round;
  round.position = line.count("position", kMaxPosition);
  read_inputs(line.object("inputs"), n_sources, round);
  read_chosen(line.object("chosen"), n_sources, round.plan);
  round.plan.context = round.context;
  round.plan.reason =
      to_reason(line.at("reason").as_string(line.where("reason")), line.where("reason"));
  read_asked(line, round.plan, round.outcome);
  const auto us = [&](std::string_view key) {
    return static_cast<std::int64_t>(line.count(key, kMaxPosition));
  };
  round.outcome.draft_us = us("draft_us");
  round.outcome.rest_us = us("forward_us") + us("verify_us") + us("observe_us");
  round.outcome.stall_us = us("stall_us");
  round.outcome.missing_bytes = line.number("missing_bytes");
  return round;
}

}  // namespace

RecordedTrace parse_trace(std::string_view text, std::string_view what) {
  std::optional<RecordedTrace> out;
  for (std::size_t n_line = 1; !text.empty(); ++n_line) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string where = fmt::format("{} line {}", what, n_line);
    if (line.size() > kMaxLineBytes) {
      fail("{} has {} bytes, expected at most {}: is it a trace of generate --trace?",
           where,
           line.size(),
           kMaxLineBytes);
    }
    const json::Value value = json::parse(line, where);
    if (!out) {
      out = read_header(value, where);
      continue;
    }
    RecordedRound round = read_round(value, where, out->sources.size());
    if (!out->rounds.empty()) {
      const RecordedRound& last = out->rounds.back();
      const std::size_t expected = last.position + last.outcome.n_accepted + 1;
      if (round.position != expected)
        fail("{}: position is {}, expected {} after the line before",
             where,
             round.position,
             expected);
    }
    out->rounds.push_back(std::move(round));
  }
  if (!out) fail("{} is empty, expected a trace of generate --trace", what);
  return *std::move(out);
}

RecordedTrace read_trace(const std::filesystem::path& path) {
  return parse_trace(io::read_input(path, kMaxBytes), "trace " + in_quotes(path.native()));
}

}  // namespace ft::engine
