// Which sources draft how many tokens: the window with the most committed tokens per predicted
// time, the empty one included. Nothing else may choose a depth. Pure: a planner is a value; what
// it says follows from its inputs and the outcomes it was given. Wrong predictions cost time, never
// text.
#pragma once

#include "speculation/draft_limits.h"
#include "speculation/experience.h"
#include "speculation/hindsight.h"
#include "speculation/round_plan.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ft::speculation {

struct PlannerOptions {
  std::optional<std::size_t>
      fixed_depth;  // --draft-tokens N, at most kMaxDraftTokens; the source is still chosen
  std::size_t max_depth = 16;  // of the automatic choice
};

class RoundPlanner {
 public:
  /// Sources are numbered 0 … n_sources - 1; on ties the lower number wins. Throws InvalidInput if
  /// a depth is above kMaxDraftTokens.
  RoundPlanner(std::size_t n_sources, PlannerOptions options);
  /// One that knows what others learned of as many sources, and need not try what they tried.
  RoundPlanner(Experience inherited, PlannerOptions options);

  /// For a planner of another sequence on the same machine with the same sources.
  Experience experience() const { return known_.faded(); }

  RoundPlan plan(const PlanInputs& inputs) const;
  /// After every round, with the plan it followed.
  void record(const RoundPlan& plan, const RoundOutcome& outcome);

  /// See Hindsight. Nothing if the depth is fixed.
  std::optional<FixedChoice> best_in_hindsight() const { return hindsight_.best(); }

 private:
  /// When a source was asked last: rounds.
  struct LastUse {
    std::uint64_t as_tail = 0;
    std::uint64_t at_all = 0;
    std::array<std::uint64_t, kMaxDraftTokens + 1> by_depth{};
  };
  // Of at most two parts: choices are made by the dozen in every round, so they do not allocate.
  class Window {
   public:
    Window() = default;
    explicit Window(const RoundPlan::Part& part) : parts_{part}, size_(1) {}
    void push_back(const RoundPlan::Part& part) { parts_.at(size_++) = part; }
    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    const RoundPlan::Part& front() const { return parts_.front(); }
    RoundPlan::Part& back() { return parts_.at(size_ - 1); }
    const RoundPlan::Part& back() const { return parts_.at(size_ - 1); }
    const RoundPlan::Part* begin() const { return parts_.data(); }
    const RoundPlan::Part* end() const { return parts_.data() + size_; }
    bool operator==(const Window&) const = default;

   private:
    std::array<RoundPlan::Part, 2> parts_{};
    std::size_t size_ = 0;
  };
  struct Choice {
    Window parts;
    double tokens = 1;
    double cost_us = 0;
    double doubt_us = 0;  // it may well be so much less
    double rate() const { return tokens / cost_us; }
    double hoped_rate() const { return tokens / (cost_us - doubt_us); }
    std::size_t depth() const;
    bool is_of(std::size_t source) const;
  };
  struct Range {  // of depths
    std::size_t min = 0;
    std::size_t max = 0;
  };

  RoundPlan choose(const PlanInputs& inputs) const;
  std::vector<RoundPlan::Price> fixed_prices(const PlanInputs& inputs) const;
  RoundPlan as_plan(const PlanInputs& inputs, const Choice& choice, PlanReason reason) const;
  RoundPlan as_probe(const PlanInputs& inputs,
                     const Choice& choice,
                     const Choice& instead_of) const;
  // In units of a one-row round as long as nothing is measured, else in microseconds.
  double rest_us(const PlanInputs& inputs, std::size_t n_drafts) const;
  double doubt_us(const PlanInputs& inputs, std::size_t n_drafts) const;
  double draft_us(const PlanInputs& inputs, std::size_t source, std::size_t n_drafts) const;
  Choice draft_nothing(const PlanInputs& inputs) const;
  std::vector<Choice> price(const PlanInputs& inputs,
                            std::size_t source,
                            std::size_t max_depth) const;
  Choice best_depth(const PlanInputs& inputs, std::size_t source, Range depths) const;
  Choice best_choice(const PlanInputs& inputs, Range depths) const;
  Choice with_tail(const PlanInputs& inputs,
                   const Choice& head,
                   std::size_t tail,
                   Range depths) const;
  std::optional<Choice> best_pair(const PlanInputs& inputs, Range depths) const;
  Choice held_choice(const PlanInputs& inputs, std::size_t max_depth) const;
  std::optional<Choice> neighbour(const PlanInputs& inputs,
                                  const Choice& chosen,
                                  Range depths) const;
  std::optional<Choice> probe(const PlanInputs& inputs, const Choice& chosen, Range depths) const;
  // What a probe picks from; unset where there is none.
  struct Candidates {
    const Choice& chosen;
    std::optional<Choice> pair;
    std::optional<Choice> next;  // neighbour()
    double baseline_us = 0;
    double budget = 0;  // in rounds without drafts
    bool is_affordable(const Choice& choice) const;
  };
  using Probe = std::optional<Choice>;
  Probe first_trial(const PlanInputs& inputs, const Candidates& candidates, Range depths) const;
  Probe youngest(const PlanInputs& inputs, const Candidates& candidates, Range depths) const;
  Probe longest_waiting(const PlanInputs& inputs, const Candidates& candidates, Range depths) const;
  std::size_t n_sources() const noexcept { return known_.sources.size(); }
  void record_drafts(const RoundPlan& plan, const RoundOutcome& outcome);
  void record_choice(const RoundPlan& plan, const RoundOutcome& outcome);

  PlannerOptions options_;
  Experience known_;
  std::vector<LastUse> last_use_;  // by source
  // Of the latest choice that no offer decided. retry: a probe that went well is repeated at once.
  std::optional<RoundPlan::Part> held_;
  std::optional<RoundPlan::Part> retry_;
  std::uint64_t n_rounds_ = 0;
  std::uint64_t last_probe_ = 0;
  std::uint64_t last_neighbour_ = 0;  // probe of the held source at another depth
  std::uint64_t last_baseline_ = 0;
  // In rounds without drafts, as they were believed to take at the time: the first are cold.
  double elapsed_ = 0;
  double regret_ = 0;  // of probes
  Hindsight hindsight_;
};

}  // namespace ft::speculation
