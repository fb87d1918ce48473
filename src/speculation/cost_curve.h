// What rounds and drafts take on this machine, learned from what they took: the planner's costs.
// Values without a clock: they follow from the measurements they were given, in order.
#pragma once

#include "speculation/draft_limits.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ft::speculation {

/// Microseconds of an operation on n things, learned online: a line (a Kalman filter of two states,
/// value and slope), and of each n how it was measured to differ from the line, believed the more
/// the oftener. A slow measurement counts less than a fast one: other processes and cold memory
/// make an operation longer, nothing makes it shorter.
class CostCurve {
 public:
  /// What one more thing costs as a share of the cost per thing (1: proportional to n), as long as
  /// only one n is measured, and its standard deviation.
  struct Prior {
    double slope = 1;
    double deviation = 0.3;
  };
  explicit CostCurve(Prior prior) : prior_(prior) {}

  void observe(std::size_t n, double cost_us);
  bool is_empty() const noexcept { return n_observed_ == 0; }
  std::size_t n_observed() const noexcept { return n_observed_; }
  std::size_t n_observed(std::size_t n) const { return count_.at(n); }
  /// 0 if empty.
  double predict(std::size_t n) const;
  /// The share by which n may well cost less than predicted, by how often and how long ago it was
  /// measured.
  double doubt(std::size_t n) const;
  /// The same values, of a place where they may differ: the next measurements count for more.
  CostCurve young() const;

  /// All that it is made of but the prior, see number_list.h.
  std::vector<double> numbers() const;
  /// Makes this the curve that has these numbers. Throws InvalidInput naming `where` if none has.
  void set_numbers(std::span<const double> numbers, std::string_view where);

 private:
  void start(double n, double cost_us);
  void drift();
  void correct(double n, double cost_us);
  double line(double n) const;
  double variance(double n) const;
  template <typename Numbers>
  void each_field(Numbers& numbers);

  Prior prior_;
  std::array<std::uint32_t, kMaxDraftTokens + 2> count_{};
  std::array<double, kMaxDraftTokens + 2> known_{};   // like count_, fading
  std::array<double, kMaxDraftTokens + 2> excess_{};  // over the line, as a share of it
  std::size_t n_observed_ = 0;
  double at_0_ = 0;
  double slope_ = 0;
  double var_at_0_ = 0;
  double covariance_ = 0;
  double var_slope_ = 0;
};

/// Of a forward by its rows, before more than one number of them is measured. Low: what looks cheap
/// is tried, and one round corrects it.
inline constexpr CostCurve::Prior kForwardPrior{.slope = 0.15, .deviation = 0.2};

/// What of a forward's time no row adds, for it is the weights' that all rows pass through: from
/// the narrowest forwards that were measured and those of as many rows. What is extrapolated is
/// then never more than the narrowest took.
class ForwardCosts {
 public:
  /// A forward in which every row has logits.
  void observe(std::size_t n_rows, double forward_us);
  /// As a part of the time of n_rows >= 1, 0 ... 1.
  double fixed_part(std::size_t n_rows) const;

 private:
  struct Width {
    double us = 0;  // of late
    std::size_t n_observed = 0;
  };
  std::array<Width, kMaxDraftTokens + 2> widths_{};  // by rows
};

/// One CostCurve per octave of the context: attention and the indexer read what is in the cache. An
/// octave that was never measured is believed to cost what the latest one does.
class ContextCosts {
 public:
  explicit ContextCosts(CostCurve::Prior prior) : none_(prior) {}

  void observe(std::size_t context, std::size_t n, double cost_us);
  ContextCosts young() const;
  bool is_empty() const noexcept { return curves_.empty(); }
  const CostCurve& at(std::size_t context) const;
  /// Of the context that was measured last.
  const CostCurve& latest() const { return is_empty() ? none_ : curves_[latest_]; }

  /// All that it is made of but the prior: the numbers of each curve.
  struct Numbers {
    std::vector<std::vector<double>> curves;  // by octave
    std::size_t latest = 0;                   // index of the one measured last
  };
  Numbers numbers() const;
  /// Makes these the costs that have these numbers. Throws InvalidInput naming `where` if none
  /// have.
  void set_numbers(const Numbers& numbers, std::string_view where);

 private:
  CostCurve none_;
  std::vector<CostCurve> curves_;  // by octave
  std::size_t latest_ = 0;
};

}  // namespace ft::speculation
