#include "speculation/replay.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace ft::speculation {
namespace {

// Another compiler may round a sum differently.
bool is_close(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

bool is_same(const RoundPlan& a, const RoundPlan& b) {
  return a.parts == b.parts && a.reason == b.reason &&
         is_close(a.expected_tokens, b.expected_tokens) && is_close(a.predicted_us, b.predicted_us);
}

}  // namespace

std::string describe(const RoundPlan& plan, const std::vector<std::string>& sources) {
  std::string out;
  for (const RoundPlan::Part& part : plan.parts) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", sources.at(part.source), part.depth);
  }
  if (out.empty()) out = "no drafts";
  return fmt::format("{}: {}, {} tokens in {} us",
                     out,
                     to_string(plan.reason),
                     plan.expected_tokens,
                     plan.predicted_us);
}

RoundPlanner RecordedTrace::planner() const {
  return inherited ? RoundPlanner(*inherited, options) : RoundPlanner(sources.size(), options);
}

std::optional<PlanDifference> find_difference(const RecordedTrace& trace) {
  RoundPlanner planner = trace.planner();
  for (std::size_t i = 0; i < trace.rounds.size(); ++i) {
    const RecordedRound& round = trace.rounds[i];
    const RoundPlan plan = planner.plan(round.inputs());
    if (!is_same(plan, round.plan))
      return PlanDifference{i, describe(round.plan, trace.sources), describe(plan, trace.sources)};
    planner.record(plan, round.outcome);
  }
  return std::nullopt;
}

}  // namespace ft::speculation
