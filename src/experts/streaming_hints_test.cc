// Reading ahead for the next pass: what a store makes of hints, and when it wants them.
#include "experts/lookahead_gate.h"
#include "experts/streaming_test_fixture.h"

#include <utility>

namespace ft::experts {
namespace {

using HintsTest = StreamingTest;

TEST_F(HintsTest, AHintIsForTheNextTurnOfItsLayer) {
  StreamingStore store(options(12), deps());
  use(store, 1, {0});
  store.prefetch_hinted(1, Ids{3, 4});
  await([&] { return store.n_missing(1, Ids{3, 4}) == 0; });
  use(store, 2, {0, 1});  // other layers' turns do not touch it
  store.end_pass();
  use(store, 1, {3});
  const TierStats stats = store.stats().trunk;
  EXPECT_EQ(stats.reads_ahead, 2U);
  EXPECT_EQ(stats.reads_hinted, 2U);
  EXPECT_EQ(stats.used_hinted, 1U);
  EXPECT_EQ(stats.used_ahead, 1U);
  EXPECT_EQ(stats.hits, 1U);
}

TEST_F(HintsTest, HintsTakeAQuarterOfThePoolAtMost) {
  StreamingStore store(options(8), deps());
  store.prefetch_hinted(1, all_experts());
  EXPECT_EQ(store.stats().trunk.reads_hinted, 2U);
  store.prefetch(2, all_experts());  // the rest of the half is the router's
  EXPECT_EQ(store.stats().trunk.reads_ahead, 4U);
  use(store, 1, {9});
  store.prefetch_hinted(1, Ids{5, 6, 7});
  EXPECT_EQ(store.stats().trunk.reads_hinted, 4U);
}

TEST_F(HintsTest, AHintThatProvedWrongIsDroppedUnderWay) {
  script_.on_all({.is_held = true});
  StreamingStore store(options(8), deps());
  store.prefetch_hinted(1, Ids{3});
  script_.await_submitted(1);
  ExpertLease lease = store.acquire(1, Ids{5});
  await([&] { return store.stats().trunk.dropped_ahead == 1; });
  EXPECT_EQ(store.stats().trunk.bytes_read, 0U);
  script_.clear();
  EXPECT_EQ(next_batch(lease, 1, {5}), Ids{5});
}

/// Rounds of one pass, as a session brackets them; a round with a draft takes `hinted_us`.
class HintGateTest : public StreamingTest {
 protected:
  bool round(StreamingStore& store, std::int64_t plain_us, std::int64_t hinted_us) {
    const bool is_hinted = store.begin_round();
    clock_.advance(is_hinted ? hinted_us : plain_us);  // a draft is part of the round
    store.begin_pass(1);
    use(store, 1, {0});
    store.end_pass();
    store.end_round();
    return is_hinted;
  }
  std::size_t n_hinted(StreamingStore& store, std::size_t n, std::int64_t hinted_us) {
    std::size_t n_hinted = 0;
    for (std::size_t i = 0; i < n; ++i) n_hinted += round(store, 1000, hinted_us) ? 1 : 0;
    return n_hinted;
  }
};

TEST_F(HintGateTest, KeepsHintsOnlyWhereRoundsGetFaster) {
  constexpr std::size_t kTrial = 4 * LookaheadGate::kWindowPasses;
  for (const std::int64_t hinted_us : {800, 990, 1200}) {
    StreamingStore store(options(8), deps());
    EXPECT_EQ(n_hinted(store, kTrial, hinted_us), 0U);  // that of the router's guesses comes first
    EXPECT_EQ(n_hinted(store, kTrial, hinted_us), kTrial / 2);
    EXPECT_EQ(n_hinted(store, 100, hinted_us), hinted_us == 800 ? 100U : 0U);
  }
}

/// Draft slots enough to lend some; a hint asks the draft layer for an expert.
class HintLendingTest : public HintGateTest {
 protected:
  /// How many of `n` rounds had hints.
  std::size_t rounds(std::size_t n, std::int64_t hinted_us) {
    std::size_t n_hinted = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const bool is_hinted = store_.begin_round();
      if (is_hinted) use(store_, 3, {0});
      clock_.advance(is_hinted ? hinted_us : 1000);
      store_.begin_pass(1);
      use(store_, 1, {0});
      store_.end_pass();
      store_.end_round();
      n_hinted += is_hinted ? 1 : 0;
    }
    return n_hinted;
  }
  std::size_t n_trunk_slots() { return store_.stats().trunk.n_slots; }

  static constexpr std::size_t kTrials = 8 * LookaheadGate::kWindowPasses;  // of guesses, of hints
  StreamingStore store_{options(8, 8), deps()};
  const std::size_t n_lent_ = n_trunk_slots();
};

TEST_F(HintLendingTest, BeginsLentAndATrialLeavesItSo) {
  EXPECT_GT(n_lent_, 8U);
  EXPECT_EQ(rounds(kTrials, 1000), 2 * LookaheadGate::kWindowPasses);
  EXPECT_EQ(n_trunk_slots(), n_lent_);
  for (int i = 0; i < 4; ++i) {  // drafts that are verified
    use(store_, 3, {0});
    store_.begin_pass(2);
    use(store_, 1, {0});
    store_.end_pass();
  }
  EXPECT_EQ(n_trunk_slots(), 8U);
}

TEST_F(HintLendingTest, HintsThatPayCountAsDrafts) {
  EXPECT_EQ(rounds(kTrials, 700), 2 * LookaheadGate::kWindowPasses);
  EXPECT_EQ(n_trunk_slots(), n_lent_);
  EXPECT_EQ(rounds(8, 700), 8U);
  EXPECT_EQ(n_trunk_slots(), 8U);
}

TEST_F(HintGateTest, ObeysTheOption) {
  StreamingOptions off = options(8);
  off.lookahead = StreamingOptions::Lookahead::kOff;
  StreamingStore without(std::move(off), deps());
  EXPECT_EQ(n_hinted(without, 200, 1), 0U);
  StreamingOptions on = options(8);
  on.lookahead = StreamingOptions::Lookahead::kOn;
  StreamingStore with(std::move(on), deps());
  EXPECT_EQ(n_hinted(with, 200, 5000), 200U);
}

}  // namespace
}  // namespace ft::experts
