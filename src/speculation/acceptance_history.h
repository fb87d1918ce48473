// What became of drafts, by their position: the planner's expectation of the next one.
#pragma once

#include "speculation/draft_limits.h"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace ft::speculation {

/// How one source has done, by position in the draft (1 is the first): decayed counts with a prior.
class AcceptanceHistory {
 public:
  /// What is expected of the first draft before anything is known, and how many drafts that weighs.
  struct Prior {
    double accepted = 0.6;
    double weight = 1;
  };

  /// asked >= drafted >= accepted.
  void observe(std::size_t asked, std::size_t drafted, std::size_t accepted);
  struct Estimate {
    /// P(draft i is offered and accepted | i asked for, drafts before it accepted).
    double accepted = 0;
    double offered = 0;  // P(at least i drafts are offered | i asked for)
  };
  /// What it says of another text: the same, known from a few rounds only.
  AcceptanceHistory faded() const;
  /// For positions 1 … n.
  std::vector<Estimate> estimate(std::size_t n) const { return estimate(n, Prior{}); }
  std::vector<Estimate> estimate(std::size_t n, Prior prior) const;

  /// All that it is made of, see number_list.h.
  std::vector<double> numbers() const;
  /// Makes this the history that has these numbers. Throws InvalidInput naming `where` if none has.
  void set_numbers(std::span<const double> numbers, std::string_view where);

 private:
  struct Counts {
    double trials = 0;
    double hits = 0;
    double calls = 0;
    double offers = 0;
  };
  void keep(double n_rounds);
  void notice_change(const std::vector<Estimate>& expected, std::size_t accepted);
  template <typename Numbers>
  void each_field(Numbers& numbers);

  std::array<Counts, kMaxDraftTokens + 1> counts_{};
  // Evidence (natural logarithm of a likelihood ratio) that drafts do better, or worse, than the
  // estimates say, since there was none.
  double better_ = 0;
  double worse_ = 0;
};

}  // namespace ft::speculation
