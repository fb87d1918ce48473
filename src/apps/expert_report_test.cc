#include "apps/expert_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::apps {
namespace {

using ::testing::HasSubstr;

foretoken::ExpertStatistics streamed() {
  foretoken::ExpertStatistics out;
  out.mode = "stream";
  out.trunk = {.hits = 60, .misses = 30, .bytes_read = 3'000'000, .evictions = 5, .n_slots = 40};
  out.draft = {.hits = 10, .misses = 0, .bytes_read = 1'000'000, .n_slots = 4};
  out.hits = 70;
  out.misses = 30;
  out.hit_rate = 0.7;
  out.bytes_read = 4'000'000;
  out.stall_ms = 500;
  return out;
}

TEST(ExpertReport, SaysNothing_WhenExpertsAreResident) {
  EXPECT_EQ(experts_text({}, 1000), "");
}

TEST(ExpertReport, TellsHitsBytesWaitingAndOneKnob) {
  foretoken::ExpertStatistics experts = streamed();
  EXPECT_EQ(
      experts_text(experts, 1000),
      "experts: 70.0 % hits with 40 + 4 slots; 4 MB read, 4 MB/s, half within 0.0 ms; waited "
      "50 % of the time; the drive is the bound: raise --ram-budget, or add a copy on another "
      "drive (--mirror)\n");
  experts.trunk.reads_ahead = 10;
  experts.trunk.used_ahead = 2;
  EXPECT_THAT(experts_text(experts, 1000), HasSubstr("--lookahead off"));
  EXPECT_THAT(experts_text(experts, 100'000), HasSubstr("computing is the bound"));
  experts.trunk.failed_reads = 1;
  EXPECT_THAT(experts_text(experts, 1000), HasSubstr("check the drive"));
}

TEST(ExpertReport, JudgesNothing_WhenCancelledBeforeTheFirstToken) {
  EXPECT_EQ(experts_text(streamed(), 0), "experts: 4 MB read into 40 + 4 slots\n");
}

TEST(ExpertReport, SharesOfNoTimeAreZero) {
  EXPECT_EQ(read_bytes_per_s(streamed(), 0), 0);
  EXPECT_EQ(stall_share(streamed(), 0), 0);
  EXPECT_EQ(stall_share(streamed(), 100), 1);
  EXPECT_EQ(read_bytes_per_s(streamed(), 1000), 4e6);
}

}  // namespace
}  // namespace ft::apps
