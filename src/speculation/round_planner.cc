#include "speculation/round_planner.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace ft::speculation {
namespace {

// Rounds without drafts at the start: all else is compared with them, and the first is cold.
constexpr std::uint32_t kBaselineRounds = 2;
// A draft as a share of a one-row forward before it is measured. Low, as kForwardPrior.
constexpr double kPriorDraftCost = 0.1;

// The first measurement of a source's drafts may have found cold memory: it is believed up to a
// multiple of the prior.
constexpr double kMaxSurprise = 2;

// Behind another's drafts a source is expected to do as it does alone, as if that had been seen so
// often.
constexpr double kTailPrior = 4;

// A change of mind must promise this much; going back to depth 0 need not.
constexpr double kHysteresis = 1.01;

// Probes: at most one in so many rounds, and only while what they have cost stays below this share
// of all time plus a few rounds. The latter pay for the first trials of a source, which come at
// once: one unlucky or cold round must not decide about a whole reply.
constexpr std::uint64_t kProbeInterval = 16;
// A depth beside the chosen one that was hardly measured is tried sooner.
constexpr std::uint64_t kYoungInterval = 3;
// The baseline's first rounds are the coldest of all: after so many it is measured again.
constexpr std::uint64_t kSettling = 8;
// The baseline less often where drafts win by far.
constexpr double kFarBetter = 1.15;
constexpr std::uint64_t kFarInterval = 64;
constexpr double kRegretBudget = 0.006;
constexpr double kRegretAllowance = 2;
// Of the allowance, where first trials were made before.
constexpr double kSpent = 1;
constexpr std::size_t kTrials = 4;
// What a single probe is charged, in rounds without drafts: the rest is taken for cold memory.
constexpr double kMaxRegret = 1.5;

// Drafts are at most twice as many as there ever were: what wide rounds cost is a guess from narrow
// ones.
constexpr std::size_t kFirstReach = 4;

std::optional<Offer> offer_of(const PlanInputs& inputs, std::size_t source) {
  return source < inputs.offers.size() ? inputs.offers[source] : std::nullopt;
}

// Missing bytes of a forward with so many drafts; nullopt if nothing is predicted.
std::optional<double> missing_bytes(const PlanInputs& inputs, std::size_t n_drafts) {
  const std::span<const double> bytes = inputs.missing_bytes;
  if (bytes.empty()) return std::nullopt;
  if (n_drafts < bytes.size()) return bytes[n_drafts];
  const double slope = bytes.size() > 1 ? bytes.back() - bytes[bytes.size() - 2] : bytes.back();
  return bytes.back() + std::max(slope, 0.0) * static_cast<double>(n_drafts + 1 - bytes.size());
}

}  // namespace

RoundPlanner::RoundPlanner(std::size_t n_sources, PlannerOptions options)
    : options_(options), last_use_(n_sources), hindsight_(options.max_depth) {
  known_.sources.resize(n_sources);
  const std::size_t deepest = std::max(options_.max_depth, options_.fixed_depth.value_or(0));
  if (deepest > kMaxDraftTokens) {
    fail("draft length is {}, expected 0 ... {}", deepest, kMaxDraftTokens);
  }
}

RoundPlanner::RoundPlanner(Experience inherited, PlannerOptions options)
    : RoundPlanner(inherited.sources.size(), options) {
  known_ = std::move(inherited);
  regret_ = kSpent;
}

std::size_t RoundPlanner::Choice::depth() const {
  std::size_t sum = 0;
  for (const RoundPlan::Part& part : parts) sum += part.depth;
  return sum;
}

bool RoundPlanner::Choice::is_of(std::size_t source) const {
  return std::any_of(
      parts.begin(), parts.end(), [&](const auto& part) { return part.source == source; });
}

RoundPlan RoundPlanner::plan(const PlanInputs& inputs) const {
  const std::vector<double> believed = known_.read_cost.believed(inputs.missing_bytes);
  PlanInputs believable = inputs;
  believable.missing_bytes = believed;
  RoundPlan plan = choose(believable);
  plan.missing_bytes = missing_bytes(inputs, plan.depth());
  plan.all_missing_bytes.assign(inputs.missing_bytes.begin(), inputs.missing_bytes.end());
  if (!options_.fixed_depth && known_.rest_cost.latest().n_observed(1) >= kBaselineRounds)
    plan.fixed = fixed_prices(believable);
  return plan;
}

std::vector<RoundPlan::Price> RoundPlanner::fixed_prices(const PlanInputs& inputs) const {
  std::vector<RoundPlan::Price> out = {{1, rest_us(inputs, 0)}};
  for (std::size_t source = 0; source < n_sources(); ++source) {
    const std::vector<Choice> choices =
        price(inputs, source, std::min(inputs.max_drafts, options_.max_depth));
    for (std::size_t depth = 1; depth <= options_.max_depth; ++depth) {
      const Choice& choice = choices[std::min(depth, choices.size() - 1)];
      out.push_back({choice.tokens, choice.cost_us});
    }
  }
  return out;
}

RoundPlan RoundPlanner::choose(const PlanInputs& inputs) const {
  const std::size_t reach = std::max(kFirstReach, 2 * known_.deepest);
  const std::size_t limit = std::min(
      inputs.max_drafts, options_.fixed_depth.value_or(std::min(options_.max_depth, reach)));
  const auto nothing = [&](PlanReason reason) {
    return as_plan(inputs, draft_nothing(inputs), reason);
  };
  if (known_.sources.empty()) return nothing(PlanReason::kNoSource);
  const Range depths{options_.fixed_depth ? limit : 0, limit};
  if (!options_.fixed_depth) {
    if (limit == 0) return nothing(PlanReason::kNoRoom);
    if (known_.rest_cost.latest().n_observed(1) < kBaselineRounds)
      return nothing(PlanReason::kBaseline);
  }
  Choice chosen = best_choice(inputs, depths);
  PlanReason reason = options_.fixed_depth ? PlanReason::kFixed : PlanReason::kBest;
  if (!options_.fixed_depth && chosen.depth() > 0) {
    const Choice held = held_choice(inputs, limit);
    if (chosen.hoped_rate() < held.hoped_rate() * kHysteresis && chosen.parts != held.parts) {
      chosen = held;
      reason = PlanReason::kHeld;
    }
  }
  const std::optional<Choice> pair = best_pair(inputs, depths);
  if (pair && pair->rate() > chosen.rate() * kHysteresis) {
    chosen = *pair;
    if (!options_.fixed_depth) reason = PlanReason::kBest;
  }
  if (const auto other = probe(inputs, chosen, depths)) return as_probe(inputs, *other, chosen);
  return as_plan(inputs, chosen, reason);
}

RoundPlan RoundPlanner::as_plan(const PlanInputs& inputs,
                                const Choice& choice,
                                PlanReason reason) const {
  return {.parts = {choice.parts.begin(), choice.parts.end()},
          .expected_tokens = choice.tokens,
          .predicted_us = known_.rest_cost.is_empty() ? 0 : choice.cost_us,
          .baseline_us = known_.rest_cost.is_empty() ? 0 : rest_us(inputs, 0),
          .context = inputs.context,
          .reason = reason};
}

RoundPlan RoundPlanner::as_probe(const PlanInputs& inputs,
                                 const Choice& choice,
                                 const Choice& instead_of) const {
  RoundPlan plan = as_plan(inputs, choice, PlanReason::kProbe);
  plan.instead_us_per_token = 1 / instead_of.rate();
  return plan;
}

RoundPlanner::Choice RoundPlanner::draft_nothing(const PlanInputs& inputs) const {
  return {.parts = {}, .tokens = 1, .cost_us = rest_us(inputs, 0), .doubt_us = doubt_us(inputs, 0)};
}

double RoundPlanner::doubt_us(const PlanInputs& inputs, std::size_t n_drafts) const {
  if (known_.rest_cost.is_empty()) return 0;
  const CostCurve& costs = known_.rest_cost.at(inputs.context);
  return costs.predict(n_drafts + 1) * costs.doubt(n_drafts + 1);
}

double RoundPlanner::rest_us(const PlanInputs& inputs, std::size_t n_drafts) const {
  if (known_.rest_cost.is_empty()) return 1 + kForwardPrior.slope * static_cast<double>(n_drafts);
  const double compute_us = known_.rest_cost.at(inputs.context).predict(n_drafts + 1);
  const std::optional<double> bytes = missing_bytes(inputs, n_drafts);
  return compute_us + (bytes ? known_.read_cost.stall_us(n_drafts + 1, *bytes) : 0);
}

double RoundPlanner::draft_us(const PlanInputs& inputs,
                              std::size_t source,
                              std::size_t n_drafts) const {
  const CostCurve& cost = known_.sources.at(source).draft_cost;
  // Who tells its drafts beforehand has them.
  if (cost.is_empty() && offer_of(inputs, source)) return 0;
  const double prior_us = rest_us(inputs, 0) * kPriorDraftCost * static_cast<double>(n_drafts);
  if (cost.is_empty()) return prior_us;
  const double us = cost.predict(n_drafts);
  return cost.n_observed() > 1 ? us : std::min(us, kMaxSurprise * prior_us);
}

// Depths 0 … max_depth of one source, or as many as it offers.
std::vector<RoundPlanner::Choice> RoundPlanner::price(const PlanInputs& inputs,
                                                      std::size_t source,
                                                      std::size_t max_depth) const {
  const Experience::Source& from = known_.sources.at(source);
  const std::optional<Offer> offer = offer_of(inputs, source);
  std::vector<Choice> choices;
  choices.reserve(max_depth + 1);
  choices.push_back(draft_nothing(inputs));
  const auto cost = [&](std::size_t n) { return rest_us(inputs, n) + draft_us(inputs, source, n); };
  RoundPlan::Part part{.source = source};
  if (offer) {
    part.strength = offer->strength;
    max_depth = std::min(max_depth, offer->n_tokens);
  }
  const AcceptanceHistory& history = offer ? from.offered.at(offer->strength) : from.alone;
  double tokens = 1;
  double reached = 1;
  double offered = 1;
  double fewer_us = 0;  // what rounds cost in which the source offers less, times how often
  double last_cost = cost(0);
  for (const AcceptanceHistory::Estimate& estimate : history.estimate(max_depth)) {
    ++part.depth;
    reached *= estimate.accepted;
    tokens += reached;
    const double next_offered = offer ? 1 : estimate.offered;
    fewer_us += (offered - next_offered) * last_cost;
    offered = next_offered;
    last_cost = cost(part.depth);
    choices.push_back(
        {Window(part), tokens, fewer_us + offered * last_cost, doubt_us(inputs, part.depth)});
  }
  return choices;
}

// The highest rate of one source; ties to the shallower.
RoundPlanner::Choice RoundPlanner::best_depth(const PlanInputs& inputs,
                                              std::size_t source,
                                              Range depths) const {
  const std::vector<Choice> choices = price(inputs, source, depths.max);
  std::size_t best = std::min(depths.min, choices.size() - 1);
  for (std::size_t depth = best; depth < choices.size(); ++depth) {
    if (choices[depth].hoped_rate() > choices[best].hoped_rate()) best = depth;
  }
  return choices[best];
}

// The same over all sources; ties to the lower one.
RoundPlanner::Choice RoundPlanner::best_choice(const PlanInputs& inputs, Range depths) const {
  std::optional<Choice> best;
  for (std::size_t source = 0; source < n_sources(); ++source) {
    const Choice other = best_depth(inputs, source, depths);
    if (depths.min > 0 && other.parts.empty()) continue;
    if (!best || other.hoped_rate() > best->hoped_rate()) best = other;
  }
  return best ? *best : draft_nothing(inputs);
}

// The highest rate of `head` with drafts of `tail` behind it. The tail steps over the head's tokens
// as well.
RoundPlanner::Choice RoundPlanner::with_tail(const PlanInputs& inputs,
                                             const Choice& head,
                                             std::size_t tail,
                                             Range depths) const {
  const std::size_t n_head = head.depth();
  const Choice shorter = price(inputs, head.parts.front().source, n_head - 1).back();
  double reached = head.tokens - shorter.tokens;  // probability that all of the head stands
  const Experience::Source& from = known_.sources.at(tail);
  const AcceptanceHistory::Prior prior{from.alone.estimate(1).front().accepted, kTailPrior};
  Choice best;
  Choice next = head;
  next.parts.push_back({.source = tail});
  for (const auto& estimate : from.as_tail.estimate(depths.max - n_head, prior)) {
    reached *= estimate.accepted;
    next.tokens += reached;
    const std::size_t n = n_head + ++next.parts.back().depth;
    next.cost_us = rest_us(inputs, n) + draft_us(inputs, tail, n);
    if (n < depths.min) continue;
    if (best.parts.empty() || next.rate() > best.rate()) best = next;
  }
  return best;
}

// A source that offers something and one behind it that must draft to tell.
std::optional<RoundPlanner::Choice> RoundPlanner::best_pair(const PlanInputs& inputs,
                                                            Range depths) const {
  std::optional<Choice> best;
  for (std::size_t head = 0; head < n_sources(); ++head) {
    const std::optional<Offer> offer = offer_of(inputs, head);
    if (!offer || offer->n_tokens == 0) continue;
    const std::vector<Choice> heads = price(inputs, head, depths.max);
    const std::size_t best_head = best_depth(inputs, head, {1, depths.max}).depth();
    for (std::size_t tail = 0; tail < n_sources(); ++tail) {
      if (offer_of(inputs, tail)) continue;
      for (const std::size_t n_head : {best_head, heads.size() - 1}) {
        if (n_head == 0 || n_head >= depths.max) continue;
        const Choice pair = with_tail(inputs, heads[n_head], tail, depths);
        if (!best || pair.rate() > best->rate()) best = pair;
      }
    }
  }
  return best;
}

RoundPlanner::Choice RoundPlanner::held_choice(const PlanInputs& inputs,
                                               std::size_t max_depth) const {
  if (!held_) return draft_nothing(inputs);
  return price(inputs, held_->source, std::min(held_->depth, max_depth)).back();
}

// The depth next to the chosen one that was not asked for the longest time.
std::optional<RoundPlanner::Choice> RoundPlanner::neighbour(const PlanInputs& inputs,
                                                            const Choice& chosen,
                                                            Range depths) const {
  if (chosen.parts.size() != 1) return std::nullopt;
  const RoundPlan::Part& part = chosen.parts.front();
  const std::vector<Choice> choices = price(inputs, part.source, depths.max);
  const auto& last_asked = last_use_[part.source].by_depth;
  const std::size_t above = part.depth + 1;
  const std::size_t below = part.depth - 1;
  const bool has_above = above < choices.size();
  const bool has_below = below >= std::max<std::size_t>(depths.min, 1);
  if (has_above && (!has_below || last_asked.at(above) <= last_asked.at(below)))
    return choices[above];
  if (has_below) return choices[below];
  return std::nullopt;
}

// What to measure instead of `chosen`. What is hardly known comes first, then, at intervals, what
// has waited longest; all as far as the budget can pay for it.
std::optional<RoundPlanner::Choice> RoundPlanner::probe(const PlanInputs& inputs,
                                                        const Choice& chosen,
                                                        Range depths) const {
  if (depths.max == 0) return std::nullopt;
  Candidates candidates{.chosen = chosen,
                        .pair = best_pair(inputs, depths),
                        .next = neighbour(inputs, chosen, depths),
                        .baseline_us = rest_us(inputs, 0)};
  if (chosen.parts.size() >= 2) candidates.pair.reset();
  candidates.budget = kRegretBudget * elapsed_ + kRegretAllowance - regret_;
  if (auto trial = first_trial(inputs, candidates, depths)) return trial;
  if (n_rounds_ - last_probe_ < kYoungInterval) return std::nullopt;
  if (auto young = youngest(inputs, candidates, depths)) return young;
  if (n_rounds_ - last_probe_ < kProbeInterval) return std::nullopt;
  return longest_waiting(inputs, candidates, depths);
}

bool RoundPlanner::Candidates::is_affordable(const Choice& choice) const {
  const double regret = (choice.cost_us - choice.tokens / chosen.rate()) / baseline_us;
  return std::clamp(regret, 0.0, 1.0) <= budget;
}

// A probe that went well, once more; then pairs and sources that were not asked often enough.
std::optional<RoundPlanner::Choice> RoundPlanner::first_trial(const PlanInputs& inputs,
                                                              const Candidates& candidates,
                                                              Range depths) const {
  const Choice& chosen = candidates.chosen;
  if (retry_ && retry_->depth <= depths.max && !chosen.is_of(retry_->source)) {
    const Choice again = price(inputs, retry_->source, retry_->depth).back();
    if (!again.parts.empty() && candidates.is_affordable(again)) return again;
  }
  const std::optional<Choice>& pair = candidates.pair;
  if (pair && known_.sources[pair->parts.back().source].n_as_tail < kTrials &&
      candidates.is_affordable(*pair))
    return pair;
  const Range drafting{std::max<std::size_t>(depths.min, 1), depths.max};
  for (std::size_t source = 0; source < n_sources(); ++source) {
    if (chosen.is_of(source) || known_.sources[source].n_asked >= kTrials) continue;
    const Choice trial = best_depth(inputs, source, drafting);
    if (!trial.parts.empty() && candidates.is_affordable(trial)) return trial;
  }
  return std::nullopt;
}

// The baseline or the neighbour in depth, if its width was hardly measured.
std::optional<RoundPlanner::Choice> RoundPlanner::youngest(const PlanInputs& inputs,
                                                           const Candidates& candidates,
                                                           Range depths) const {
  if (candidates.budget < 0) return std::nullopt;
  const auto is_young = [&](std::size_t n_drafts) {
    return known_.rest_cost.at(inputs.context).n_observed(n_drafts + 1) < kTrials;
  };
  const bool is_cold = known_.rest_cost.at(inputs.context).n_observed(1) <= kBaselineRounds;
  if (depths.min == 0 && n_rounds_ >= kSettling &&
      (is_cold || (is_young(0) && !is_young(candidates.chosen.depth()))))
    return draft_nothing(inputs);
  const std::optional<Choice>& next = candidates.next;
  return next && is_young(next->depth()) ? next : std::nullopt;
}

// The baseline, another source at its best, a pair or the neighbour in depth.
std::optional<RoundPlanner::Choice> RoundPlanner::longest_waiting(const PlanInputs& inputs,
                                                                  const Candidates& candidates,
                                                                  Range depths) const {
  const Choice& chosen = candidates.chosen;
  std::optional<Choice> longest;
  std::uint64_t waited = kProbeInterval - 1;
  const auto consider = [&](const Choice& choice, std::uint64_t last_round) {
    if (n_rounds_ - last_round <= waited || !candidates.is_affordable(choice)) return;
    waited = n_rounds_ - last_round;
    longest = choice;
  };
  const Choice nothing = draft_nothing(inputs);
  const bool is_close = chosen.rate() < kFarBetter * nothing.rate();
  const std::uint64_t rests_for = is_close ? 0 : kFarInterval - kProbeInterval;
  if (depths.min == 0 && chosen.depth() > 0 && n_rounds_ >= last_baseline_ + rests_for)
    consider(nothing, last_baseline_ + rests_for);
  const Range drafting{std::max<std::size_t>(depths.min, 1), depths.max};
  for (std::size_t source = 0; source < n_sources(); ++source) {
    if (chosen.is_of(source)) continue;
    const Choice other = best_depth(inputs, source, drafting);
    if (other.parts.empty()) continue;
    consider(other, last_use_[source].at_all);
    if (depths.min == 0 && chosen.depth() == 0)
      consider(price(inputs, source, 1).back(), last_use_[source].by_depth[1]);
  }
  if (const auto& pair = candidates.pair)
    consider(*pair, last_use_[pair->parts.back().source].as_tail);
  if (candidates.next) consider(*candidates.next, last_neighbour_);
  return longest;
}

void RoundPlanner::record(const RoundPlan& plan, const RoundOutcome& outcome) {
  ++n_rounds_;
  record_drafts(plan, outcome);
  record_choice(plan, outcome);
  hindsight_.add(plan);
}

// Acceptance and cost of every part. Of a part behind a draft that fell nothing is known.
void RoundPlanner::record_drafts(const RoundPlan& plan, const RoundOutcome& outcome) {
  FT_CHECK(outcome.parts.size() == plan.parts.size());
  std::size_t n_drafted = 0;
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    const RoundPlan::Part& part = plan.parts[i];
    const auto [asked, drafted] = outcome.parts[i];
    if (asked == 0) continue;
    Experience::Source& source = known_.sources.at(part.source);
    LastUse& last_use = last_use_.at(part.source);
    last_use.at_all = n_rounds_;
    if (i > 0) {
      ++source.n_as_tail;
      last_use.as_tail = n_rounds_;
    }
    ++source.n_asked;
    last_use.by_depth.at(asked) = n_rounds_;
    if (outcome.n_accepted >= n_drafted) {
      AcceptanceHistory& history = i > 0           ? source.as_tail
                                   : part.strength ? source.offered.at(*part.strength)
                                                   : source.alone;
      history.observe(asked, drafted, std::min(outcome.n_accepted - n_drafted, drafted));
    }
    n_drafted += drafted;
  }
  known_.deepest = std::max(known_.deepest, n_drafted);
  if (n_drafted > 0) {
    // The last one's: a head that offers its drafts takes next to no time.
    Experience::Source& last = known_.sources.at(plan.parts.back().source);
    last.draft_cost.observe(n_drafted, static_cast<double>(outcome.draft_us));
  } else {
    last_baseline_ = n_rounds_;
  }
  const bool is_split = plan.missing_bytes.has_value();
  const auto stall_us = static_cast<double>(is_split ? outcome.stall_us : 0);
  known_.rest_cost.observe(
      plan.context, n_drafted + 1, static_cast<double>(outcome.rest_us) - stall_us);
  known_.read_cost.observe(plan.all_missing_bytes, n_drafted + 1, outcome.missing_bytes, stall_us);
}

void RoundPlanner::record_choice(const RoundPlan& plan, const RoundOutcome& outcome) {
  // An interruption says nothing about the next round; what a source that slept had to catch up
  // with does.
  const auto draft_us = static_cast<double>(outcome.draft_us);
  const auto rest_us = static_cast<double>(outcome.rest_us);
  const bool is_probe = plan.reason == PlanReason::kProbe;
  const bool is_waker =
      is_probe && !plan.parts.empty() && known_.sources[plan.parts.back().source].n_asked > kTrials;
  const double bound_us = is_waker ? draft_us + plan.predicted_us : plan.predicted_us;
  const double round_us = draft_us + rest_us;
  const double cost_us = plan.predicted_us > 0 ? std::min(bound_us, round_us) : round_us;
  const double baseline_us = plan.baseline_us > 0 ? plan.baseline_us : round_us;
  elapsed_ += cost_us / baseline_us;
  retry_.reset();
  if (is_probe) {
    last_probe_ = n_rounds_;
    const bool has_drafts = !plan.parts.empty();
    if (has_drafts && held_ && plan.parts.front().source == held_->source)
      last_neighbour_ = n_rounds_;
    if (has_drafts && outcome.n_accepted > 0) retry_ = plan.parts.front();
    const auto n_tokens = static_cast<double>(outcome.n_accepted + 1);
    const double regret_us = cost_us - n_tokens * plan.instead_us_per_token;
    regret_ += std::clamp(regret_us / baseline_us, 0.0, kMaxRegret);
  } else if (plan.reason == PlanReason::kBest || plan.reason == PlanReason::kHeld) {
    if (plan.parts.empty()) {
      held_.reset();
    } else if (!plan.parts.front().strength) {
      held_ = plan.parts.front();
    }
  }
}

}  // namespace ft::speculation
