#include "engine/expert_counts.h"

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

TEST(ExpertCounts, ResidentExpertsHaveNone) {
  const foretoken::ExpertStatistics out = experts_between({}, {});
  EXPECT_EQ(out.mode, "resident");
  EXPECT_EQ(out.hit_rate, 1);
}

TEST(ExpertCounts, AreTheDifferenceOfTwoMoments) {
  experts::ExpertStats start;
  start.is_streaming = true;
  start.trunk = {.hits = 10, .misses = 5, .bytes_read = 100, .evictions = 1, .n_slots = 9};
  start.draft = {.hits = 1, .misses = 1, .bytes_read = 10};
  start.stall_us = 1000;
  for (int i = 0; i < 100; ++i) start.read_latencies.add(1'000'000);
  experts::ExpertStats end = start;
  end.trunk.hits += 30;
  end.trunk.misses += 10;
  end.trunk.bytes_read += 500;
  end.trunk.reads_ahead += 3;
  end.trunk.n_slots = 7;
  end.draft.misses += 10;
  end.draft.bytes_read += 50;
  end.stall_us += 2500;
  end.read_latencies.add(2000);
  const foretoken::ExpertStatistics out = experts_between(start, end);
  EXPECT_EQ(out.mode, "stream");
  EXPECT_EQ(out.hits, 30U);
  EXPECT_EQ(out.misses, 20U);
  EXPECT_EQ(out.hit_rate, 0.6);
  EXPECT_EQ(out.bytes_read, 550U);
  EXPECT_EQ(out.stall_ms, 2.5);
  EXPECT_EQ(out.trunk.reads_ahead, 3U);
  EXPECT_EQ(out.trunk.n_slots, 7U);
  // The slow reads before do not count; steps are 9 % wide.
  EXPECT_GE(out.read_p99_ms, 2.0);
  EXPECT_LE(out.read_p99_ms, 2.2);
}

}  // namespace
}  // namespace ft::engine
