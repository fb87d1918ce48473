// Percentiles of latencies over a lifetime in fixed space: counts in steps of about 9 %.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ft::experts {

class LatencyHistogram {
 public:
  void add(std::int64_t us) noexcept;
  /// The latency that `share` of them, in (0, 1], did not exceed, rounded up to the end of its
  /// step; 0 without any.
  std::int64_t percentile(double share) const noexcept;
  /// What was added after `earlier`, a copy of this one.
  LatencyHistogram since(const LatencyHistogram& earlier) const noexcept;

 private:
  // 8 steps per doubling; the last holds everything from 2^36 us (19 hours).
  static constexpr std::size_t kStepsPerDoubling = 8;
  static constexpr std::size_t kSteps = 36 * kStepsPerDoubling + 1;
  std::array<std::uint64_t, kSteps> counts_{};
  std::uint64_t n_ = 0;
};

}  // namespace ft::experts
