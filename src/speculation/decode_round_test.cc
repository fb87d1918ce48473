// What a round does and reports.
#include "speculation/decode_round.h"

#include "base/error.h"
#include "experts/expert_store.h"
#include "speculation/decode_round_test_fixture.h"
#include "testing/adversary_source.h"
#include "testing/generation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::AdversarySource;
using ::testing::ElementsAre;
using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;
using ::testing::IsEmpty;
using testing::Malice;

TEST(DecodeRound, EveryTokenIsFedOnceOrUndone) {
  FakeModelOptions model_options;
  model_options.head_quality = 60;
  const FakeModel model(model_options);
  Generation generation(model, options_for(4, 1));
  generation.add_source("mtp");
  generation.run([](std::size_t) { return std::pair(0, std::size_t{3}); });
  // Each forward of a round starts where the committed tokens end and feeds the pending one first.
  std::size_t position = 0;
  for (const testing::FedTokens& fed : generation.workspace().fed) {
    ASSERT_LE(fed.begin, generation.tokens().size());
    EXPECT_GE(fed.begin, position);
    EXPECT_EQ(fed.tokens.front(), generation.tokens()[fed.begin]);
    position = fed.begin;
  }
}

TEST(DecodeRound, ReportsWhatHappened) {
  FakeModelOptions model_options;
  model_options.head_quality = 100;
  const FakeModel model(model_options);
  Generation generation(model, options_for(2, 0));
  DraftSource& mtp = generation.add_source("mtp");
  generation.prefill();
  const std::size_t n_before = generation.tokens().size();
  const RoundResult result = generation.round(&mtp, 3);
  EXPECT_EQ(result.parts.at(0).n_asked, 3u);
  ASSERT_EQ(result.drafts.size(), 3u);
  EXPECT_EQ(result.n_accepted, 3u);
  EXPECT_EQ(result.n_committed, 4u);
  EXPECT_TRUE(std::equal(result.drafts.begin(),
                         result.drafts.end(),
                         generation.tokens().begin() + static_cast<std::ptrdiff_t>(n_before)));
  EXPECT_EQ(generation.tokens().size(), n_before + 4);
  // The clock moves by one between readings.
  EXPECT_EQ(result.draft_us, 1);
  EXPECT_EQ(result.forward_us, 1);
  EXPECT_EQ(result.verify_us, 1);
  EXPECT_EQ(result.observe_us, 1);
  const RoundOutcome outcome = outcome_of(result);
  ASSERT_EQ(outcome.parts.size(), 1u);
  EXPECT_EQ(outcome.parts[0].n_asked, 3u);
  EXPECT_EQ(outcome.parts[0].n_drafted, 3u);
  EXPECT_EQ(outcome.n_accepted, 3u);
  EXPECT_EQ(outcome.draft_us, 1);
  EXPECT_EQ(outcome.rest_us, 3);
}

TEST(DecodeRound, EndsAtTheFirstStopTokenOfTheDraft) {
  // With a perfect head the stop token comes as a draft in nearly every text; nothing may follow
  // it.
  FakeModelOptions model_options;
  model_options.head_quality = 100;
  const FakeModel model(model_options);
  std::size_t n_drafted_stops = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    GenerationOptions options = options_for(seed, 1);
    options.max_tokens = 300;
    Generation generation(model, options);
    DraftSource& mtp = generation.add_source("mtp");
    generation.prefill();
    while (!generation.is_done()) {
      const RoundResult result = generation.round(&mtp, 5);
      const bool is_drafted =
          std::find(result.drafts.begin(), result.drafts.end(), 0) != result.drafts.end();
      if (generation.is_done() && is_drafted) ++n_drafted_stops;
    }
    EXPECT_EQ(std::count(generation.tokens().begin(), generation.tokens().end(), 0), 1) << seed;
    EXPECT_EQ(generation.tokens(), generate_plainly(model, options));
  }
  EXPECT_GT(n_drafted_stops, 5u);
}

TEST(DecodeRound, DraftsNoMoreThanTheCacheCanUndo) {
  FakeModelOptions model_options;
  model_options.rollback_window = 2;
  const FakeModel model(model_options);
  Generation generation(model, options_for(1, 0));
  AdversarySource source(Malice::kRepeatsPending, 16, 0, 1);
  generation.add_source(source);
  generation.prefill();
  EXPECT_EQ(generation.round(&source, 8).parts.at(0).n_asked, 2u);

  model_options.rollback_window = 0;
  const FakeModel rigid(model_options);
  Generation other(rigid, options_for(1, 0));
  other.add_source(source);
  other.prefill();
  EXPECT_EQ(other.round(&source, 8).parts.at(0).n_asked, 0u);
}

TEST(DecodeRound, DraftsNoMoreThanTheContextHolds) {
  const FakeModel model(FakeModelOptions{});
  GenerationOptions options = options_for(1, 0);
  options.cache_tokens = options.prompt.size() + 3;
  Generation generation(model, options);
  AdversarySource source(Malice::kRepeatsPending, 16, 0, 1);
  generation.add_source(source);
  generation.prefill();
  EXPECT_EQ(generation.round(&source, 8).parts.at(0).n_asked, 2u);
  while (generation.cache().length() < options.cache_tokens) {
    EXPECT_LE(generation.round(&source, 8).parts.at(0).n_asked,
              options.cache_tokens - generation.cache().length() + 1);
  }
  EXPECT_THROW(generation.round(&source, 8), InvalidInput);
}

TEST(DecodeRound, RefusesABrokenInvariant) {
  const FakeModel model(FakeModelOptions{});
  Generation generation(model, options_for(1, 0));
  generation.prefill();
  const std::size_t length = generation.cache().length() - 1;
  generation.cache().truncate(length);
  EXPECT_THROW(decode_round(generation.state(), {}, {}), LogicError);
  EXPECT_EQ(generation.cache().length(), length);
  EXPECT_EQ(generation.tokens().size(), length + 2);
}

TEST(DecodeRound, AsksForAHintOnlyWithoutDraftsAndForOneForwardOnly) {
  const FakeModel model(FakeModelOptions{});
  Generation generation(model, options_for(1, 0));
  AdversarySource drafter(Malice::kRepeatsPending, 16, 0, 1);
  AdversarySource hinter(Malice::kEndOfText, 16, 0, 1);
  generation.add_source(drafter);
  generation.add_source(hinter);
  generation.state().hinter = &hinter;
  generation.prefill();
  EXPECT_THAT(generation.round(nullptr, 0).hints, ElementsAre(0));
  EXPECT_TRUE(generation.workspace().hints().empty()) << "those of the round before";
  const RoundResult drafted = generation.round(&drafter, 2);
  EXPECT_EQ(drafted.drafts.size(), 2u);
  EXPECT_THAT(drafted.hints, IsEmpty());
  generation.state().hinter = nullptr;
  EXPECT_THAT(generation.round(nullptr, 0).hints, IsEmpty());
}

/// Counts as if every look at it came after a pass: 7 more misses, 2 of them cached, 30 us more.
class CountingStore final : public experts::ExpertStore {
 public:
  experts::ExpertLease acquire(std::size_t, std::span<const std::uint32_t>) override {
    throw LogicError("not to be asked");
  }
  void prefetch(std::size_t, std::span<const std::uint32_t>) noexcept override {}
  void prefetch_hinted(std::size_t, std::span<const std::uint32_t>) noexcept override {}
  std::size_t n_missing(std::size_t, std::span<const std::uint32_t>) const override { return 0; }
  bool forecast_missing(std::span<double>) noexcept override { return false; }
  bool begin_pass(std::size_t) noexcept override { return false; }
  void end_pass() noexcept override {}
  experts::ExpertStats stats() const override {
    ++n_looks_;
    experts::ExpertStats stats;
    stats.trunk.misses = 100 + 7 * n_looks_;
    stats.trunk.from_page_cache = 50 + 2 * n_looks_;
    stats.trunk.slot_bytes = 1000;
    stats.stall_us = 400 + 30 * static_cast<std::int64_t>(n_looks_);
    return stats;
  }

 private:
  mutable std::uint64_t n_looks_ = 0;
};

TEST(DecodeRound, CountsWhatItsForwardReadAndWaitedFor) {
  const FakeModel model(FakeModelOptions{});
  Generation generation(model, options_for(1, 0));
  const CountingStore store;
  generation.prefill();
  EXPECT_EQ(generation.round(nullptr, 0).missing_bytes, 0u) << "nothing streams";
  generation.state().store = &store;
  for (int i = 0; i < 2; ++i) {
    const RoundResult result = generation.round(nullptr, 0);
    EXPECT_EQ(result.missing_bytes, 5000u);
    EXPECT_EQ(result.stall_us, 30);
    EXPECT_EQ(outcome_of(result).missing_bytes, 5000);
    EXPECT_EQ(outcome_of(result).stall_us, 30);
  }
}

}  // namespace
}  // namespace ft::speculation
