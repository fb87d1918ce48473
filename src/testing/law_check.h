// Whether counts come from a law: Pearson's chi-square statistic, for tests of sampling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ft::testing {

class LawCheck {
 public:
  /// One sample: counts[i] of the outcome that has probability law[i]. Samples add up, each with
  /// its own law. Outcomes that a sample is expected to hold less than five times are one outcome.
  void add(std::span<const std::uint64_t> counts, std::span<const double> law);

  std::size_t n_degrees() const noexcept { return n_degrees_; }
  /// Outcomes of probability 0 that came nevertheless.
  std::uint64_t n_impossible() const noexcept { return n_impossible_; }
  /// By how many standard deviations the statistic is above what it is if the law is right
  /// (Wilson and Hilferty 1931); infinite if something impossible came.
  double sigmas() const;

 private:
  double statistic_ = 0;
  std::size_t n_degrees_ = 0;
  std::uint64_t n_impossible_ = 0;
};

}  // namespace ft::testing
