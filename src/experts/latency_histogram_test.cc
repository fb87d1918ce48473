#include "experts/latency_histogram.h"

#include <gtest/gtest.h>

namespace ft::experts {
namespace {

TEST(LatencyHistogram, HasNoneWithoutReads) {
  EXPECT_EQ(LatencyHistogram().percentile(0.5), 0);
}

TEST(LatencyHistogram, IsRightToOneStep) {
  LatencyHistogram histogram;
  for (std::int64_t us = 1; us <= 10000; ++us) histogram.add(us);
  for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const auto exact = static_cast<double>(10000) * share;
    EXPECT_GE(static_cast<double>(histogram.percentile(share)), exact - 1);
    EXPECT_LE(static_cast<double>(histogram.percentile(share)), exact * 1.1);
  }
}

TEST(LatencyHistogram, TakesAnyNumber) {
  LatencyHistogram histogram;
  histogram.add(-5);
  histogram.add(0);
  EXPECT_EQ(histogram.percentile(1), 1);
  histogram.add(std::int64_t{1} << 62);
  EXPECT_EQ(histogram.percentile(1), std::int64_t{1} << 36);
}

}  // namespace
}  // namespace ft::experts
