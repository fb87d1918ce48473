#include "engine/trace.h"

#include "engine/expert_counts.h"
#include "json/json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include <fmt/format.h>

namespace ft::engine {
namespace {

std::int64_t rounded(double us) {
  return static_cast<std::int64_t>(std::llround(us));
}

void write_inputs(json::Writer& out, const speculation::PlanInputs& inputs) {
  out.begin_object();
  out.member("max_drafts", std::uint64_t{inputs.max_drafts});
  out.member("context", std::uint64_t{inputs.context});
  const auto has_offer = [](const auto& offer) { return offer.has_value(); };
  if (std::any_of(inputs.offers.begin(), inputs.offers.end(), has_offer)) {
    out.key("offers").begin_array();
    for (const std::optional<speculation::Offer>& offer : inputs.offers) {
      if (!offer) {
        out.null();
        continue;
      }
      out.begin_object().member("n_tokens", std::uint64_t{offer->n_tokens});
      out.member("strength", std::uint64_t{offer->strength}).end_object();
    }
    out.end_array();
  }
  if (!inputs.missing_bytes.empty()) {
    out.key("missing_bytes").begin_array();
    for (const double bytes : inputs.missing_bytes) out.value(bytes);
    out.end_array();
  }
  out.end_object();
}

void write_chosen(json::Writer& out, const speculation::RoundPlan& plan) {
  out.begin_object().key("parts").begin_array();
  for (const speculation::RoundPlan::Part& part : plan.parts) {
    out.begin_object().member("source", std::uint64_t{part.source});
    out.member("depth", std::uint64_t{part.depth});
    if (part.strength) out.member("strength", std::uint64_t{*part.strength});
    out.end_object();
  }
  out.end_array();
  out.member("expected_tokens", plan.expected_tokens);
  out.member("predicted_us", plan.predicted_us);
  out.end_object();
}

void write_numbers(json::Writer& out, std::span<const double> numbers) {
  out.begin_array();
  for (const double number : numbers) out.value(number);
  out.end_array();
}

void write_experience(json::Writer& out, const speculation::Experience& experience) {
  out.begin_object().key("sources").begin_array();
  for (const speculation::Experience::Source& source : experience.sources) {
    out.begin_object();
    write_numbers(out.key("alone"), source.alone.numbers());
    out.key("offered").begin_array();
    for (const auto& history : source.offered) write_numbers(out, history.numbers());
    out.end_array();
    write_numbers(out.key("as_tail"), source.as_tail.numbers());
    write_numbers(out.key("draft_cost"), source.draft_cost.numbers());
    out.member("n_asked", std::uint64_t{source.n_asked});
    out.member("n_as_tail", std::uint64_t{source.n_as_tail}).end_object();
  }
  out.end_array();
  const speculation::ContextCosts::Numbers rest_cost = experience.rest_cost.numbers();
  out.key("rest_cost").begin_array();
  for (const auto& curve : rest_cost.curves) write_numbers(out, curve);
  out.end_array().member("latest_rest_cost", std::uint64_t{rest_cost.latest});
  write_numbers(out.key("read_cost"), experience.read_cost.numbers());
  out.member("deepest", std::uint64_t{experience.deepest}).end_object();
}

// What replaying needs beside the fields for people.
void write_replay(json::Writer& out, const RoundReport& report) {
  write_inputs(out.key("inputs"), report.inputs);
  write_chosen(out.key("chosen"), report.plan);
  out.key("asked").begin_array();
  for (const speculation::RoundResult::Part& part : report.result.parts) {
    out.begin_array().value(std::uint64_t{part.n_asked}).value(std::uint64_t{part.n_drafted});
    out.end_array();
  }
  out.end_array();
  out.member("stall_us", report.result.stall_us);
  out.member("missing_bytes", report.result.missing_bytes);
}

}  // namespace

std::string trace_header(const Session& session) {
  json::Writer out;
  out.begin_object().key("plan").begin_object();
  out.key("sources").begin_array();
  for (std::size_t i = 0; i < session.n_sources(); ++i) out.value(session.source_name(i));
  out.end_array();
  const speculation::PlannerOptions& options = session.planner_options();
  if (options.fixed_depth) {
    out.member("draft_tokens", std::uint64_t{*options.fixed_depth});
  } else {
    out.key("draft_tokens").null();
  }
  out.member("max_depth", std::uint64_t{options.max_depth});
  if (session.inherited()) write_experience(out.key("inherited"), *session.inherited());
  return out.end_object().end_object().text();
}

std::string trace_line(const RoundReport& report,
                       const foretoken::ExpertStatistics& experts,
                       const TracePlace& place,
                       const TraceMemory& memory) {
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
  out.member("token", place.token);
  out.member("missing_experts", experts.misses);
  out.member("predicted_us", rounded(report.plan.predicted_us));
  out.member("actual_us", actual_us);
  out.member("reason", speculation::to_string(report.plan.reason));
  out.member("draft_us", result.draft_us);
  out.member("forward_us", result.forward_us);
  out.member("verify_us", result.verify_us);
  out.member("observe_us", result.observe_us);
  // Time lost (or, below zero, won) against the same tokens without drafts.
  if (report.plan.baseline_us > 0) {
    const double plain_us = report.plan.baseline_us * static_cast<double>(result.n_committed);
    out.member("regret_us", rounded(static_cast<double>(actual_us) - plain_us));
  } else {
    out.key("regret_us").null();
  }
  write_replay(out, report);
  write_experts(out.key("experts"), experts);
  out.key("memory").begin_object();
  out.member("anonymous_bytes", memory.anonymous_bytes).member("budget_bytes", memory.budget_bytes);
  out.member("kv_bytes", memory.kv_bytes).member("expert_cache_bytes", memory.expert_cache_bytes);
  out.end_object().end_object();
  return out.text();
}

}  // namespace ft::engine
