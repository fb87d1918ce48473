#include "experts/streaming_test_fixture.h"

#include <array>
#include <atomic>
#include <fstream>
#include <stop_token>

#include <gmock/gmock.h>

namespace ft::experts {
namespace {

using testing::ReadFault;
using testing::ReadOrder;

class StreamingStoreTest : public StreamingTest {
 protected:
  const ReadFault kHeld = held();
  static ReadFault held() {
    ReadFault fault;
    fault.is_held = true;
    return fault;
  }
};

TEST_F(StreamingStoreTest, ReadsWhatIsMissingAndKeepsIt) {
  StreamingStore store(options(8), deps());
  EXPECT_EQ(store.n_missing(1, Ids{5, 2, 7}), 3U);
  use(store, 1, {5, 2, 7});
  EXPECT_EQ(store.n_missing(1, Ids{5, 2, 7, 3}), 1U);
  use(store, 1, {7, 3, 5});
  const ExpertStats stats = store.stats();
  EXPECT_TRUE(stats.is_streaming);
  EXPECT_EQ(stats.trunk.hits, 2U);
  EXPECT_EQ(stats.trunk.misses, 4U);
  EXPECT_EQ(stats.trunk.bytes_read, 4 * kExtentBytes);
  EXPECT_EQ(stats.trunk.evictions, 0U);
  EXPECT_EQ(stats.trunk.n_slots, 8U);
  EXPECT_EQ(stats.trunk.slot_bytes, kExtentBytes);
  EXPECT_EQ(stats.draft.misses, 0U);
}

TEST_F(StreamingStoreTest, ReadsInTheOrderOfTheFile) {
  StreamingStore store(options(8), deps());
  use(store, 2, {9, 0, 4});
  const auto seen = script_.seen();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].offset, 0U);
  EXPECT_EQ(seen[1].offset, 4 * kExtentBytes);
  EXPECT_EQ(seen[2].offset, 9 * kExtentBytes);
  EXPECT_EQ(seen[0].file, file(2));
}

TEST_F(StreamingStoreTest, HandsOutHitsBeforeTheMissesArrive) {
  StreamingStore store(options(8), deps());
  use(store, 1, {1, 2});
  script_.on_all(kHeld);
  const Ids wanted{4, 2, 1};
  ExpertLease lease = store.acquire(1, wanted);
  EXPECT_FALSE(lease.would_wait());
  EXPECT_EQ(next_batch(lease, 1, wanted), (Ids{2, 1}));
  EXPECT_TRUE(lease.would_wait());
  script_.clear();
  EXPECT_EQ(next_batch(lease, 1, wanted), Ids{4});
  EXPECT_TRUE(lease.next({}).empty());
  EXPECT_TRUE(lease.next({}).empty());
}

TEST_F(StreamingStoreTest, TakesFromThePageCacheWhatIsThere) {
  StreamingOptions wanted = options(8);
  wanted.uses_page_cache = true;
  if (std::array<std::byte, kExtentBytes> memory;
      !io::BulkFile::open(file(1), true).read_if_cached(memory, 0)) {
    GTEST_SKIP() << "the kernel keeps no pages of this folder";
  }
  StreamingStore store(std::move(wanted), deps());
  use(store, 1, {5, 2});
  EXPECT_EQ(script_.n_submitted(), 0U);
  EXPECT_EQ(store.stats().trunk.from_page_cache, 2U);
  EXPECT_EQ(store.stats().trunk.bytes_read, 0U);
  // What is damaged there is read from the drive before anybody complains.
  std::fstream(file(1), std::ios::binary | std::ios::in | std::ios::out)
      .seekp(7 * kExtentBytes)
      .put('!');
  ExpertLease lease = store.acquire(1, Ids{7});
  EXPECT_THAT(error_of(lease), ::testing::HasSubstr("expert 7 of layer 1"));
  EXPECT_EQ(script_.n_submitted(), 2U);
}

TEST_F(StreamingStoreTest, HandsOutWhateverArrivesFirst) {
  script_.on_all(kHeld);
  StreamingStore store(options(8), deps());
  const Ids wanted{0, 1, 2};
  ExpertLease lease = store.acquire(1, wanted);
  for (const std::uint32_t expert : {2U, 0U, 1U}) {  // requests are in the order of the file
    script_.release(expert);
    EXPECT_EQ(next_batch(lease, 1, wanted), Ids{expert});
  }
}

TEST_F(StreamingStoreTest, AnEmptyUnionIsDoneAtOnce) {
  StreamingStore store(options(1), deps());
  ExpertLease lease = store.acquire(1, {});
  EXPECT_TRUE(lease.next({}).empty());
}

TEST_F(StreamingStoreTest, AUnionLargerThanThePoolComesInParts) {
  for (std::size_t n_slots = 1; n_slots <= kExperts; ++n_slots) {
    for (const ReadOrder order : {ReadOrder::kQueued, ReadOrder::kReversed, ReadOrder::kShuffled}) {
      script_.set_order(order);
      StreamingStore store(options(n_slots, 1), deps());
      use(store, 1, all_experts());
      use(store, 2, all_experts());
      use(store, 3, all_experts());
      use(store, 1, all_experts());
      EXPECT_EQ(store.stats().draft.bytes_read, kExperts * kDraftBytes);
      // Each at most once per use.
      EXPECT_LE(store.stats().trunk.bytes_read, 3 * kExperts * kExtentBytes);
    }
  }
}

TEST_F(StreamingStoreTest, PartOfThePoolIsReadIntoWhileTheRestIsInUse) {
  StreamingStore store(options(4), deps());
  const Ids wanted = all_experts();
  ExpertLease lease = store.acquire(1, wanted);
  script_.await_submitted(4);
  await([&] { return store.stats().trunk.bytes_read == 4 * kExtentBytes; });
  EXPECT_EQ(next_batch(lease, 1, wanted), (Ids{0, 1}));
  script_.on_all(kHeld);
  EXPECT_EQ(next_batch(lease, 1, wanted), (Ids{2, 3}));  // 4 and 5 are being read meanwhile
  script_.await_submitted(6);
  script_.clear();
  EXPECT_FALSE(next_batch(lease, 1, wanted).empty());
}

TEST_F(StreamingStoreTest, WhatIsInUseOrStillToComeIsNotEvicted) {
  StreamingOptions by_recency = options(4);
  by_recency.policy = PolicyKind::kLru;
  StreamingStore store(by_recency, deps());
  use(store, 1, {0, 1, 2, 3});
  const Ids wanted{0, 5, 1};
  ExpertLease lease = store.acquire(1, wanted);  // 5 takes the slot of 2: 3 was used later
  EXPECT_EQ(next_batch(lease, 1, wanted).front(), 0U);
  const Ids others{6, 7, 8};
  {
    ExpertLease other = store.acquire(2, others);  // only the slot of 3 is to be had
    EXPECT_EQ(next_batch(other, 2, others), Ids{6});
    EXPECT_TRUE(is_intact(lease, 0, 1, 0));
  }
  EXPECT_EQ(store.n_missing(1, Ids{0, 1}), 0U);
  EXPECT_EQ(store.n_missing(1, Ids{2, 3}), 2U);
}

TEST_F(StreamingStoreTest, EvictsTheLeastRecentlyUsed) {
  StreamingOptions by_recency = options(4);
  by_recency.policy = PolicyKind::kLru;
  StreamingStore store(by_recency, deps());
  use(store, 1, {0, 1, 2, 3});
  use(store, 1, {0});
  use(store, 1, {4, 5});
  EXPECT_EQ(resident(store, 1), (Ids{0, 3, 4, 5}));
  use(store, 1, {6});
  EXPECT_EQ(resident(store, 1), (Ids{0, 4, 5, 6}));
  EXPECT_EQ(store.stats().trunk.evictions, 3U);
}

TEST_F(StreamingStoreTest, TiersDoNotTakeEachOthersSlots) {
  StreamingStore store(options(2, 2), deps());
  use(store, 3, {0, 1});
  use(store, 1, all_experts());
  EXPECT_EQ(store.n_missing(3, Ids{0, 1}), 0U);
  EXPECT_EQ(store.stats().draft.slot_bytes, kDraftBytes);
}

TEST_F(StreamingStoreTest, TwoLeasesShareOneRead) {
  script_.on_all(kHeld);
  StreamingStore store(options(4), deps());
  const Ids wanted{3};
  ExpertLease first = store.acquire(1, wanted);
  ExpertLease second = store.acquire(1, wanted);
  script_.clear();
  EXPECT_EQ(next_batch(first, 1, wanted), wanted);
  EXPECT_EQ(next_batch(second, 1, wanted), wanted);
  EXPECT_EQ(store.stats().trunk.bytes_read, kExtentBytes);
  EXPECT_EQ(store.stats().trunk.misses, 2U);
}

TEST_F(StreamingStoreTest, TwoLeasesLargerThanThePoolBothComeToTheirEnd) {
  StreamingStore store(options(3), deps());
  const Ids wanted = all_experts();
  ExpertLease first = store.acquire(1, wanted);
  std::jthread other([&] { use(store, 2, all_experts()); });
  std::size_t n = 0;
  for (Ids batch = next_batch(first, 1, wanted); !batch.empty();
       batch = next_batch(first, 1, wanted)) {
    n += batch.size();
  }
  EXPECT_EQ(n, kExperts);
}

TEST_F(StreamingStoreTest, WhatAnAbandonedLeaseReadsStays) {
  script_.on_all(kHeld);
  StreamingStore store(options(4), deps());
  { const ExpertLease lease = store.acquire(1, Ids{2, 5}); }
  script_.await_submitted(2);
  script_.clear();
  await([&] { return store.n_missing(1, Ids{2, 5}) == 0; });
  use(store, 1, {2, 5, 6, 7, 8});
  EXPECT_EQ(store.stats().trunk.hits, 2U);
}

TEST_F(StreamingStoreTest, AStopEndsTheWait) {
  script_.on_all(kHeld);
  StreamingStore store(options(4), deps());
  std::stop_source stop;
  {
    ExpertLease lease = store.acquire(1, Ids{2});
    std::jthread stopper([&] {
      script_.await_submitted(1);
      stop.request_stop();
    });
    EXPECT_THROW(lease.next(stop.get_token()), Cancelled);
  }
  script_.clear();
  use(store, 1, {2, 3});
  ExpertLease lease = store.acquire(1, Ids{2});
  EXPECT_THROW(lease.next(stop.get_token()), Cancelled);
}

/// Lets the drive go on when the store looks at the time, which a lease does before it waits.
class ReleasingClock final : public Clock {
 public:
  explicit ReleasingClock(testing::ReadScript& script) : script_(script) {}
  void arm() { is_armed_ = true; }
  std::int64_t now_us() const override {
    if (is_armed_) script_.clear();
    return now_us_ += 10;
  }

 private:
  testing::ReadScript& script_;
  std::atomic<bool> is_armed_ = false;
  mutable std::atomic<std::int64_t> now_us_ = 0;
};

TEST_F(StreamingStoreTest, CountsTheTimeThatALeaseWaits) {
  script_.on_all(kHeld);
  ReleasingClock clock(script_);
  StreamingStore store(options(4), {.clock = clock, .make_queue = deps().make_queue});
  const Ids wanted{2};
  ExpertLease lease = store.acquire(1, wanted);
  script_.await_submitted(1);
  EXPECT_EQ(store.stats().stall_us, 0);
  clock.arm();
  EXPECT_EQ(next_batch(lease, 1, wanted), wanted);
  EXPECT_GE(store.stats().stall_us, 10);
}

TEST_F(StreamingStoreTest, DestructionDoesNotWaitForReadsThatNobodyNeeds) {
  script_.on_all(kHeld);
  StreamingStore store(options(4), deps());
  store.prefetch(1, Ids{1, 2});
  script_.await_submitted(2);
}

// --- reading ahead ---

TEST_F(StreamingStoreTest, AGuessIsUsedWithoutAnotherRead) {
  StreamingStore store(options(8), deps());
  store.prefetch(1, Ids{3, 4});
  await([&] { return store.n_missing(1, Ids{3, 4}) == 0; });
  use(store, 1, {4, 5});
  const TierStats stats = store.stats().trunk;
  EXPECT_EQ(stats.reads_ahead, 2U);
  EXPECT_EQ(stats.used_ahead, 1U);
  EXPECT_EQ(stats.hits, 1U);
  EXPECT_EQ(stats.bytes_read, 3 * kExtentBytes);
  EXPECT_EQ(script_.seen()[0].priority, io::ReadPriority::kAhead);
}

TEST_F(StreamingStoreTest, AGuessUnderWayBecomesADemand) {
  script_.on_all(kHeld);
  StreamingStore store(options(8), deps());
  store.prefetch(1, Ids{3});
  script_.await_submitted(1);
  const Ids wanted{3};
  ExpertLease lease = store.acquire(1, wanted);
  await([&] { return script_.seen()[0].priority == io::ReadPriority::kDemand; });
  script_.clear();
  EXPECT_EQ(next_batch(lease, 1, wanted), wanted);
  EXPECT_EQ(store.stats().trunk.misses, 1U);
  EXPECT_EQ(store.stats().trunk.used_ahead, 1U);
}

TEST_F(StreamingStoreTest, AGuessUnderWayThatProvedWrongIsDropped) {
  script_.on_all(kHeld);
  StreamingStore store(options(8), deps());
  store.prefetch(1, Ids{3, 4});
  script_.await_submitted(2);
  const Ids wanted{4, 5};
  ExpertLease lease = store.acquire(1, wanted);
  await([&] { return store.stats().trunk.dropped_ahead == 1; });
  EXPECT_TRUE(script_.seen()[0].has_ended);
  EXPECT_EQ(store.stats().trunk.bytes_read, 0U);
  script_.clear();
  Ids seen;
  for (Ids batch = next_batch(lease, 1, wanted); !batch.empty();
       batch = next_batch(lease, 1, wanted)) {
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  EXPECT_THAT(seen, ::testing::UnorderedElementsAre(4, 5));
  EXPECT_EQ(store.stats().trunk.failed_reads, 0U);
  EXPECT_EQ(store.n_missing(1, Ids{3}), 1U);
  use(store, 1, {3});  // and may be read later
}

TEST_F(StreamingStoreTest, GuessesTakeHalfOfThePoolAtMost) {
  StreamingStore store(options(5), deps());
  store.prefetch(1, all_experts());
  script_.await_submitted(2);
  await([&] { return store.n_missing(1, Ids{0, 1}) == 0; });
  store.prefetch(2, all_experts());
  EXPECT_EQ(store.stats().trunk.reads_ahead, 2U);
  use(store, 1, {0});  // one guess proves right, the other wrong
  store.prefetch(2, Ids{9, 10});
  EXPECT_EQ(store.stats().trunk.reads_ahead, 4U);
  StreamingStore tiny(options(1), deps());
  tiny.prefetch(1, Ids{0});
  EXPECT_EQ(tiny.stats().trunk.reads_ahead, 0U);
}

TEST_F(StreamingStoreTest, GuessesThatProvedWrongMakeRoomForOthers) {
  StreamingStore store(options(8), deps());
  store.prefetch(1, Ids{0, 1, 2, 3, 4});
  await([&] { return store.n_missing(1, Ids{0, 1, 2, 3}) == 0; });
  EXPECT_EQ(store.stats().trunk.reads_ahead, 4U);
  use(store, 1, {9});
  store.prefetch(2, Ids{5});
  EXPECT_EQ(store.stats().trunk.reads_ahead, 5U);
  use(store, 1, {0});  // wrong for its turn, right after all
  EXPECT_EQ(store.stats().trunk.used_ahead, 1U);
}

TEST_F(StreamingStoreTest, AGuessNeverEvictsWhatALeaseHolds) {
  StreamingStore store(options(4), deps());
  const Ids wanted{0, 1, 2, 3};
  use(store, 1, wanted);
  ExpertLease lease = store.acquire(1, wanted);
  EXPECT_EQ(next_batch(lease, 1, wanted).size(), 4U);
  store.prefetch(2, Ids{0, 1});
  EXPECT_EQ(store.stats().trunk.reads_ahead, 0U);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(is_intact(lease, i, 1, i));
}

// --- shrinking ---

TEST_F(StreamingStoreTest, ShrinksToWhatIsAskedAndNeverGrows) {
  StreamingStore store(options(8), deps());
  use(store, 1, {0, 1, 2, 3, 4, 5, 6, 7});
  store.shrink(Tier::kTrunk, 3);
  EXPECT_EQ(resident(store, 1).size(), 3U);
  store.shrink(Tier::kTrunk, 6);
  EXPECT_EQ(store.stats().trunk.n_slots, 3U);
  use(store, 1, all_experts());
  EXPECT_EQ(resident(store, 1).size(), 3U);
  store.shrink(Tier::kTrunk, 0);
  EXPECT_EQ(store.stats().trunk.n_slots, 1U);
  use(store, 2, all_experts());
}

TEST_F(StreamingStoreTest, ShrinkingLeavesAloneWhatIsInUseUntilItIsGivenBack) {
  StreamingStore store(options(6), deps());
  const Ids wanted = all_experts();
  ExpertLease lease = store.acquire(1, wanted);
  script_.await_submitted(6);
  await([&] { return resident(store, 1).size() == 6; });
  const std::span<const std::uint32_t> batch = lease.next({});
  ASSERT_EQ(batch.size(), 3U);
  store.shrink(Tier::kTrunk, 1);
  EXPECT_EQ(resident(store, 1).size(), 6U);  // in use, or still to be returned
  for (const std::uint32_t index : batch) EXPECT_TRUE(is_intact(lease, index, 1, wanted[index]));
  std::size_t n = 3;
  for (Ids more = next_batch(lease, 1, wanted); !more.empty();
       more = next_batch(lease, 1, wanted)) {
    n += more.size();
  }
  EXPECT_EQ(n, kExperts);
  EXPECT_EQ(resident(store, 1).size(), 1U);
}

TEST_F(StreamingStoreTest, ShrinkingWaitsForReadsUnderWay) {
  script_.on_all(kHeld);
  StreamingStore store(options(6), deps());
  const Ids wanted{0, 1, 2, 3, 4, 5};
  ExpertLease lease = store.acquire(1, wanted);
  script_.await_submitted(6);
  store.shrink(Tier::kTrunk, 2);
  script_.clear();
  std::size_t n = 0;
  for (Ids batch = next_batch(lease, 1, wanted); !batch.empty();
       batch = next_batch(lease, 1, wanted)) {
    n += batch.size();
  }
  EXPECT_EQ(n, 6U);
  EXPECT_EQ(resident(store, 1).size(), 2U);
}

// --- learning ---

TEST_F(StreamingStoreTest, WhatWasLearnedComesBackInTheNextRun) {
  StreamingOptions learning = options(4);
  learning.heat_file = folder_ / "model.heat";
  {
    StreamingStore store(learning, deps());
    for (int i = 0; i < 5; ++i) {
      store.begin_pass(1);
      use(store, 1, {2, 7});
      store.end_pass();
    }
    store.save_heat();
  }
  StreamingStore store(learning, deps());
  EXPECT_EQ(store.heat_warning(), "");
  use(store, 1, {2, 7});
  for (const std::uint32_t expert : {0U, 1U, 3U, 4U, 5U, 6U}) use(store, 1, {expert});
  EXPECT_EQ(store.n_missing(1, Ids{2, 7}), 0U);
}

TEST_F(StreamingStoreTest, AHeatFileOfAnotherModelIsAWarning) {
  StreamingOptions learning = options(4);
  learning.heat_file = folder_ / "model.heat";
  for (const std::string line : {"1 12 5", "0 1 5", "4 1 5"}) {
    std::ofstream(learning.heat_file) << "foretoken-heat 1 5\n" << line << "\n";
    const StreamingStore store(learning, deps());
    EXPECT_THAT(store.heat_warning(), ::testing::HasSubstr("the model has no expert "));
  }
  std::ofstream(learning.heat_file) << "garbage";
  const StreamingStore store(learning, deps());
  EXPECT_THAT(store.heat_warning(), ::testing::HasSubstr("learning starts afresh"));
}

TEST_F(StreamingStoreTest, LookaheadIsOffOnOrTried) {
  StreamingOptions choice = options(4);
  choice.lookahead = StreamingOptions::Lookahead::kOff;
  StreamingStore off(choice, deps());
  EXPECT_FALSE(off.begin_pass(1));
  choice.lookahead = StreamingOptions::Lookahead::kOn;
  StreamingStore on(choice, deps());
  EXPECT_TRUE(on.begin_pass(1));
  EXPECT_FALSE(on.begin_pass(100)) << "such a pass wants nearly all";
  choice.lookahead = StreamingOptions::Lookahead::kAuto;
  StreamingStore tried(choice, deps());
  std::size_t n_with = 0;
  for (int i = 0; i < 48; ++i) {
    n_with += tried.begin_pass(1) ? 1U : 0U;
    use(tried, 1, {1});
    tried.end_pass();
  }
  EXPECT_EQ(n_with, 24U);
  choice.uses_page_cache = true;  // experts this small are copied from it in no time
  StreamingStore copied(choice, deps());
  for (int i = 0; i < 48; ++i) {
    EXPECT_FALSE(copied.begin_pass(1));
    use(copied, 1, {1});
    copied.end_pass();
  }
}

// --- opening ---

TEST_F(StreamingStoreTest, RefusesAFileThatIsMissingOrOfAnotherSize) {
  std::filesystem::resize_file(file(2), kExperts * kExtentBytes - 1);
  try {
    const StreamingStore store(options(4), deps());
    FAIL() << "expected InvalidInput";
  } catch (const InvalidInput& error) {
    EXPECT_EQ(std::string(error.what()),
              "experts: '" + file(2).string() +
                  "' has 98303 bytes, expected 98304 (12 experts of 8192): copy the file again");
  }
  std::filesystem::remove(file(2));
  EXPECT_THROW(StreamingStore(options(4), deps()), InvalidInput);
}

TEST_F(StreamingStoreTest, RefusesATierWithoutSlots) {
  EXPECT_THROW(StreamingStore(options(0), deps()), InvalidInput);
  EXPECT_THROW(StreamingStore(options(4, 0), deps()), InvalidInput);
}

}  // namespace
}  // namespace ft::experts
