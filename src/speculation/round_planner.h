// Which sources draft how many tokens: the window with the most committed tokens per predicted
// time, the empty one included. Nothing else may choose a depth. Pure: a planner is a value; what
// it says follows from its inputs and the outcomes it was given. Wrong predictions cost time, never
// text.
#pragma once

#include "speculation/acceptance_history.h"
#include "speculation/cost_curve.h"
#include "speculation/draft_limits.h"
#include "speculation/offer.h"
#include "speculation/read_costs.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ft::speculation {

enum class PlanReason : std::uint8_t {
  kNoSource,  // no source is open
  kNoRoom,    // limits (tokens left, rollback, context) leave no room for a draft
  kFixed,     // --draft-tokens N: the depth is given, the sources are those that do best
  kBaseline,  // the cost of a round without drafts is not measured yet
  kBest,      // most tokens per time
  kHeld,      // another choice is better by less than the hysteresis
  kProbe,     // measures a choice that has not been tried lately, within the regret budget
};
std::string_view to_string(PlanReason reason) noexcept;

/// What is known before a round.
struct PlanInputs {
  std::size_t max_drafts = 0;  // what tokens left, context and caches allow
  std::size_t context = 0;     // positions in the cache
  /// By source, what it would draft now; nullopt: only drafting tells. Empty: none of them tells.
  std::span<const std::optional<Offer>> offers = {};
  /// [n]: bytes of the experts that a forward of n + 1 rows is predicted to read; beyond the last n
  /// it goes on as before. Empty: nothing streams, or nothing is known of it.
  std::span<const double> missing_bytes = {};
};

struct RoundPlan {
  /// A source's share of the window.
  struct Part {
    std::size_t source = 0;                              // index in the list of sources
    std::size_t depth = 0;                               // drafts to ask for, at least 1
    std::optional<std::size_t> strength = std::nullopt;  // of its offer; none: it told nothing
    bool operator==(const Part&) const = default;
  };

  /// In the order of the window: one source, or a head that offers something and a tail that drafts
  /// behind it. None: no drafts.
  std::vector<Part> parts = {};
  double expected_tokens = 1;
  double predicted_us = 0;          // of the whole round; 0: nothing measured yet
  double instead_us_per_token = 0;  // of a probe: what the best choice is believed to take
  std::optional<double> missing_bytes = std::nullopt;  // as predicted for all its rows
  std::vector<double> all_missing_bytes = {};          // the inputs', for any number of rows
  std::size_t context = 0;
  PlanReason reason = PlanReason::kNoSource;

  std::size_t depth() const noexcept {
    std::size_t sum = 0;
    for (const Part& part : parts) sum += part.depth;
    return sum;
  }
};

/// What a round was and took.
struct RoundOutcome {
  struct Part {
    std::size_t n_asked = 0;
    std::size_t n_drafted = 0;
  };

  std::vector<Part> parts = {};  // those of the plan
  std::size_t n_accepted = 0;
  std::int64_t draft_us = 0;
  std::int64_t rest_us = 0;   // forward, verify and observe
  std::int64_t stall_us = 0;  // of rest_us: computing waited for experts
  double missing_bytes = 0;   // of the experts that the forward had to read
};

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

  RoundPlan plan(const PlanInputs& inputs) const;
  /// After every round, with the plan it followed.
  void record(const RoundPlan& plan, const RoundOutcome& outcome);

  /// Microseconds a round without drafts takes with these inputs, 0 if unknown: the baseline of the
  /// trace's regret.
  double baseline_us(const PlanInputs& inputs) const;

 private:
  struct Source {
    AcceptanceHistory alone;
    std::array<AcceptanceHistory, Offer::kStrengths> offered;  // by strength
    AcceptanceHistory as_tail;
    CostCurve draft_cost{1.0};
    std::size_t n_asked = 0;
    std::size_t n_as_tail = 0;
    std::uint64_t last_as_tail = 0;                               // round
    std::uint64_t last_round = 0;                                 // it was asked in
    std::array<std::uint64_t, kMaxDraftTokens + 1> last_asked{};  // by depth: the latest round
  };
  struct Choice {
    std::vector<RoundPlan::Part> parts;
    double tokens = 1;
    double cost_us = 0;
    double rate() const { return tokens / cost_us; }
    std::size_t depth() const;
    bool is_of(std::size_t source) const;
  };
  struct Range {  // of depths
    std::size_t min = 0;
    std::size_t max = 0;
  };

  RoundPlan choose(const PlanInputs& inputs) const;
  RoundPlan as_plan(const PlanInputs& inputs, const Choice& choice, PlanReason reason) const;
  RoundPlan as_probe(const PlanInputs& inputs,
                     const Choice& choice,
                     const Choice& instead_of) const;
  // In units of a one-row round as long as nothing is measured, else in microseconds.
  double rest_us(const PlanInputs& inputs, std::size_t n_drafts) const;
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
    double budget_us = 0;
    bool is_affordable(const Choice& choice) const;
  };
  using Probe = std::optional<Choice>;
  Probe first_trial(const PlanInputs& inputs, const Candidates& candidates, Range depths) const;
  Probe youngest(const PlanInputs& inputs, const Candidates& candidates, Range depths) const;
  Probe longest_waiting(const PlanInputs& inputs, const Candidates& candidates, Range depths) const;
  const Source& tail_of(const Choice& pair) const;
  void record_drafts(const RoundPlan& plan, const RoundOutcome& outcome);
  void record_choice(const RoundPlan& plan, const RoundOutcome& outcome);

  PlannerOptions options_;
  std::vector<Source> sources_;
  ContextCosts rest_cost_;  // by rows of the forward; without waiting where reads are predicted
  ReadCosts read_cost_;
  // Of the latest choice that no offer decided. retry: a probe that went well is repeated at once.
  std::optional<RoundPlan::Part> held_;
  std::optional<RoundPlan::Part> retry_;
  std::uint64_t n_rounds_ = 0;
  std::uint64_t last_probe_ = 0;
  std::uint64_t last_neighbour_ = 0;  // probe of the held source at another depth
  std::uint64_t last_baseline_ = 0;
  double elapsed_us_ = 0;
  double regret_us_ = 0;  // spent on probes
};

}  // namespace ft::speculation
