// Rounds as a trace keeps them, and the planner's choices computed again from them.
#pragma once

#include "speculation/offer.h"
#include "speculation/round_planner.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ft::speculation {

struct RecordedRound {
  std::size_t position = 0;  // of the pending token
  std::size_t max_drafts = 0;
  std::size_t context = 0;
  std::vector<std::optional<Offer>> offers;
  std::vector<double> missing_bytes;
  RoundPlan plan;  // instead_us_per_token is not kept
  RoundOutcome outcome;

  /// Refers to this.
  PlanInputs inputs() const noexcept {
    return {.max_drafts = max_drafts,
            .context = context,
            .offers = offers,
            .missing_bytes = missing_bytes};
  }
};

/// One request, every round of it.
struct RecordedTrace {
  std::vector<std::string> sources;
  PlannerOptions options;
  std::optional<Experience> inherited;  // of as many sources; none: the planner started anew
  std::vector<RecordedRound> rounds;

  /// As it was before the first round.
  RoundPlanner planner() const;
};

struct PlanDifference {
  std::size_t round = 0;
  std::string recorded;
  std::string recomputed;
};

/// A planner that starts as the recorded one did is given what that one was given. The first round
/// in which it chooses something else, or for another reason, or predicts another time or number of
/// tokens.
std::optional<PlanDifference> find_difference(const RecordedTrace& trace);

/// "mtp 3, ngram 2: best, 1.93 tokens in 1043.2 us".
std::string describe(const RoundPlan& plan, const std::vector<std::string>& sources);

}  // namespace ft::speculation
