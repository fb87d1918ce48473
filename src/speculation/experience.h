// What a planner learned and leaves to the planners of later sequences. A value.
#pragma once

#include "speculation/acceptance_history.h"
#include "speculation/cost_curve.h"
#include "speculation/offer.h"
#include "speculation/read_costs.h"

#include <array>
#include <cstddef>
#include <vector>

namespace ft::speculation {

struct Experience {
  struct Source {
    AcceptanceHistory alone;
    std::array<AcceptanceHistory, Offer::kStrengths> offered;  // by strength
    AcceptanceHistory as_tail;
    CostCurve draft_cost{{.slope = 1, .deviation = 0.3}};
    std::size_t n_asked = 0;
    std::size_t n_as_tail = 0;
  };

  std::vector<Source> sources;
  ContextCosts rest_cost{kForwardPrior};  // by rows; without waiting where reads are predicted
  ReadCosts read_cost;
  std::size_t deepest = 0;  // drafts of a round so far

  /// For another sequence on the same machine with the same sources: costs are as they were, though
  /// new measurements count for more, and of acceptance a little is believed.
  Experience faded() const;
};

}  // namespace ft::speculation
