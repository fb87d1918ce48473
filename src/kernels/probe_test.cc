#include "kernels/probe.h"

#include "kernels/test_backend.h"

#include <vector>

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

class ProbeTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(EachIsa, ProbeTest, testing::ValuesIn(usable_isas()), isa_test_name);

/// Every reading lies a millisecond behind the one before: the figures follow from the counts.
class SteppingClock final : public Clock {
 public:
  std::int64_t now_us() const override { return now_us_ += 1000; }

 private:
  mutable std::int64_t now_us_ = 0;
};

TEST_P(ProbeTest, DividesWhatWasDoneByTheTime) {
  ThreadPool pool(2);
  const SteppingClock clock;
  const Probe probe(GetParam(), pool, clock);
  const std::vector<float> buffer(256 * 1000 + 17, 1.0F);
  EXPECT_EQ(probe.read_bytes_per_s(buffer, 2), 256 * 1000 * 4 * 1e3);
  const double one = probe.f32_ops_per_s(1, 1000);
  EXPECT_GT(one, 0);
  EXPECT_EQ(probe.f32_ops_per_s(2, 1000), 2 * one);
}

TEST_P(ProbeTest, SaysZeroWhereThereAreNoIntegerProducts) {
  ThreadPool pool(1);
  const SteadyClock clock;
  const Probe probe(GetParam(), pool, clock);
  const double int8 = probe.int8_ops_per_s(2000);
  if (GetParam() == Isa::kRef) {
    EXPECT_EQ(int8, 0);
  } else {
    EXPECT_GE(int8, 0);
  }
}

}  // namespace
}  // namespace ft::kernels
