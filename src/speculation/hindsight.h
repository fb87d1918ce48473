// Which choice a planner should have made once and for all.
#pragma once

#include "speculation/round_plan.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace ft::speculation {

struct FixedChoice {
  std::optional<std::size_t> source = std::nullopt;  // none: no drafts
  std::size_t depth = 0;
  double regret = 0;  // what a token took, over what it would have by this choice, less 1
};

/// Of all rounds whose plans have the prices of the fixed choices, in times and tokens as they were
/// believed then (of the first rounds: soon after, since memory was cold), so that neither luck nor
/// interruptions count.
class Hindsight {
 public:
  /// max_depth: that of each source in RoundPlan::fixed.
  explicit Hindsight(std::size_t max_depth) : max_depth_(max_depth) {}

  void add(const RoundPlan& plan);
  /// Nothing if there was no such round.
  std::optional<FixedChoice> best() const;

 private:
  std::size_t max_depth_;
  std::vector<std::size_t> first_choices_;  // of the first rounds: indices into fixed_
  std::vector<RoundPlan::Price> fixed_;     // as of the last of them
  std::vector<double> fixed_us_;            // of the later rounds, by fixed choice
  double taken_us_ = 0;
};

}  // namespace ft::speculation
