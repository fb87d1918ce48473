#include "engine/memory_guard.h"

#include "testing/fake_clock.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

constexpr std::uint64_t kMi = std::uint64_t{1} << 20;

class MemoryGuardTest : public ::testing::Test {
 protected:
  MemoryGuardTest() {
    plan_.budget_bytes = 1000 * kMi;
    plan_.mapped_bytes = 100 * kMi;
    plan_.trunk = {.n_slots = 50, .least_slots = 8, .n_experts = 100, .slot_bytes = 4 * kMi};
    plan_.draft = {.n_slots = 10, .least_slots = 8, .n_experts = 100, .slot_bytes = 8 * kMi};
    limits_.total_bytes = 3200 * kMi;  // a reserve of 100 Mi
    limits_.available_bytes = 1000 * kMi;
    limits_.are_groups_known = true;
  }

  MemoryGuard guard() {
    return MemoryGuard(
        plan_,
        {.clock = clock_,
         .anonymous_bytes = [this] { return held_; },
         .limits = [this] { return limits_; },
         .drop_idle = [this] { return std::exchange(has_idle_, false); },
         .shrink = [this](experts::Tier tier,
                          std::size_t n_slots) { shrinks_.emplace_back(tier, n_slots); },
         .warn = [this](std::string_view line) { warnings_.emplace_back(line); }});
  }

  MemoryPlan plan_;
  io::MemoryLimits limits_;
  std::uint64_t held_ = 1000 * kMi;
  bool has_idle_ = false;
  testing::FakeClock clock_;
  std::vector<std::pair<experts::Tier, std::size_t>> shrinks_;
  std::vector<std::string> warnings_;
};

using Shrinks = std::vector<std::pair<experts::Tier, std::size_t>>;

TEST_F(MemoryGuardTest, LeavesThePoolAlone_WhenThereIsMemory) {
  MemoryGuard guard = this->guard();
  limits_.available_bytes = 150 * kMi;  // mapped weights and half of the reserve
  guard.check();
  limits_.available_bytes.reset();  // the kernel does not say
  clock_.advance(MemoryGuard::kIntervalUs);
  guard.check();
  EXPECT_TRUE(shrinks_.empty());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(MemoryGuardTest, DropsWhatIsIdleFirst) {
  MemoryGuard guard = this->guard();
  has_idle_ = true;
  held_ = 1010 * kMi;
  guard.check();
  EXPECT_FALSE(has_idle_);
  EXPECT_TRUE(shrinks_.empty());
  clock_.advance(MemoryGuard::kSettlingUs - 1);
  guard.check();
  EXPECT_TRUE(shrinks_.empty());
  clock_.advance(1);
  guard.check();
  EXPECT_EQ(shrinks_.size(), 1U);
}

TEST_F(MemoryGuardTest, ShrinksByWhatIsMissing) {
  MemoryGuard guard = this->guard();
  held_ = 1009 * kMi;  // three slots of 4
  guard.check();
  EXPECT_EQ(shrinks_, (Shrinks{{experts::Tier::kTrunk, 47}}));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("57 slots"), std::string::npos) << warnings_[0];
}

TEST_F(MemoryGuardTest, ShrinksWhenOthersTakeTheMemory) {
  MemoryGuard guard = this->guard();
  limits_.group = io::GroupLimit{
      .folder = "/g", .limit_bytes = 3200 * kMi, .used_bytes = 3070 * kMi, .cache_bytes = 0};
  guard.check();  // 130 are left, 150 is the alarm
  EXPECT_EQ(shrinks_, (Shrinks{{experts::Tier::kTrunk, 45}}));
}

TEST_F(MemoryGuardTest, LooksAgainOnlyAfterAWhileAndWarnsOnce) {
  MemoryGuard guard = this->guard();
  held_ = 1004 * kMi;
  guard.check();
  guard.check();
  clock_.advance(MemoryGuard::kIntervalUs);
  guard.check();
  EXPECT_EQ(shrinks_.size(), 1U);
  clock_.advance(MemoryGuard::kSettlingUs);
  guard.check();
  EXPECT_EQ(shrinks_.size(), 2U);
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(MemoryGuardTest, NeverTakesWhatOneRowNeeds) {
  MemoryGuard guard = this->guard();
  held_ = 9000 * kMi;
  for (int i = 0; i < 5; ++i) {
    guard.check();
    clock_.advance(MemoryGuard::kSettlingUs);
  }
  EXPECT_EQ(shrinks_, (Shrinks{{experts::Tier::kTrunk, 8}, {experts::Tier::kDraft, 8}}));
}

}  // namespace
}  // namespace ft::engine
