#include "experts/latency_histogram.h"

#include <algorithm>
#include <cmath>

namespace ft::experts {

void LatencyHistogram::add(std::int64_t us) noexcept {
  const double doublings = std::log2(static_cast<double>(std::max<std::int64_t>(us, 1)));
  const double step = std::ceil(doublings * static_cast<double>(kStepsPerDoubling));
  ++counts_[std::min(static_cast<std::size_t>(step), kSteps - 1)];
  ++n_;
}

std::int64_t LatencyHistogram::percentile(double share) const noexcept {
  if (n_ == 0) return 0;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(n_)));
  std::size_t step = 0;
  for (std::uint64_t below = counts_[0]; below < wanted && step + 1 < kSteps;) {
    below += counts_[++step];
  }
  const double doublings = static_cast<double>(step) / static_cast<double>(kStepsPerDoubling);
  return static_cast<std::int64_t>(std::floor(std::exp2(doublings)));
}

LatencyHistogram LatencyHistogram::since(const LatencyHistogram& earlier) const noexcept {
  LatencyHistogram out;
  for (std::size_t i = 0; i < kSteps; ++i) out.counts_[i] = counts_[i] - earlier.counts_[i];
  out.n_ = n_ - earlier.n_;
  return out;
}

}  // namespace ft::experts
