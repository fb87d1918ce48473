// What became of drafts, by their position: the planner's expectation of the next one.
#pragma once

#include "speculation/draft_limits.h"

#include <array>
#include <cstddef>
#include <vector>

namespace ft::speculation {

/// How one source has done, by position in the draft (1 is the first): decayed counts with a prior.
class AcceptanceHistory {
 public:
  static constexpr double kPriorAcceptance = 0.6;

  /// asked >= drafted >= accepted.
  void observe(std::size_t asked, std::size_t drafted, std::size_t accepted);
  struct Estimate {
    /// P(draft i is offered and accepted | i asked for, drafts before it accepted).
    double accepted = 0;
    double offered = 0;  // P(at least i drafts are offered | i asked for)
  };
  /// For positions 1 … n. prior: acceptance of the first draft as long as nothing is known.
  std::vector<Estimate> estimate(std::size_t n, double prior = kPriorAcceptance) const;

 private:
  struct Counts {
    double trials = 0;
    double hits = 0;
    double calls = 0;
    double offers = 0;
  };
  void notice_change(bool is_hit);

  std::array<Counts, kMaxDraftTokens + 1> counts_{};
  double run_probability_ = 1;  // of the latest run of equal outcomes of the first draft
  bool run_is_hits_ = false;
};

}  // namespace ft::speculation
