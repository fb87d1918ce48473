#include "speculation/decode_round.h"

#include "base/error.h"
#include "experts/expert_store.h"
#include "speculation/draft_model.h"
#include "speculation/prefill.h"
#include "testing/adversary_source.h"
#include "testing/block_drafter.h"
#include "testing/generation.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::AdversarySource;
using ::testing::ElementsAre;
using testing::FakeHeadCache;
using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Malice;

std::uint64_t random(std::uint64_t seed, std::uint64_t a, std::uint32_t b) {
  return noise_bits(seed, NoisePurpose::kAccept, a, b);
}

GenerationOptions options_for(std::uint64_t seed, float temperature) {
  GenerationOptions options;
  options.sampling.temperature = temperature;
  options.sampling.seed = seed;
  const std::size_t n_prompt = 1 + random(seed, 0, 0) % 9;
  for (std::size_t i = 0; i < n_prompt; ++i) {
    options.prompt.push_back(
        static_cast<Token>(1 + random(seed, 1, static_cast<std::uint32_t>(i)) % 15));
  }
  return options;
}

// Every row of the head is (hidden t, token t + 1) of the final sequence; none is missing between
// the first and the last.
void expect_true_rows(cache::KvCache& cache, TokenSpan tokens, std::size_t first) {
  const auto& rows = dynamic_cast<FakeHeadCache&>(cache).rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t position = first + i;
    ASSERT_LT(position + 1, tokens.size());
    EXPECT_EQ(rows[i].state, FakeModel::state_after(tokens.first(position + 1)));
    EXPECT_EQ(rows[i].next, tokens[position + 1]);
    EXPECT_FALSE(rows[i].is_chained);
  }
}

struct EqualityCase {
  float temperature;
  bool has_penalties;
  bool is_repetitive;
  std::optional<std::size_t> rollback_window;
};

class RoundEquality : public ::testing::TestWithParam<EqualityCase> {
 protected:
  static constexpr std::size_t kSources = 9;

  RoundEquality() {
    FakeModelOptions options;
    options.is_repetitive = GetParam().is_repetitive;
    options.rollback_window = GetParam().rollback_window;
    options.head_quality = 70;
    model_ = std::make_unique<FakeModel>(options);
  }

  GenerationOptions options(std::uint64_t seed) const {
    GenerationOptions options = options_for(seed, GetParam().temperature);
    if (GetParam().has_penalties) {
      options.sampling.repetition_penalty = 1.2f;
      options.sampling.presence_penalty = 0.3f;
      options.sampling.frequency_penalty = 0.2f;
    }
    return options;
  }

  // Of three requests one expects its own output less one token, one nonsense, one nothing.
  static GenerationOptions predicting(GenerationOptions options, TokenSpan text) {
    const std::uint64_t seed = options.sampling.seed;
    const TokenSpan output = text.subspan(options.prompt.size());
    for (std::size_t i = 0; seed % 3 != 0 && i < output.size(); ++i) {
      const bool is_right = seed % 3 == 1;
      if (is_right && i == output.size() / 2) continue;
      options.prediction.push_back(
          is_right ? output[i]
                   : static_cast<Token>(random(seed, 5, static_cast<std::uint32_t>(i)) % 16));
    }
    return options;
  }

  // All sources observe; `choose` says who proposes.
  void expect_equal(const GenerationOptions& options, const testing::Chooser& choose) {
    expect_equal_windows(options, [&](std::size_t round) {
      const auto [source, depth] = choose(round);
      std::vector<std::pair<std::size_t, std::size_t>> window;
      if (source >= 0) window.emplace_back(static_cast<std::size_t>(source), depth);
      return window;
    });
  }

  void expect_equal_windows(const GenerationOptions& options,
                            const testing::WindowChooser& choose) {
    const std::vector<Token> expected = generate_plainly(*model_, options);
    Generation generation(*model_, predicting(options, expected));
    DraftSource& mtp = generation.add_source("mtp");
    for (const std::string_view name : {"ngram", "suffix", "prediction"})
      generation.add_source(name);
    AdversarySource random_tokens(Malice::kRandomTokens, 16, 0, 3);
    AdversarySource end_of_text(Malice::kEndOfText, 16, 0, 3);
    random_tokens.set_taps({1, 3});
    end_of_text.set_taps({2});
    generation.add_source(random_tokens);
    generation.add_source(end_of_text);
    generation.add_source("none");
    FakeModelOptions draft_options;
    draft_options.is_repetitive = true;
    draft_options.rollback_window = GetParam().rollback_window;
    const auto provider =
        make_draft_model_provider(std::make_unique<FakeModel>(draft_options), {.chunk = 5});
    sampling::Sampler sampler(options.sampling, model_->config().n_vocab);
    const auto draft_model =
        provider->open({.model = model_.get(),
                        .sampler = &sampler,
                        .cache_options = {.max_tokens = options.cache_tokens}});
    generation.add_source(*draft_model);
    testing::BlockDrafter block(
        {.check = testing::fake_feature_check({1, 3})},
        {.model = model_.get(), .sampler = generation.state().sampler, .cache_options = {}});
    generation.add_source(block);
    EXPECT_EQ(generation.run_windows(choose), expected);

    // What is kept for reuse: every committed token but the pending one.
    const TokenSpan fed = generation.cache().tokens();
    EXPECT_TRUE(std::equal(fed.begin(), fed.end(), expected.begin(), expected.end() - 1));
    expect_true_rows(*mtp.cache(), expected, 0);
    n_accepted_ += generation.n_accepted();
    n_checked_ += block.n_checked();
  }

  std::unique_ptr<FakeModel> model_;
  std::size_t n_accepted_ = 0;
  std::size_t n_checked_ = 0;  // feature rows that the block drafter has read
};

TEST_P(RoundEquality, EachSourceAtEachDepthEqualsPlainDecoding) {
  for (int source = -1; source < static_cast<int>(kSources); ++source) {
    for (const std::size_t depth : {0u, 1u, 2u, 3u, 5u, 8u}) {
      for (const std::uint64_t seed : {100 + depth, 200 + depth}) {
        SCOPED_TRACE("source " + std::to_string(source) + " depth " + std::to_string(depth) +
                     " seed " + std::to_string(seed));
        expect_equal(options(seed), [&](std::size_t) { return std::pair(source, depth); });
      }
    }
  }
  EXPECT_GT(n_accepted_, 100u);
  EXPECT_GT(n_checked_, 1000u);
}

TEST_P(RoundEquality, AHintChangesNothing) {
  for (const std::size_t depth : {0u, 2u}) {
    for (const char* name : {"mtp", "ngram", "adversary"}) {
      const GenerationOptions generation_options = options(300 + depth);
      Generation generation(*model_, generation_options);
      DraftSource& mtp = generation.add_source("mtp");
      AdversarySource adversary(Malice::kRandomTokens, 16, 0, 3);
      generation.add_source(adversary);
      generation.state().hinter = std::string_view(name) == "mtp"     ? &mtp
                                  : std::string_view(name) == "ngram" ? &generation.add_source(name)
                                                                      : &adversary;
      const std::vector<Token> expected = generate_plainly(*model_, generation_options);
      EXPECT_EQ(generation.run([&](std::size_t) { return std::pair(0, depth); }), expected)
          << name << " behind " << depth;
      expect_true_rows(*mtp.cache(), expected, 0);
    }
  }
}

TEST_P(RoundEquality, ARandomMixtureEqualsPlainDecoding) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GenerationOptions generation = options(seed);
    generation.prefill_chunk = 1 + random(seed, 2, 0) % 5;
    expect_equal(generation, [&](std::size_t round) {
      const int source =
          static_cast<int>(random(seed, 3, static_cast<std::uint32_t>(round)) % (kSources + 1)) - 1;
      return std::pair(source, random(seed, 4, static_cast<std::uint32_t>(round)) % 9);
    });
  }
}

TEST_P(RoundEquality, TheHeadBehindDraftsOfOthersEqualsPlainDecoding) {
  for (const std::size_t first : {1u, 2u, 3u, 4u, 5u}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE("first " + std::to_string(first) + " seed " + std::to_string(seed));
      expect_equal_windows(options(seed), [&](std::size_t round) {
        return std::vector<std::pair<std::size_t, std::size_t>>{{first, 1 + round % 3},
                                                                {0, 1 + (round + seed) % 4}};
      });
    }
  }
  EXPECT_GT(n_accepted_, 10u);
}

TEST_P(RoundEquality, RandomWindowsOfSeveralPartsEqualPlainDecoding) {
  for (std::uint64_t seed = 50; seed < 75; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    GenerationOptions generation = options(seed);
    generation.prefill_chunk = 1 + random(seed, 2, 0) % 5;
    expect_equal_windows(generation, [&](std::size_t round) {
      std::vector<std::pair<std::size_t, std::size_t>> window(random(seed, 5 + round, 0) % 4);
      std::uint32_t i = 1;
      for (auto& [source, depth] : window) {
        source = random(seed, 5 + round, i++) % kSources;
        depth = random(seed, 5 + round, i++) % 5;
      }
      return window;
    });
  }
}

TEST_P(RoundEquality, APerfectHeadIsAlwaysRight) {
  FakeModelOptions perfect;
  perfect.is_repetitive = GetParam().is_repetitive;
  perfect.rollback_window = GetParam().rollback_window;
  perfect.head_quality = 100;
  const FakeModel model(perfect);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const GenerationOptions generation_options = options(seed);
    Generation generation(model, generation_options);
    generation.add_source("mtp");
    EXPECT_EQ(generation.run([](std::size_t) { return std::pair(0, std::size_t{3}); }),
              generate_plainly(model, generation_options));
    // One token comes from prefill. A round may be cut short by the end, all others commit four
    // tokens.
    const std::size_t n_output = generation.tokens().size() - generation_options.prompt.size();
    EXPECT_EQ(generation.n_rounds(), (n_output - 1 + 3) / 4) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Laws,
                         RoundEquality,
                         ::testing::Values(EqualityCase{0, false, false, std::nullopt},
                                           EqualityCase{0, false, true, 3},
                                           EqualityCase{0, true, true, std::nullopt},
                                           EqualityCase{1, false, false, 3},
                                           EqualityCase{1, false, true, std::nullopt},
                                           EqualityCase{0.7f, true, false, std::nullopt},
                                           EqualityCase{1.3f, true, true, 3}));

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

// A round that fails leaves everything as it was: the next one, undisturbed, gives what would have
// come anyway.
class FailedRound : public ::testing::Test {
 protected:
  FailedRound() {
    FakeModelOptions options;
    options.head_quality = 80;
    model_ = std::make_unique<FakeModel>(options);
    options_ = options_for(8, 1);
    generation_ = std::make_unique<Generation>(*model_, options_);
    mtp_ = &generation_->add_source("mtp");
    generation_->prefill();
    generation_->round(mtp_, 3);
  }
  void expect_undisturbed() {
    while (!generation_->is_done()) {
      const std::size_t n_left =
          options_.prompt.size() + options_.max_tokens - generation_->tokens().size();
      generation_->round(mtp_, std::min<std::size_t>(3, n_left - 1));
    }
    EXPECT_EQ(generation_->tokens(), generate_plainly(*model_, options_));
    expect_true_rows(*mtp_->cache(), generation_->tokens(), 0);
    EXPECT_GT(generation_->n_accepted(), 5u);
  }
  template <typename Exception>
  void expect_failure(DraftSource* proposer) {
    const std::vector<Token> tokens = generation_->tokens();
    EXPECT_THROW(generation_->round(proposer, 3), Exception);
    EXPECT_EQ(generation_->tokens(), tokens);
    EXPECT_EQ(generation_->cache().length() + 1, tokens.size());
  }

  std::unique_ptr<FakeModel> model_;
  GenerationOptions options_;
  std::unique_ptr<Generation> generation_;
  DraftSource* mtp_ = nullptr;
};

TEST_F(FailedRound, ForwardThrows) {
  generation_->workspace().fails_in = 0;
  expect_failure<IoError>(mtp_);
  expect_undisturbed();
}

TEST_F(FailedRound, FirstDraftStepThrows) {
  model_->fake_head()->fail_in(0);
  expect_failure<IoError>(mtp_);
  expect_undisturbed();
}

TEST_F(FailedRound, LaterDraftStepThrows) {
  model_->fake_head()->fail_in(2);
  expect_failure<IoError>(mtp_);
  expect_undisturbed();
}

TEST_F(FailedRound, ADraftStepOverAnothersDraftsThrows) {
  AdversarySource ahead(Malice::kRepeatsPending, 16, 0, 1);
  const std::vector<Token> tokens = generation_->tokens();
  model_->fake_head()->fail_in(2);
  EXPECT_THROW(generation_->round(std::vector<Proposer>{{&ahead, 3}, {mtp_, 2}}), IoError);
  EXPECT_EQ(generation_->tokens(), tokens);
  expect_true_rows(*mtp_->cache(), tokens, 0);
  expect_undisturbed();
}

TEST_F(FailedRound, ALogitIsNan) {
  generation_->workspace().nan_row = 0;
  expect_failure<Error>(mtp_);
  expect_undisturbed();
}

TEST_F(FailedRound, Cancelled) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(decode_round(generation_->state(), {{{mtp_, 3}}}, stop.get_token()), Cancelled);
  AdversarySource source(Malice::kThrows, 16, 0, 1);
  EXPECT_THROW(decode_round(generation_->state(), {{{&source, 3}}}, stop.get_token()), Cancelled)
      << "no source is asked";
  expect_undisturbed();
}

TEST_F(FailedRound, SourceThrowsOrBreaksItsContract) {
  for (const Malice malice : {Malice::kTooMany, Malice::kOutsideVocabulary, Malice::kNegative}) {
    AdversarySource source(malice, 16, 0, 1);
    expect_failure<LogicError>(&source);
  }
  AdversarySource source(Malice::kThrows, 16, 0, 1);
  expect_failure<IoError>(&source);
  expect_undisturbed();
}

TEST_F(FailedRound, MessageNamesTheSourceAndTheValues) {
  AdversarySource source(Malice::kTooMany, 16, 0, 1);
  try {
    generation_->round(&source, 3);
    FAIL();
  } catch (const LogicError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'adversary' returned 4 tokens, asked for at most 3"));
  }
}

TEST(FailedObserve, TheRoundStandsAndAllOthersHaveSeenIt) {
  FakeModelOptions model_options;
  model_options.head_quality = 100;
  const FakeModel model(model_options);
  const GenerationOptions options = options_for(3, 1);
  Generation generation(model, options);
  AdversarySource bad(Malice::kThrowsInObserve, 16, 0, 1);
  AdversarySource good(Malice::kRandomTokens, 16, 0, 1);
  generation.add_source(bad);
  generation.add_source(good);
  EXPECT_THROW(generation.prefill(), IoError);
  EXPECT_EQ(good.n_observed(), 1u);
  EXPECT_EQ(generation.cache().length(), options.prompt.size());
  const std::vector<float> logits = model.logits_after(options.prompt);
  EXPECT_THROW(first_token(generation.state(), {logits.data(), 1, 16, 16}), IoError);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_THROW(generation.round(&good, 2), IoError);
    EXPECT_EQ(generation.tokens().size(), generation.cache().length() + 1);
  }
  const std::vector<Token> expected = generate_plainly(model, options);
  const std::size_t n = std::min(expected.size(), generation.tokens().size());
  EXPECT_TRUE(std::equal(expected.begin(),
                         expected.begin() + static_cast<std::ptrdiff_t>(n),
                         generation.tokens().begin()));
}

}  // namespace
}  // namespace ft::speculation
