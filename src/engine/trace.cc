#include "engine/trace.h"

#include "engine/expert_counts.h"
#include "json/json.h"

#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace ft::engine {
namespace {

std::int64_t rounded(double us) {
  return static_cast<std::int64_t>(std::llround(us));
}

}  // namespace

std::string trace_line(const RoundReport& report,
                       const foretoken::ExpertStatistics& experts,
                       const TracePlace& place) {
  const speculation::RoundResult& result = report.result;
  const std::int64_t actual_us =
      result.draft_us + result.forward_us + result.verify_us + result.observe_us;
  json::Writer out;
  out.begin_object();
  out.member("round", std::uint64_t{place.round});
  out.member("position", std::uint64_t{place.position});
  if (report.sources.empty()) {
    out.key("source").null();
  } else {
    out.member("source", fmt::format("{}", fmt::join(report.sources, "+")));
  }
  out.member("depth", static_cast<std::uint64_t>(report.plan.depth()));
  out.key("drafts").begin_array();
  for (const Token token : result.drafts) out.value(token);
  out.end_array();
  out.member("accepted", static_cast<std::uint64_t>(result.n_accepted));
  out.member("missing_experts", experts.misses);
  out.member("predicted_us", rounded(report.plan.predicted_us));
  out.member("actual_us", actual_us);
  out.member("reason", speculation::to_string(report.plan.reason));
  out.member("draft_us", result.draft_us);
  out.member("forward_us", result.forward_us);
  out.member("verify_us", result.verify_us);
  out.member("observe_us", result.observe_us);
  // Time lost (or, below zero, won) against the same tokens without drafts.
  if (report.baseline_us > 0) {
    const double plain_us = report.baseline_us * static_cast<double>(result.n_committed);
    out.member("regret_us", rounded(static_cast<double>(actual_us) - plain_us));
  } else {
    out.key("regret_us").null();
  }
  write_experts(out.key("experts"), experts);
  out.end_object();
  return out.text();
}

}  // namespace ft::engine
