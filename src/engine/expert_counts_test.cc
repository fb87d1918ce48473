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

TEST(ExpertCounts, WritesBothTiersForScripts) {
  foretoken::ExpertStatistics experts;
  experts.mode = "stream";
  experts.misses = 30;
  experts.trunk.reads_ahead = 8;
  experts.trunk.used_ahead = 2;
  experts.draft.n_slots = 4;
  json::Writer writer;
  write_experts(writer, experts);
  const json::Value out = json::parse(writer.text(), "experts");
  EXPECT_EQ(out.find("mode")->as_string("mode"), "stream");
  EXPECT_EQ(out.find("misses")->as_integer("misses"), 30);
  EXPECT_EQ(out.find("trunk")->find("precision")->as_real("precision"), 0.25);
  EXPECT_EQ(out.find("draft")->find("precision")->as_real("precision"), 0);
  EXPECT_EQ(out.find("draft")->find("n_slots")->as_integer("n_slots"), 4);
}

}  // namespace
}  // namespace ft::engine
