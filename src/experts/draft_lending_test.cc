#include "experts/draft_lending.h"

#include "experts/slot_tiers.h"
#include "experts/streaming_test_fixture.h"

#include <array>
#include <random>

namespace ft::experts {
namespace {

// --- when ---

int lending_after(DraftLending& lending, int most_passes) {
  int n = 0;
  for (; n < most_passes && !lending.is_lent(); ++n) lending.end_pass();
  return n;
}

TEST(DraftLendingTest, LendsUntilDraftsAreAskedFor) {
  DraftLending lending;
  EXPECT_TRUE(lending.is_lent());
  lending.end_pass();
  EXPECT_TRUE(lending.is_lent());
}

TEST(DraftLendingTest, LendsOnceNearlyNobodyDrafts) {
  DraftLending lending;
  for (int pass = 0; pass < 100; ++pass) {
    lending.asked();
    lending.end_pass();
    EXPECT_EQ(lending.is_lent(), pass < DraftLending::kRecalledFrom - 1);
  }
  EXPECT_EQ(lending_after(lending, 100), DraftLending::kWindowPasses - DraftLending::kLentUpTo);
}

TEST(DraftLendingTest, ProbesNeitherHinderNorRecall) {
  DraftLending lending;
  for (int pass = 0; pass < 1000; ++pass) {
    if (pass % 16 == 0) lending.asked();
    lending.end_pass();
    EXPECT_TRUE(lending.is_lent()) << pass;
  }
}

TEST(DraftLendingTest, RecallsAtTheFourthPassWithDrafts) {
  DraftLending lending;
  lending_after(lending, 100);
  for (int pass = 0; pass < 32; ++pass) lending.end_pass();
  for (int n = 1; n <= 4; ++n) {
    EXPECT_TRUE(lending.is_lent());
    lending.asked();
    lending.asked();
    lending.end_pass();
  }
  EXPECT_FALSE(lending.is_lent());
}

TEST(DraftLendingTest, MovesAtMostTwiceInAWindow) {
  std::mt19937_64 dice(7);
  DraftLending lending;
  int n_moves = 0;
  for (int pass = 0; pass < 100'000; ++pass) {
    const bool was_lent = lending.is_lent();
    if (dice() % 32 < 3) lending.asked();
    lending.end_pass();
    n_moves += was_lent != lending.is_lent() ? 1 : 0;
  }
  EXPECT_GT(n_moves, 100);
  EXPECT_LT(n_moves, 2 * 100'000 / DraftLending::kWindowPasses);
}

// --- what becomes of the memory ---

constexpr std::size_t kPage = 4096;
constexpr ExpertId kFirstDraft = 12;  // of 12 experts each

/// Two tiers, and for every slot in use the bytes that it must hold.
class SlotTiersTest : public ::testing::Test {
 protected:
  explicit SlotTiersTest(TierSize trunk = {4, 2 * kPage, 12}, TierSize draft = {6, 3 * kPage, 12})
      : tiers_(trunk, draft), bytes_(trunk.n_slots * 2 * kPage + draft.n_slots * 3 * kPage) {}

  using Sizes = std::array<std::size_t, 2>;
  Sizes sizes() {
    return {tiers_.pool(Tier::kTrunk).n_slots(), tiers_.pool(Tier::kDraft).n_slots()};
  }
  static ExpertId first_of(Tier tier) { return tier == Tier::kTrunk ? 0 : kFirstDraft; }

  /// Reads `expert` into a slot; false if there is none.
  bool load(Tier tier, ExpertId expert) {
    if (!start(tier, expert)) return false;
    finish(tier, expert);
    return true;
  }
  bool start(Tier tier, ExpertId expert) {
    std::vector<std::uint32_t> taken;
    tiers_.pool(tier).take(1, *policy_, usage_, taken);
    if (taken.empty()) return false;
    usage_.used(expert);
    tiers_.pool(tier).start_loading(taken.front(), expert, Guess::kNone);
    return true;
  }
  void finish(Tier tier, ExpertId expert) {
    const std::uint32_t slot = tiers_.pool(tier).slot_of(expert);
    std::ranges::fill(tiers_.pool(tier).memory(slot), std::byte(expert + 1));
    tiers_.pool(tier).loaded(slot, {});
  }
  void load_all() {
    for (const Tier tier : {Tier::kTrunk, Tier::kDraft}) {
      for (ExpertId i = 0; i < 12; ++i) load(tier, first_of(tier) + i);
    }
  }
  std::uint32_t slot_of(Tier tier, ExpertId expert) { return tiers_.pool(tier).slot_of(expert); }
  /// The resident one in the last slot.
  ExpertId last_of(Tier tier) {
    SlotPool& pool = tiers_.pool(tier);
    return pool.expert_in(static_cast<std::uint32_t>(pool.n_slots() - 1));
  }

  /// Whatever is ready holds its bytes, and the pools keep to the memory.
  void check() {
    std::size_t taken = 0;
    for (const Tier tier : {Tier::kTrunk, Tier::kDraft}) {
      SlotPool& pool = tiers_.pool(tier);
      taken += pool.end() * pool.slot_bytes();
      for (ExpertId i = 0; i < 12; ++i) {
        const std::uint32_t slot = pool.slot_of(first_of(tier) + i);
        if (slot == kNoSlot || !pool.is_ready(slot)) continue;
        const std::byte expected{static_cast<unsigned char>(first_of(tier) + i + 1)};
        const std::span<std::byte> bytes = pool.memory(slot);
        ASSERT_EQ(std::ranges::count(bytes, expected), std::ssize(bytes));
      }
    }
    ASSERT_LE(taken, bytes_);
  }

  SlotTiers tiers_;
  std::size_t bytes_;  // of the own slots of both
  std::unique_ptr<ResidencyPolicy> policy_ = make_residency_policy(PolicyKind::kLru);
  ExpertUsage usage_{24};
};

TEST_F(SlotTiersTest, LentMemoryIsTheMainModels) {
  load_all();
  tiers_.set_lent(true);
  EXPECT_EQ(sizes(), (Sizes{10, 2}));
  load_all();
  check();
  tiers_.set_lent(false);
  EXPECT_EQ(sizes(), (Sizes{4, 6}));
  load_all();
  check();
}

TEST_F(SlotTiersTest, WhatIsInUseStaysUntilItIsGivenBack) {
  load_all();
  const ExpertId draft = last_of(Tier::kDraft);
  tiers_.pool(Tier::kDraft).hold(slot_of(Tier::kDraft, draft));
  tiers_.set_lent(true);
  EXPECT_EQ(sizes(), (Sizes{4, 2}));
  tiers_.pool(Tier::kDraft).release(slot_of(Tier::kDraft, draft));
  EXPECT_EQ(slot_of(Tier::kDraft, draft), kNoSlot);
  tiers_.settle();
  EXPECT_EQ(sizes(), (Sizes{10, 2}));

  load_all();
  const ExpertId expert = last_of(Tier::kTrunk);
  tiers_.pool(Tier::kTrunk).hold(slot_of(Tier::kTrunk, expert));
  tiers_.set_lent(false);
  EXPECT_EQ(sizes(), (Sizes{4, 2}));
  tiers_.settle();
  EXPECT_EQ(sizes(), (Sizes{4, 2}));
  check();
  tiers_.pool(Tier::kTrunk).release(slot_of(Tier::kTrunk, expert));
  tiers_.settle();
  EXPECT_EQ(sizes(), (Sizes{4, 6}));
}

TEST_F(SlotTiersTest, AReadUnderWayEndsBeforeItsMemoryChangesHands) {
  for (ExpertId i = 0; i < 6; ++i) start(Tier::kDraft, kFirstDraft + i);
  tiers_.set_lent(true);
  EXPECT_EQ(sizes(), (Sizes{4, 2}));
  for (ExpertId i = 0; i < 5; ++i) finish(Tier::kDraft, kFirstDraft + i);
  tiers_.settle();
  EXPECT_EQ(sizes(), (Sizes{4, 2}));
  tiers_.pool(Tier::kDraft).failed(slot_of(Tier::kDraft, kFirstDraft + 5));
  tiers_.settle();
  EXPECT_EQ(sizes(), (Sizes{10, 2}));
}

TEST_F(SlotTiersTest, WhatIsCalledBackWhileInUseIsKept) {
  tiers_.set_lent(true);
  load_all();
  const ExpertId expert = last_of(Tier::kTrunk);
  tiers_.pool(Tier::kTrunk).hold(slot_of(Tier::kTrunk, expert));
  tiers_.set_lent(false);
  tiers_.set_lent(true);
  EXPECT_EQ(sizes(), (Sizes{10, 2}));
  tiers_.pool(Tier::kTrunk).release(slot_of(Tier::kTrunk, expert));
  EXPECT_NE(slot_of(Tier::kTrunk, expert), kNoSlot);
  check();
}

TEST_F(SlotTiersTest, ShrinkingGivesMemoryBackAndItStaysAway) {
  load_all();
  const std::span<std::byte> last = tiers_.pool(Tier::kTrunk).memory(3);
  tiers_.shrink(Tier::kTrunk, 3);
  EXPECT_EQ(std::ranges::count(last, std::byte{0}), std::ssize(last));
  tiers_.set_lent(true);
  EXPECT_EQ(sizes(), (Sizes{9, 2}));
  load_all();
  tiers_.set_lent(false);
  EXPECT_EQ(sizes(), (Sizes{3, 6}));
  EXPECT_EQ(std::ranges::count(last, std::byte{0}), std::ssize(last));
  tiers_.shrink(Tier::kDraft, 4);
  tiers_.shrink(Tier::kDraft, 5);
  EXPECT_EQ(sizes(), (Sizes{3, 4}));
  tiers_.set_lent(true);
  EXPECT_EQ(sizes(), (Sizes{6, 2}));
}

TEST_F(SlotTiersTest, NeitherTakesTheOthersBytesWhateverHappens) {
  std::mt19937_64 dice(3);
  std::vector<std::pair<Tier, ExpertId>> held;
  std::vector<std::pair<Tier, ExpertId>> loading;
  const auto give_back = [&](auto& list, auto how) {
    if (list.empty()) return;
    std::swap(list[dice() % list.size()], list.back());
    how(list.back().first, list.back().second);
    list.pop_back();
  };
  for (int step = 0; step < 4000; ++step) {
    const Tier tier = dice() % 2 == 0 ? Tier::kTrunk : Tier::kDraft;
    const ExpertId expert = first_of(tier) + static_cast<ExpertId>(dice() % 12);
    const std::uint32_t slot = slot_of(tier, expert);
    if (slot == kNoSlot) {
      if (start(tier, expert)) loading.emplace_back(tier, expert);
    } else if (tiers_.pool(tier).is_ready(slot) && held.size() < 3) {
      tiers_.pool(tier).hold(slot);
      held.emplace_back(tier, expert);
    }
    if (dice() % 2 == 0) give_back(loading, [&](Tier t, ExpertId e) { finish(t, e); });
    if (dice() % 2 == 0) {
      give_back(held, [&](Tier t, ExpertId e) { tiers_.pool(t).release(slot_of(t, e)); });
    }
    if (dice() % 8 == 0) tiers_.set_lent(dice() % 2 == 0);
    if (step == 3000) tiers_.shrink(Tier::kTrunk, 3);
    if (step == 3600) tiers_.shrink(Tier::kDraft, 5);
    tiers_.settle();
    check();
  }
}

TEST(SlotTiersSizesTest, LendsNoMoreThanTheMainModelHasExperts) {
  SlotTiers tiers({4, 2 * kPage, 8}, {6, 3 * kPage, 12});
  tiers.set_lent(true);
  EXPECT_EQ(tiers.pool(Tier::kTrunk).n_slots(), 8U);
  EXPECT_EQ(tiers.pool(Tier::kDraft).n_slots(), 3U);
}

TEST(SlotTiersSizesTest, LendsNothingOfAFewSlotsOrToNobody) {
  SlotTiers few({4, 2 * kPage, 8}, {2, 3 * kPage, 12});
  few.set_lent(true);
  EXPECT_EQ(few.pool(Tier::kTrunk).n_slots(), 4U);
  EXPECT_EQ(few.pool(Tier::kDraft).n_slots(), 2U);
  SlotTiers nobody({}, {6, 3 * kPage, 12});
  nobody.set_lent(true);
  EXPECT_EQ(nobody.pool(Tier::kDraft).n_slots(), 6U);
}

// --- in the store ---

class StoreLendingTest : public StreamingTest {
 protected:
  static void pass(ExpertStore& store) {
    store.begin_pass(1);
    store.end_pass();
  }
  static void stop_drafting(ExpertStore& store) {
    for (int i = 0; i < DraftLending::kWindowPasses; ++i) pass(store);
  }
  static void draft(ExpertStore& store, const Ids& wanted) {
    use(store, 3, wanted);
    pass(store);
  }
};

TEST_F(StoreLendingTest, TheMainModelHasTheMemoryWhileNobodyDrafts) {
  StreamingStore store(options(4, 6), deps());
  use(store, 3, all_experts());
  stop_drafting(store);
  EXPECT_EQ(store.stats().trunk.n_slots, 10U);
  EXPECT_EQ(store.stats().draft.n_slots, 2U);
  use(store, 1, all_experts());
  EXPECT_EQ(resident(store, 1).size(), 10U);
  for (int i = 0; i < 3; ++i) draft(store, all_experts());
  EXPECT_EQ(resident(store, 3).size(), 2U);
  EXPECT_EQ(resident(store, 1).size(), 10U) << "it probes";
  draft(store, all_experts());
  EXPECT_EQ(store.stats().trunk.n_slots, 4U);
  EXPECT_EQ(store.stats().draft.n_slots, 6U);
  EXPECT_EQ(resident(store, 1).size(), 4U);
  draft(store, all_experts());
  EXPECT_EQ(resident(store, 3).size(), 6U);
}

TEST_F(StoreLendingTest, ALeaseKeepsItsExpertsWhenTheirMemoryIsCalledBack) {
  StreamingStore store(options(4, 6), deps());
  stop_drafting(store);
  const Ids wanted{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  use(store, 1, wanted);
  {
    ExpertLease lease = store.acquire(1, wanted);
    const std::span<const std::uint32_t> batch = lease.next({});
    ASSERT_EQ(batch.size(), wanted.size());
    for (int i = 0; i < 5; ++i) draft(store, all_experts());
    EXPECT_EQ(store.stats().trunk.n_slots, 4U);
    EXPECT_EQ(store.stats().draft.n_slots, 2U);
    for (const std::uint32_t i : batch) EXPECT_TRUE(is_intact(lease, i, 1, wanted[i]));
  }
  EXPECT_EQ(resident(store, 1).size(), 4U);
  EXPECT_EQ(store.stats().draft.n_slots, 6U);
  use(store, 3, all_experts());
}

}  // namespace
}  // namespace ft::experts
