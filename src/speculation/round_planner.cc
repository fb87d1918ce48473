#include "speculation/round_planner.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace ft::speculation {
namespace {

// Weight of one cost measurement, and how far one may raise an estimate: an interrupted round
// (another process, a page fault) must not look like a slower machine.
constexpr double kCostWeight = 0.2;
constexpr double kMaxRise = 1.25;
// Nothing makes a round much shorter than it needs to be: below this share of the estimate the
// estimate is of cold memory or of a busy machine, and is given up.
constexpr double kStale = 0.65;
// A single measurement may have found weights that were never read, memory that was never touched
// or another process: it is believed up to a multiple of what the other n let expect.
constexpr double kMaxSurprise = 2;
// Measurements until an estimate is one of n alone.
constexpr std::uint32_t kYoung = 6;
// Rounds without drafts at the start: all else is compared with them, and the first is cold.
constexpr std::uint32_t kBaselineRounds = 2;
// Share of a change that is taken over by the n that were not measured just now: a longer context
// or a busy machine slows every width.
constexpr double kShare = 0.5;

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
// of all time plus a few rounds. The latter pay for the first trials of a source, which come at
// once: one unlucky or cold round must not decide about a whole reply.
constexpr std::uint64_t kProbeInterval = 16;
constexpr double kRegretBudget = 0.006;
constexpr double kRegretAllowance = 2;
constexpr std::size_t kTrials = 4;

}  // namespace

void CostCurve::observe(std::size_t n, double cost_us) {
  cost_us = std::max(cost_us, 1e-3);
  Cost& cost = costs_.at(n);
  ++n_observed_;
  end_ = std::max(end_, n + 1);
  if (cost.count++ == 0) {
    cost.mean_us = cost_us;
    cost.n_averaged = 1;
    return;
  }
  const double ratio = std::min(cost_us / cost.mean_us, kMaxRise);
  const bool is_stale = ratio < kStale;
  cost.n_averaged = is_stale ? 1 : cost.n_averaged + 1;
  const double weight = is_stale ? 1 : std::max(kCostWeight, 1.0 / cost.n_averaged);
  const double change = std::pow(ratio, weight);
  const double shared = cost.count > kYoung ? std::pow(change, kShare) : 1;
  for (std::size_t i = 0; i < end_; ++i) costs_[i].mean_us *= i == n ? change : shared;
}

// Of a measured n, as long as it is young: no more than a wider one.
double CostCurve::bounded(std::size_t n) const {
  const Cost& cost = costs_.at(n);
  double bound = cost.mean_us;
  if (cost.count > kYoung) return bound;
  for (std::size_t i = n + 1; i < end_; ++i) {
    if (costs_[i].count > 0) bound = std::min(bound, costs_[i].mean_us);
  }
  return bound;
}

double CostCurve::predict(std::size_t n) const {
  if (is_empty()) return 0;
  return costs_.at(n).count == 0 ? from_others(n, 1) : believed(n);
}

// Of a measured n.
double CostCurve::believed(std::size_t n) const {
  if (costs_[n].count > 1 || n_observed_ == 1) return bounded(n);
  return std::min(bounded(n), kMaxSurprise * from_others(n, 2));
}

// By the n on both sides of it that were measured so often; its own if there are none.
double CostCurve::from_others(std::size_t n, std::uint32_t least_count) const {
  const auto at = [](std::size_t i) { return static_cast<double>(i); };
  const auto counts = [&](std::size_t i) { return i != n && costs_[i].count >= least_count; };
  const auto value = [&](std::size_t i) { return least_count > 1 ? bounded(i) : believed(i); };
  std::size_t first = 0;
  while (first < end_ && !counts(first)) ++first;
  if (first == end_) return costs_[n].mean_us;
  const double first_us = value(first);
  const double prior_slope = prior_slope_ * first_us / std::max(at(first), 1.0);
  if (n < first) return first_us - prior_slope * at(first - n);
  std::size_t below = n - 1;
  while (!counts(below)) --below;
  std::size_t above = n + 1;
  while (above < end_ && !counts(above)) ++above;
  const double below_us = value(below);
  if (above < end_) return below_us + at(n - below) / at(above - below) * (value(above) - below_us);
  const double slope = below == first ? prior_slope : (below_us - first_us) / at(below - first);
  return below_us + std::max(slope, 0.0) * at(n - below);
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
    if (const auto other = probe(best, limit, limit)) return as_probe(*other, best);
    return as_plan(best, PlanReason::kFixed);
  }
  if (limit == 0) return as_plan(draft_nothing(), PlanReason::kNoRoom);
  if (rest_cost_.n_observed(1) < kBaselineRounds)
    return as_plan(draft_nothing(), PlanReason::kBaseline);

  const Choice best = best_choice(0, limit);
  const Choice held = held_choice(limit);
  const bool is_held = best.depth > 0 && best.rate() < held.rate() * kHysteresis;
  const Choice& chosen = is_held ? held : best;
  if (const auto other = probe(chosen, 0, limit)) return as_probe(*other, chosen);
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

RoundPlan RoundPlanner::as_probe(const Choice& choice, const Choice& instead_of) const {
  RoundPlan plan = as_plan(choice, PlanReason::kProbe);
  plan.instead_us_per_token = 1 / instead_of.rate();
  return plan;
}

RoundPlanner::Choice RoundPlanner::draft_nothing() const {
  return {.source = RoundPlan::kNoSource, .depth = 0, .tokens = 1, .cost_us = rest_us(0)};
}

double RoundPlanner::rest_us(std::size_t n_drafts) const {
  return rest_cost_.is_empty() ? 1 + kPriorRowCost * static_cast<double>(n_drafts)
                               : rest_cost_.predict(n_drafts + 1);
}

double RoundPlanner::draft_us(const Source& source, std::size_t n_drafts) const {
  const double prior_us = rest_us(0) * kPriorDraftCost * static_cast<double>(n_drafts);
  if (source.draft_cost.is_empty()) return prior_us;
  const double us = source.draft_cost.predict(n_drafts);
  return source.draft_cost.n_observed() > 1 ? us : std::min(us, kMaxSurprise * prior_us);
}

// Depths 0 … max_depth of one source.
std::vector<RoundPlanner::Choice> RoundPlanner::price(std::size_t source,
                                                      std::size_t max_depth) const {
  const Source& from = sources_.at(source);
  const auto cost = [&](std::size_t n_drafts) {
    return rest_us(n_drafts) + draft_us(from, n_drafts);
  };
  std::vector<Choice> choices = {draft_nothing()};
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
    const double regret_us =
        std::clamp(choice.cost_us - choice.tokens / chosen.rate(), 0.0, rest_us(0));
    return regret_us_ + regret_us <= kRegretBudget * elapsed_us_ + kRegretAllowance * rest_us(0);
  };
  if (retry_depth_ > 0 && retry_depth_ <= max_depth && retry_source_ != chosen.source) {
    const Choice again = price(retry_source_, retry_depth_).back();
    if (is_affordable(again)) return again;
  }
  const std::size_t first_depth = std::max<std::size_t>(min_depth, 1);
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    if (source == chosen.source || sources_[source].n_asked >= kTrials) continue;
    const Choice trial = best_depth(source, first_depth, max_depth);
    if (is_affordable(trial)) return trial;
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
    if (min_depth == 0 && chosen.depth == 0)
      consider(price(source, 1).back(), sources_[source].last_asked[1]);
  }
  if (const auto next = neighbour(chosen, min_depth, max_depth)) consider(*next, last_neighbour_);
  return longest;
}

void RoundPlanner::record(const RoundPlan& plan, const RoundOutcome& outcome) {
  ++n_rounds_;
  const std::size_t n_rows = outcome.n_drafted + 1;
  rest_cost_.observe(n_rows, static_cast<double>(outcome.rest_us));
  if (outcome.n_drafted == 0) last_baseline_ = n_rounds_;
  if (plan.source != RoundPlan::kNoSource && outcome.n_asked > 0) {
    Source& source = sources_.at(plan.source);
    source.last_round = n_rounds_;
    ++source.n_asked;
    source.last_asked.at(outcome.n_asked) = n_rounds_;
    source.acceptance.observe(outcome.n_asked, outcome.n_drafted, outcome.n_accepted);
    if (outcome.n_drafted > 0)
      source.draft_cost.observe(outcome.n_drafted, static_cast<double>(outcome.draft_us));
  }
  // What it should have taken, if it took more: an interruption says nothing about the next round.
  const double round_us = static_cast<double>(outcome.draft_us + outcome.rest_us);
  const double cost_us = plan.predicted_us > 0 ? std::min(plan.predicted_us, round_us) : round_us;
  elapsed_us_ += cost_us;
  retry_depth_ = 0;
  if (plan.reason == PlanReason::kProbe) {
    last_probe_ = n_rounds_;
    if (plan.source == held_source_) last_neighbour_ = n_rounds_;
    if (outcome.n_accepted > 0) {
      retry_source_ = plan.source;
      retry_depth_ = plan.depth;
    }
    const auto n_tokens = static_cast<double>(outcome.n_accepted + 1);
    regret_us_ += std::max(0.0, cost_us - n_tokens * plan.instead_us_per_token);
  } else if (plan.reason == PlanReason::kBest || plan.reason == PlanReason::kHeld) {
    held_source_ = plan.source;
    held_depth_ = plan.depth;
  }
}

}  // namespace ft::speculation
