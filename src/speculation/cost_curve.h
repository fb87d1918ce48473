// What rounds and drafts take on this machine, learned from what they took: the planner's costs.
// Values without a clock: they follow from the measurements they were given, in order.
#pragma once

#include "speculation/draft_limits.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ft::speculation {

/// Microseconds of an operation on n things, learned online per n: interpolated between measured n,
/// extrapolated beyond. One slow measurement moves an estimate by a bounded factor.
class CostCurve {
 public:
  /// prior_slope: cost of one more thing as a share of the cost per thing, as long as only one n is
  /// measured (1: proportional to n).
  explicit CostCurve(double prior_slope) : prior_slope_(prior_slope) {}

  void observe(std::size_t n, double cost_us);
  bool is_empty() const noexcept { return n_observed_ == 0; }
  std::size_t n_observed() const noexcept { return n_observed_; }
  std::size_t n_observed(std::size_t n) const { return costs_.at(n).count; }
  /// 0 if empty.
  double predict(std::size_t n) const;
  /// The same values, of a place where they may differ: the next measurements count as much as all
  /// that were taken so far.
  CostCurve young() const;

 private:
  struct Cost {
    double mean_us = 0;
    std::uint32_t count = 0;
    std::uint32_t n_averaged = 0;  // of them, in the mean
    std::uint32_t n_aside = 0;     // the latest that were all above the mean, or all below
    bool is_above = false;
  };

  double bounded(std::size_t n) const;
  double believed(std::size_t n) const;
  double from_others(std::size_t n, std::uint32_t least_count) const;

  double prior_slope_;
  std::array<Cost, kMaxDraftTokens + 2> costs_{};
  std::size_t end_ = 0;  // all measured n are below
  std::size_t n_observed_ = 0;
};

/// One CostCurve per octave of the context: attention and the indexer read what is in the cache. An
/// octave that was never measured is believed to cost what the latest one does.
class ContextCosts {
 public:
  explicit ContextCosts(double prior_slope) : none_(prior_slope) {}

  void observe(std::size_t context, std::size_t n, double cost_us);
  bool is_empty() const noexcept { return curves_.empty(); }
  const CostCurve& at(std::size_t context) const;
  /// Of the context that was measured last.
  const CostCurve& latest() const { return is_empty() ? none_ : curves_[latest_]; }

 private:
  CostCurve none_;
  std::vector<CostCurve> curves_;  // by octave
  std::size_t latest_ = 0;
};

}  // namespace ft::speculation
