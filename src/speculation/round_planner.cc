#include "speculation/round_planner.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace ft::speculation {
namespace {

// Weight of one cost measurement once several are there, and how far one may move an estimate: an
// interrupted round (another process, a page fault) must not look like a new machine.
constexpr double kCostWeight = 0.2;
constexpr double kMaxCostStep = 2;
// Share of a change that is taken over by the n that were not measured just now: a longer context
// or a busy machine slows every width.
constexpr double kSharedCostWeight = 0.1;

// A further row of a forward and a draft, as shares of a one-row forward, before either is
// measured. Low: what looks cheap is tried, and one round corrects it.
constexpr double kPriorRowCost = 0.15;
constexpr double kPriorDraftCost = 0.1;

// Counts fade with a window of about 16 rounds: acceptance differs between prose, code and tool
// calls within one reply.
constexpr double kDecay = 0.94;
constexpr double kPriorAcceptance = 0.6;
// A position not reached yet is expected to do as well as the one before it.
constexpr double kPriorWeight = 1;

// When a run of equal outcomes means that the text has changed, and what is left of the counts
// then.
constexpr double kImpossible = 0.003;
constexpr double kForget = 0.25;

// A change of mind must promise this much; going back to depth 0 need not.
constexpr double kHysteresis = 1.03;

// Probes: at most one in so many rounds, and only while what they have cost stays below this share
// of all time.
constexpr std::uint64_t kProbeInterval = 16;
constexpr double kRegretBudget = 0.01;

}  // namespace

void CostCurve::observe(std::size_t n, double cost_us) {
  cost_us = std::max(cost_us, 1e-3);
  double& mean = means_us_.at(n);
  std::uint32_t& count = counts_.at(n);
  if (count == 0) {
    mean = cost_us;
    ++n_measured_;
  } else {
    const double ratio = std::clamp(cost_us / mean, 1 / kMaxCostStep, kMaxCostStep);
    mean *= std::pow(ratio, std::max(kCostWeight, 1.0 / (count + 1)));
    const double shared = std::pow(ratio, kSharedCostWeight);
    for (std::size_t i = 0; i < means_us_.size(); ++i) {
      if (i != n) means_us_.at(i) *= shared;
    }
  }
  ++count;
}

double CostCurve::predict(std::size_t n) const {
  if (n_measured_ == 0) return 0;
  if (counts_.at(n) > 0) return means_us_.at(n);
  std::size_t below = n;  // nearest measured n on either side; n itself if there is none
  while (below > 0 && counts_.at(below) == 0) --below;
  std::size_t above = n;
  while (above + 1 < counts_.size() && counts_.at(above) == 0) ++above;
  const bool has_below = counts_.at(below) > 0;
  const bool has_above = counts_.at(above) > 0;
  const auto at = [](std::size_t i) { return static_cast<double>(i); };
  if (has_below && has_above) {
    const double share = at(n - below) / at(above - below);
    return means_us_.at(below) + share * (means_us_.at(above) - means_us_.at(below));
  }
  if (has_above) return means_us_.at(above) * at(n) / at(above);
  std::size_t first = 0;
  while (counts_.at(first) == 0) ++first;
  const double slope = first == below
                           ? prior_slope_ * means_us_.at(below) / std::max(at(below), 1.0)
                           : (means_us_.at(below) - means_us_.at(first)) / at(below - first);
  return means_us_.at(below) + std::max(slope, 0.0) * at(n - below);
}

void AcceptanceHistory::observe(std::size_t asked, std::size_t drafted, std::size_t accepted) {
  FT_CHECK(asked < counts_.size() && drafted <= asked && accepted <= drafted);
  if (asked > 0) notice_change(accepted > 0);
  const auto count = [](double& sum, bool is_hit) { sum = kDecay * sum + (is_hit ? 1 : 0); };
  for (std::size_t i = 1; i <= asked; ++i) {
    Counts& counts = counts_.at(i);
    count(counts.calls, true);
    count(counts.offers, i <= drafted);
    if (i > accepted + 1) continue;
    count(counts.trials, true);
    count(counts.hits, i <= accepted);
  }
}

// A run of first drafts that all fail, or all stand, and that the estimate finds next to
// impossible: the text has changed its kind, and most of what was counted is about another kind.
void AcceptanceHistory::notice_change(bool is_hit) {
  const double expected = estimate(1).front().accepted;
  const double probability = is_hit ? expected : 1 - expected;
  run_probability_ = is_hit == run_is_hits_ ? run_probability_ * probability : probability;
  run_is_hits_ = is_hit;
  if (run_probability_ > kImpossible) return;
  run_probability_ = 1;
  for (Counts& counts : counts_) {
    for (double* sum : {&counts.trials, &counts.hits, &counts.calls, &counts.offers})
      *sum *= kForget;
  }
}

std::vector<AcceptanceHistory::Estimate> AcceptanceHistory::estimate(std::size_t n) const {
  std::vector<Estimate> estimates;
  estimates.reserve(n);
  Estimate last{kPriorAcceptance, 1};
  for (std::size_t i = 1; i <= n; ++i) {
    const Counts& counts = counts_.at(i);
    const double offered =
        (counts.offers + kPriorWeight * last.offered) / (counts.calls + kPriorWeight);
    last = {(counts.hits + kPriorWeight * last.accepted) / (counts.trials + kPriorWeight),
            std::min(last.offered, offered)};
    estimates.push_back(last);
  }
  return estimates;
}

std::string_view to_string(PlanReason reason) noexcept {
  switch (reason) {
    case PlanReason::kNoSource:
      return "no source";
    case PlanReason::kNoRoom:
      return "no room";
    case PlanReason::kFixed:
      return "fixed";
    case PlanReason::kBaseline:
      return "baseline";
    case PlanReason::kBest:
      return "best";
    case PlanReason::kHeld:
      return "held";
    case PlanReason::kProbe:
      return "probe";
  }
  return "unknown";
}

RoundPlanner::RoundPlanner(std::size_t n_sources, PlannerOptions options)
    : options_(options), sources_(n_sources), rest_cost_(kPriorRowCost) {
  const std::size_t deepest = std::max(options_.max_depth, options_.fixed_depth.value_or(0));
  if (deepest > kMaxDraftTokens) {
    fail("draft length is {}, expected 0 ... {}", deepest, kMaxDraftTokens);
  }
}

RoundPlan RoundPlanner::plan(std::size_t max_drafts) const {
  const std::size_t limit = std::min(max_drafts, options_.fixed_depth.value_or(options_.max_depth));
  if (sources_.empty()) return as_plan(draft_nothing(), PlanReason::kNoSource);
  if (options_.fixed_depth) {
    const Choice best = best_choice(limit, limit);
    const auto other = probe(best, limit, limit);
    return as_plan(other.value_or(best), other ? PlanReason::kProbe : PlanReason::kFixed);
  }
  if (limit == 0) return as_plan(draft_nothing(), PlanReason::kNoRoom);
  if (!rest_cost_.is_measured(1)) return as_plan(draft_nothing(), PlanReason::kBaseline);

  const Choice best = best_choice(0, limit);
  const Choice held = held_choice(limit);
  const bool is_held = best.depth > 0 && best.rate() < held.rate() * kHysteresis;
  const Choice& chosen = is_held ? held : best;
  if (const auto other = probe(chosen, 0, limit)) return as_plan(*other, PlanReason::kProbe);
  const bool is_same = best.source == held.source && best.depth == held.depth;
  return as_plan(chosen, is_held && !is_same ? PlanReason::kHeld : PlanReason::kBest);
}

RoundPlan RoundPlanner::as_plan(const Choice& choice, PlanReason reason) const {
  return {.source = choice.source,
          .depth = choice.depth,
          .expected_tokens = choice.tokens,
          .predicted_us = rest_cost_.is_empty() ? 0 : choice.cost_us,
          .reason = reason};
}

RoundPlanner::Choice RoundPlanner::draft_nothing() const {
  return {.source = RoundPlan::kNoSource,
          .depth = 0,
          .tokens = 1,
          .cost_us = rest_cost_.is_empty() ? 1 : rest_cost_.predict(1)};
}

// Depths 0 … max_depth of one source.
std::vector<RoundPlanner::Choice> RoundPlanner::price(std::size_t source,
                                                      std::size_t max_depth) const {
  const Source& from = sources_.at(source);
  std::vector<Choice> choices = {draft_nothing()};
  const double one_row = choices.front().cost_us;
  const auto cost = [&](std::size_t n_drafts) {
    const auto n = static_cast<double>(n_drafts);
    const double rest = rest_cost_.is_empty() ? one_row * (1 + kPriorRowCost * n)
                                              : rest_cost_.predict(n_drafts + 1);
    const double draft = from.draft_cost.is_empty() ? one_row * kPriorDraftCost * n
                                                    : from.draft_cost.predict(n_drafts);
    return rest + draft;
  };
  double tokens = 1;
  double reached = 1;
  double offered = 1;
  double fewer_us = 0;  // what rounds cost in which the source offers less, times how often
  double last_cost = cost(0);
  std::size_t depth = 0;
  for (const AcceptanceHistory::Estimate& estimate : from.acceptance.estimate(max_depth)) {
    ++depth;
    reached *= estimate.accepted;
    tokens += reached;
    fewer_us += (offered - estimate.offered) * last_cost;
    offered = estimate.offered;
    last_cost = cost(depth);
    choices.push_back({source, depth, tokens, fewer_us + offered * last_cost});
  }
  return choices;
}

// The highest rate of one source with depths min_depth … max_depth; ties to the shallower.
RoundPlanner::Choice RoundPlanner::best_depth(std::size_t source,
                                              std::size_t min_depth,
                                              std::size_t max_depth) const {
  const std::vector<Choice> choices = price(source, max_depth);
  std::size_t best = min_depth;
  for (std::size_t depth = min_depth; depth <= max_depth; ++depth) {
    if (choices[depth].rate() > choices[best].rate()) best = depth;
  }
  return choices[best];
}

// The same over all sources; ties to the lower one.
RoundPlanner::Choice RoundPlanner::best_choice(std::size_t min_depth, std::size_t max_depth) const {
  Choice best = best_depth(0, min_depth, max_depth);
  for (std::size_t source = 1; source < sources_.size(); ++source) {
    const Choice other = best_depth(source, min_depth, max_depth);
    if (other.rate() > best.rate()) best = other;
  }
  return best;
}

RoundPlanner::Choice RoundPlanner::held_choice(std::size_t max_depth) const {
  const std::size_t depth = std::min(held_depth_, max_depth);
  return price(depth == 0 ? 0 : held_source_, depth).back();
}

// The depth next to the chosen one that was not asked for the longest time.
std::optional<RoundPlanner::Choice> RoundPlanner::neighbour(const Choice& chosen,
                                                            std::size_t min_depth,
                                                            std::size_t max_depth) const {
  if (chosen.depth == 0) return std::nullopt;
  const std::vector<Choice> choices = price(chosen.source, max_depth);
  const auto& last_asked = sources_[chosen.source].last_asked;
  const std::size_t above = chosen.depth + 1;
  const std::size_t below = chosen.depth - 1;
  const bool has_above = above <= max_depth;
  const bool has_below = below >= std::max<std::size_t>(min_depth, 1);
  if (has_above && (!has_below || last_asked.at(above) <= last_asked.at(below)))
    return choices[above];
  if (has_below) return choices[below];
  return std::nullopt;
}

// What to measure instead of `chosen`: the baseline, another source at its best or a neighbour in
// depth. Of those that the budget can pay for, the one that has waited longest.
std::optional<RoundPlanner::Choice> RoundPlanner::probe(const Choice& chosen,
                                                        std::size_t min_depth,
                                                        std::size_t max_depth) const {
  if (max_depth == 0) return std::nullopt;
  const auto is_affordable = [&](const Choice& choice) {
    const double regret_us = std::max(0.0, choice.cost_us - choice.tokens / chosen.rate());
    return regret_us_ + regret_us <= kRegretBudget * elapsed_us_;
  };
  if (retry_depth_ > 0 && retry_depth_ <= max_depth && retry_source_ != chosen.source) {
    const Choice again = price(retry_source_, retry_depth_).back();
    if (is_affordable(again)) return again;
  }
  if (n_rounds_ - last_probe_ < kProbeInterval) return std::nullopt;
  std::optional<Choice> longest;
  std::uint64_t waited = kProbeInterval - 1;
  const auto consider = [&](const Choice& choice, std::uint64_t last_round) {
    if (n_rounds_ - last_round <= waited || !is_affordable(choice)) return;
    waited = n_rounds_ - last_round;
    longest = choice;
  };
  if (min_depth == 0 && chosen.depth > 0) consider(draft_nothing(), last_baseline_);
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    if (source == chosen.source) continue;
    consider(best_depth(source, std::max<std::size_t>(min_depth, 1), max_depth),
             sources_[source].last_round);
  }
  if (const auto next = neighbour(chosen, min_depth, max_depth)) consider(*next, last_neighbour_);
  return longest;
}

void RoundPlanner::record(const RoundPlan& plan, const RoundOutcome& outcome) {
  ++n_rounds_;
  const double round_us = static_cast<double>(outcome.draft_us + outcome.rest_us);
  elapsed_us_ += round_us;
  rest_cost_.observe(1 + outcome.n_drafted, static_cast<double>(outcome.rest_us));
  if (outcome.n_drafted == 0) last_baseline_ = n_rounds_;
  if (plan.source != RoundPlan::kNoSource && outcome.n_asked > 0) {
    Source& source = sources_.at(plan.source);
    source.last_round = n_rounds_;
    source.last_asked.at(outcome.n_asked) = n_rounds_;
    source.acceptance.observe(outcome.n_asked, outcome.n_drafted, outcome.n_accepted);
    if (outcome.n_drafted > 0)
      source.draft_cost.observe(outcome.n_drafted, static_cast<double>(outcome.draft_us));
  }
  retry_depth_ = 0;
  if (plan.reason == PlanReason::kProbe) {
    last_probe_ = n_rounds_;
    if (plan.source == held_source_) last_neighbour_ = n_rounds_;
    if (outcome.n_accepted > 0) {
      retry_source_ = plan.source;
      retry_depth_ = plan.depth;
    }
    const double us_per_token = 1 / held_choice(options_.max_depth).rate();
    regret_us_ +=
        std::max(0.0, round_us - static_cast<double>(outcome.n_accepted + 1) * us_per_token);
  } else if (plan.reason == PlanReason::kBest || plan.reason == PlanReason::kHeld) {
    held_source_ = plan.source;
    held_depth_ = plan.depth;
  }
}

}  // namespace ft::speculation
