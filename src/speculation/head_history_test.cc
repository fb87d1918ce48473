#include "speculation/head_history.h"

#include "base/error.h"
#include "base/random.h"
#include "testing/fake_model.h"

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::FakeDraftHead;
using testing::FakeHeadCache;
using testing::FakeModel;
using testing::FakeModelOptions;

// A trunk that runs along any sequence and hands out its hidden rows.
class Trunk {
 public:
  explicit Trunk(FakeModelOptions options = with_head())
      : model_(options), workspace_(model_.new_workspace()) {}

  static FakeModelOptions with_head() {
    FakeModelOptions options;
    options.head_quality = 100;
    return options;
  }
  /// Hidden rows of positions first … first + n - 1; they die at the next call.
  ConstMatrix rows(const std::vector<Token>& tokens, std::size_t first, std::size_t n) {
    const auto cache = model_.new_cache({.max_tokens = 4096});
    if (first + n == 0) return {};
    const std::vector<models::SequenceSlice> slices = {
        {cache.get(), TokenSpan(tokens).first(first + n), 0}};
    const std::vector<LayerIndex> taps = {static_cast<LayerIndex>(model_.config().n_layers)};
    ConstMatrix all = model_.forward(slices, taps, {}, *workspace_).taps[0];
    all.data += first * all.stride;
    all.n_rows = n;
    return all;
  }
  const FakeDraftHead& head() const { return *model_.fake_head(); }
  std::size_t d_model() const { return model_.config().d_model; }

 private:
  FakeModel model_;
  std::unique_ptr<models::Workspace> workspace_;
};

std::vector<Token> some_tokens(std::size_t n, std::uint64_t seed) {
  std::vector<Token> tokens(n);
  for (std::size_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<Token>(
        noise_bits(seed, NoisePurpose::kDraft, 0, static_cast<std::uint32_t>(i)) % 16);
  }
  return tokens;
}

class HeadHistoryTest : public ::testing::Test {
 protected:
  explicit HeadHistoryTest(FakeModelOptions options = Trunk::with_head())
      : trunk_(options), history_(trunk_.head(), trunk_.d_model(), {.max_tokens = 2048}) {}

  void observe(const std::vector<Token>& sequence, std::size_t first, std::size_t n) {
    history_.observe(sequence, first, trunk_.rows(sequence, first, n));
  }
  const std::vector<FakeHeadCache::Row>& rows() {
    return dynamic_cast<FakeHeadCache&>(history_.cache()).rows();
  }
  // The cache's rows from `begin` on are those of n positions of the sequence from `first` on.
  void expect_rows_are(const std::vector<Token>& sequence,
                       std::size_t first,
                       std::size_t begin,
                       std::size_t n) {
    ASSERT_GE(rows().size(), begin + n);
    for (std::size_t i = 0; i < n; ++i) {
      const FakeHeadCache::Row& row = rows()[begin + i];
      EXPECT_EQ(row.state, FakeModel::state_after(TokenSpan(sequence).first(first + i + 1))) << i;
      EXPECT_EQ(row.next, sequence.at(first + i + 1)) << i;
    }
  }
  // All of them, and nothing else.
  void expect_rows(const std::vector<Token>& sequence, std::size_t first, std::size_t n) {
    EXPECT_EQ(rows().size(), n);
    expect_rows_are(sequence, first, 0, n);
  }
  void start_and_end_chain() {
    models::IndexSets sets;
    history_.start_chain(sets);
    history_.end_chain();
  }

  Trunk trunk_;
  HeadHistory history_;
};

TEST_F(HeadHistoryTest, AfterThePromptTheFirstTokenCompletesTheNewestPair) {
  std::vector<Token> tokens = some_tokens(6, 1);
  observe(tokens, 0, 4);
  EXPECT_EQ(history_.max_chain(), 0u);
  observe(tokens, 4, 2);
  EXPECT_EQ(history_.max_chain(), 0u) << "the newest hidden row has no next token yet";
  tokens.push_back(3);
  observe(tokens, 6, 0);
  ASSERT_GT(history_.max_chain(), 0u);
  start_and_end_chain();
  expect_rows(tokens, 0, 6);
}

TEST_F(HeadHistoryTest, ACallHasNoMoreRowsThanThePlanCounts) {
  std::vector<Token> tokens = some_tokens(1000, 3);
  observe(tokens, 0, 1000);
  tokens.push_back(3);
  observe(tokens, 1000, 0);
  start_and_end_chain();
  expect_rows(tokens, 0, 1000);
  EXPECT_EQ(trunk_.head().most_rows(), HeadHistory::kMaxRows);
}

TEST_F(HeadHistoryTest, TheFirstStepIsTheDraftOfTheTruth) {
  std::vector<Token> tokens = some_tokens(9, 2);
  observe(tokens, 0, 8);
  models::IndexSets sets;
  const models::DraftStep step = history_.start_chain(sets);
  const std::vector<float> expected = FakeModel(Trunk::with_head()).logits_after(tokens);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), step.logits.begin(), step.logits.end()));
}

TEST_F(HeadHistoryTest, AChainLeavesNoRows) {
  const std::vector<Token> tokens = some_tokens(9, 2);
  observe(tokens, 0, 8);
  models::IndexSets sets;
  history_.start_chain(sets);
  for (const Token draft : {1, 2, 3}) history_.continue_chain(draft, sets);
  EXPECT_EQ(rows().size(), 11u);
  history_.end_chain();
  expect_rows(tokens, 0, 8);
}

TEST_F(HeadHistoryTest, AChainCanBeStartedAgain) {
  const std::vector<Token> tokens = some_tokens(9, 2);
  observe(tokens, 0, 8);
  start_and_end_chain();
  ASSERT_GT(history_.max_chain(), 0u);
  start_and_end_chain();
  expect_rows(tokens, 0, 8);
}

TEST_F(HeadHistoryTest, AFailedStartLosesNothing) {
  const std::vector<Token> tokens = some_tokens(9, 2);
  observe(tokens, 0, 8);
  models::IndexSets sets;
  trunk_.head().fail_in(0);
  EXPECT_THROW(history_.start_chain(sets), IoError);
  EXPECT_TRUE(rows().empty());
  sets.is_set = false;
  start_and_end_chain();
  expect_rows(tokens, 0, 8);
}

TEST_F(HeadHistoryTest, RowsWaitAndAreFedInOneBatch) {
  std::vector<Token> tokens = some_tokens(5, 3);
  observe(tokens, 0, 4);
  for (int round = 0; round < 10; ++round) {  // another source proposes
    tokens.push_back(static_cast<Token>(round));
    observe(tokens, tokens.size() - 2, 1);
  }
  EXPECT_TRUE(rows().empty());
  start_and_end_chain();
  expect_rows(tokens, 0, 14);
  EXPECT_EQ(trunk_.head().n_appended(), 0u);
  EXPECT_EQ(trunk_.head().n_stepped(), 14u);
}

TEST_F(HeadHistoryTest, WhenNothingIsProposedForSomeRoundsRowsAreAppended) {
  std::vector<Token> tokens = some_tokens(5, 3);
  observe(tokens, 0, 4);
  for (int round = 0; round < 60; ++round) {
    tokens.push_back(static_cast<Token>(round % 16));
    observe(tokens, tokens.size() - 2, 1);
    EXPECT_GE(rows().size() + 33, tokens.size());
  }
  EXPECT_GT(trunk_.head().n_appended(), 30u);
  start_and_end_chain();
  expect_rows(tokens, 0, 64);
}

// Some rows as long as there may be a chain, then only those that wait when one starts.
TEST_F(HeadHistoryTest, WhenNothingIsProposedForLongRowsAreLeftOut) {
  std::vector<Token> tokens = some_tokens(5, 3);
  observe(tokens, 0, 4);
  const auto go_on = [&](int n_rounds) {
    for (int round = 0; round < n_rounds; ++round) {
      tokens.push_back(static_cast<Token>(round % 16));
      observe(tokens, tokens.size() - 2, 1);
    }
  };
  go_on(300);
  const std::size_t n_fed = rows().size();
  EXPECT_GT(n_fed, 30u);
  EXPECT_LE(n_fed, 68u);
  start_and_end_chain();
  const std::size_t n_waited = rows().size() - n_fed;
  EXPECT_GE(n_waited, 16u);
  EXPECT_LE(n_waited, 32u);
  expect_rows_are(tokens, 0, 0, n_fed);
  expect_rows_are(tokens, tokens.size() - 1 - n_waited, n_fed, n_waited);
  go_on(20);
  start_and_end_chain();
  EXPECT_EQ(rows().size(), n_fed + n_waited + 20);
  expect_rows_are(tokens, tokens.size() - 1 - 20 - n_waited, n_fed, n_waited + 20);
}

TEST_F(HeadHistoryTest, ARewindAcrossAGapKeepsWhatIsBeforeIt) {
  const std::vector<Token> tokens = some_tokens(60, 6);
  for (const auto& [first, n] : {std::pair(0, 20), std::pair(25, 5), std::pair(40, 19)}) {
    observe({tokens.begin(), tokens.begin() + first + n + 1}, first, n);
    start_and_end_chain();
  }
  EXPECT_EQ(rows().size(), 44u);
  // Within the last rows, into a gap, before both.
  for (const auto& [n_kept, n_rows] :
       {std::pair(50u, 34u), std::pair(35u, 25u), std::pair(10u, 9u)}) {
    std::vector<Token> other(tokens.begin(), tokens.begin() + n_kept);
    other.push_back((tokens[n_kept] + 1) % 16);
    observe(other, n_kept, 0);
    EXPECT_EQ(rows().size(), n_rows) << n_kept;
    expect_rows_are(tokens, 0, 0, std::min(n_rows, 20u));
  }
  std::vector<Token> other(tokens.begin(), tokens.begin() + 10);
  for (const Token token : {7, 7, 7, 7}) other.push_back(token);
  observe(other, 9, 4);
  start_and_end_chain();
  expect_rows(other, 0, 13);
}

// Copies for a sequence that branches off: whole, of the front, and the front of a whole copy.
TEST_F(HeadHistoryTest, AFrontIsAsGoodForABranchAsTheWhole) {
  const std::vector<Token> sequence = some_tokens(60, 6);
  for (const auto& [first, n] : {std::pair(0, 20), std::pair(25, 5), std::pair(40, 19)}) {
    observe({sequence.begin(), sequence.begin() + first + n + 1}, first, n);
    start_and_end_chain();
  }
  const HeadHistory::Saved whole = history_.save(sequence.size());
  ASSERT_EQ(whole.rows.gaps.size(), 2U);
  const auto rows_of = [](HeadHistory& history) {
    return dynamic_cast<FakeHeadCache&>(history.cache()).rows();
  };
  for (std::size_t n_common = 0; n_common < sequence.size(); ++n_common) {
    SCOPED_TRACE(n_common);
    std::vector<Token> branch(sequence.begin(),
                              sequence.begin() + static_cast<std::ptrdiff_t>(n_common));
    branch.push_back((sequence[n_common] + 1) % 16);
    for (const Token token : {7, 7, 7, 7}) branch.push_back(token);
    const std::size_t first = std::max<std::size_t>(n_common, 1) - 1;
    std::vector<HeadHistory> copies;
    for (int i = 0; i < 3; ++i)
      copies.emplace_back(trunk_.head(), trunk_.d_model(), cache::CacheOptions{.max_tokens = 2048});
    ASSERT_TRUE(copies[0].restore(whole, sequence.size()));
    ASSERT_TRUE(copies[1].restore(whole, n_common));
    HeadHistory::Saved front = history_.save(n_common);
    ASSERT_TRUE(copies[2].adopt(front));
    for (std::size_t i = 1; i < copies.size(); ++i) EXPECT_LE(copies[i].cache().length(), n_common);
    std::vector<std::vector<FakeHeadCache::Row>> branched;
    for (HeadHistory& copy : copies) {
      models::IndexSets sets;
      copy.observe(branch, first, {});
      copy.observe(branch, first, trunk_.rows(branch, first, branch.size() - 1 - first));
      copy.start_chain(sets);
      copy.end_chain();
      branched.push_back(rows_of(copy));
      EXPECT_GE(branched.back().size(), 4U);
    }
    EXPECT_EQ(branched[1], branched[0]);
    EXPECT_EQ(branched[2], branched[0]);
  }
}

TEST_F(HeadHistoryTest, ALongPromptIsAppendedButForItsLastRow) {
  std::vector<Token> tokens = some_tokens(1300, 4);
  for (const auto& [first, n] : {std::pair(0u, 600u), std::pair(600u, 1u), std::pair(601u, 699u)}) {
    observe(tokens, first, n);
  }
  EXPECT_EQ(rows().size(), 1299u);
  tokens.push_back(1);
  observe(tokens, 1300, 0);
  start_and_end_chain();
  expect_rows(tokens, 0, 1300);
  EXPECT_EQ(trunk_.head().n_stepped(), 1u);
}

TEST_F(HeadHistoryTest, ARewoundSequenceKeepsWhatStillHolds) {
  std::vector<Token> tokens = some_tokens(20, 5);
  observe(tokens, 0, 19);
  start_and_end_chain();
  // The session keeps 10 tokens and feeds the last of them again, then others.
  std::vector<Token> other(tokens.begin(), tokens.begin() + 10);
  for (const Token token : {7, 7, 7, 7}) other.push_back(token);
  ASSERT_NE(other[10], tokens[10]);
  observe(other, 9, 4);
  ASSERT_GT(history_.max_chain(), 0u);
  start_and_end_chain();
  expect_rows(other, 0, 13);
}

TEST_F(HeadHistoryTest, ARewindOfWaitingRowsIsARewindToo) {
  std::vector<Token> tokens = some_tokens(20, 5);
  observe(tokens, 0, 10);
  std::vector<Token> other(tokens.begin(), tokens.begin() + 5);
  for (const Token token : {7, 7, 7}) other.push_back(token);
  observe(other, 4, 3);
  start_and_end_chain();
  expect_rows(other, 0, 7);
}

TEST_F(HeadHistoryTest, AShorterSequenceWithoutRowsWaitsForThem) {
  std::vector<Token> tokens = some_tokens(20, 5);
  observe(tokens, 0, 19);
  start_and_end_chain();
  const std::vector<Token> shorter(tokens.begin(), tokens.begin() + 8);
  observe(shorter, 8, 0);
  EXPECT_EQ(history_.max_chain(), 0u) << "the hidden row of the new newest pair is gone";
  observe(shorter, 6, 1);
  ASSERT_GT(history_.max_chain(), 0u);
  start_and_end_chain();
  expect_rows(shorter, 0, 7);
}

TEST_F(HeadHistoryTest, RowsThatAreMissingAreLeftOut) {
  const std::vector<Token> tokens = some_tokens(20, 6);
  observe({tokens.begin(), tokens.begin() + 6}, 0, 5);
  start_and_end_chain();
  observe(tokens, 6, 3);  // row 5 is missing
  EXPECT_EQ(history_.max_chain(), 0u);
  observe(tokens, 9, 10);
  ASSERT_GT(history_.max_chain(), 0u);
  start_and_end_chain();
  EXPECT_EQ(rows().size(), 18u);
  expect_rows_are(tokens, 0, 0, 5);
  expect_rows_are(tokens, 6, 5, 13);
}

TEST_F(HeadHistoryTest, AGapWithoutRowsMeansNoDrafts) {
  const std::vector<Token> tokens = some_tokens(20, 6);
  observe(tokens, 20, 0);
  EXPECT_EQ(history_.max_chain(), 0u);
  models::IndexSets sets;
  EXPECT_THROW(history_.start_chain(sets), LogicError);
}

TEST_F(HeadHistoryTest, RowsOfTheWrongShapeAreRefused) {
  const std::vector<Token> tokens = some_tokens(4, 7);
  ConstMatrix rows = trunk_.rows(tokens, 0, 4);
  rows.n_cols -= 1;
  EXPECT_THROW(history_.observe(tokens, 0, rows), LogicError);
  EXPECT_THROW(history_.observe(tokens, 1, trunk_.rows(tokens, 0, 4)), LogicError);
}

// The fake head refuses rows that are not true; these mistakes of a caller are what it must find.
TEST_F(HeadHistoryTest, TheFakeHeadFindsWrongPairs) {
  const std::vector<Token> tokens = some_tokens(12, 8);
  models::IndexSets sets;
  history_.observe(tokens, 0, trunk_.rows(tokens, 1, 11));  // shifted by one
  EXPECT_THROW(history_.start_chain(sets), LogicError);

  HeadHistory doubled(trunk_.head(), trunk_.d_model(), {.max_tokens = 64});
  doubled.observe(tokens, 0, trunk_.rows(tokens, 0, 5));
  doubled.observe(tokens, 5, trunk_.rows(tokens, 4, 7));
  sets.is_set = false;
  EXPECT_THROW(doubled.start_chain(sets), LogicError);

  HeadHistory rejected(trunk_.head(), trunk_.d_model(), {.max_tokens = 64});
  std::vector<Token> draft(tokens.begin(), tokens.begin() + 5);
  draft.push_back(tokens[5] == 1 ? 2 : 1);
  draft.push_back(3);
  rejected.observe(tokens, 0, trunk_.rows(tokens, 0, 5));
  rejected.observe(tokens, 5, trunk_.rows(draft, 5, 1));  // made from a draft that was not accepted
  rejected.observe(tokens, 6, trunk_.rows(tokens, 6, 5));
  sets.is_set = false;
  EXPECT_THROW(rejected.start_chain(sets), LogicError);
}

class BoundedHeadHistoryTest : public HeadHistoryTest {
 protected:
  static FakeModelOptions bounded() {
    FakeModelOptions options = Trunk::with_head();
    options.rollback_window = 2;
    return options;
  }
  BoundedHeadHistoryTest() : HeadHistoryTest(bounded()) {}
};

TEST_F(BoundedHeadHistoryTest, AChainIsNoLongerThanTheHeadCanUndo) {
  const std::vector<Token> tokens = some_tokens(12, 9);
  observe(tokens, 0, 11);
  EXPECT_EQ(history_.max_chain(), 3u);  // the first draft's row stays
}

TEST_F(BoundedHeadHistoryTest, ARewindBeyondTheWindowStartsAnew) {
  const std::vector<Token> tokens = some_tokens(12, 9);
  observe(tokens, 0, 11);
  start_and_end_chain();
  std::vector<Token> other(tokens.begin(), tokens.begin() + 5);
  for (const Token token : {7, 7, 7}) other.push_back(token);
  observe(other, 4, 3);
  ASSERT_GT(history_.max_chain(), 0u);
  start_and_end_chain();
  expect_rows(other, 4, 3);
}

TEST(HeadHistoryLimits, AChainEndsWithTheCache) {
  Trunk trunk;
  HeadHistory history(trunk.head(), trunk.d_model(), {.max_tokens = 10});
  const std::vector<Token> tokens = some_tokens(10, 10);
  history.observe(tokens, 0, trunk.rows(tokens, 0, 9));
  EXPECT_EQ(history.max_chain(), 2u);
  models::IndexSets sets;
  history.start_chain(sets);
  history.continue_chain(1, sets);
  history.end_chain();
}

}  // namespace
}  // namespace ft::speculation
