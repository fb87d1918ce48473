#include "base/error.h"
#include "base/random.h"
#include "speculation/draft_source.h"
#include "testing/generation.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using ::testing::ElementsAre;
using testing::FakeHeadCache;
using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;
using ::testing::IsEmpty;

FakeModelOptions with_head(unsigned quality) {
  FakeModelOptions options;
  options.head_quality = quality;
  return options;
}

GenerationOptions some_generation(std::uint64_t seed, float temperature) {
  GenerationOptions options;
  options.sampling.temperature = temperature;
  options.sampling.seed = seed;
  options.prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  options.max_tokens = 40;
  return options;
}

std::unique_ptr<DraftSource> open_ngram() {
  const FakeModel model(FakeModelOptions{});
  return make_draft_provider("ngram", model)
      ->open({.model = &model, .sampler = nullptr, .cache_options = {}});
}

std::vector<Token> drafts_after(DraftSource& source,
                                const std::vector<Token>& tokens,
                                std::size_t n) {
  source.observe({.sequence = tokens,
                  .n_prompt = 1,
                  .first_position = tokens.size(),
                  .n_rows = 0,
                  .taps = {}});
  return source.propose({.max_tokens = n}, {}).tokens;
}

TEST(NgramSource, ProposesWhatFollowedLastTime) {
  const auto source = open_ngram();
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 4), ElementsAre(4, 5, 6, 1));
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), ElementsAre(4, 5));
}

TEST(NgramSource, CopiesIntoItselfWhereTextIsPeriodic) {
  const auto source = open_ngram();
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 1, 2, 1, 2}, 5), ElementsAre(1, 2, 1, 2, 1));
}

TEST(NgramSource, AWeakMatchGivesAsManyDraftsAsItIsLong) {
  const auto source = open_ngram();
  EXPECT_THAT(drafts_after(*source, {1, 2, 4, 5, 6, 7, 1, 2}, 5), ElementsAre(4, 5));
  EXPECT_THAT(drafts_after(*source, {1, 2, 4, 5, 6, 7, 2}, 5), ElementsAre(4));
}

TEST(NgramSource, AnOfferIsAsStrongAsTheMatchIsLong) {
  const auto source = open_ngram();
  const auto offer_after = [&](const std::vector<Token>& tokens) {
    drafts_after(*source, tokens, 0);
    return source->offer(5).value();
  };
  EXPECT_EQ(offer_after({1, 2, 3}).n_tokens, 0U);
  EXPECT_EQ(offer_after({1, 2, 3, 4, 5, 3}).n_tokens, 1U);
  EXPECT_EQ(offer_after({1, 2, 3, 4, 5, 3}).strength, 0U);
  EXPECT_EQ(offer_after({1, 2, 3, 4, 5, 2, 3}).n_tokens, 2U);
  EXPECT_EQ(offer_after({1, 2, 3, 4, 5, 2, 3}).strength, 1U);
  EXPECT_EQ(offer_after({1, 2, 3, 4, 5, 1, 2, 3}).n_tokens, 5U);
  EXPECT_EQ(offer_after({1, 2, 3, 4, 5, 1, 2, 3}).strength, 2U);
}

TEST(NgramSource, ProposesNothingWithoutAMatch) {
  const auto source = open_ngram();
  EXPECT_THAT(drafts_after(*source, {1, 2, 3}, 5), IsEmpty());
  EXPECT_THAT(source->propose({.max_tokens = 0}, {}).tokens, IsEmpty());
}

TEST(NgramSource, ForgetsWhatTheSessionTookBack) {
  const auto source = open_ngram();
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 4, 1, 2, 3}, 1), ElementsAre(4));
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 5, 1, 2, 3}, 1), ElementsAre(5));
  EXPECT_THAT(drafts_after(*source, {1, 2, 3}, 1), IsEmpty());
  EXPECT_THAT(drafts_after(*source, {7, 8}, 1), IsEmpty());
}

TEST(MtpSource, SamplesWithTheTargetsLawAndNoise) {
  // A perfect head's drafts are the target's own choices, at any temperature and with penalties.
  for (const float temperature : {0.0f, 1.0f}) {
    const FakeModel model(with_head(100));
    GenerationOptions options = some_generation(5, temperature);
    options.sampling.top_p = 0.9f;
    options.sampling.frequency_penalty = 0.5f;
    Generation generation(model, options);
    DraftSource& mtp = generation.add_source("mtp");
    generation.prefill();
    const std::vector<Token> expected = generate_plainly(model, options);
    const std::vector<Token> drafts = mtp.propose({.max_tokens = 6}, {}).tokens;
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(drafts[i], expected.at(options.prompt.size() + 1 + i)) << i;
  }
}

TEST(MtpSource, ProposingTwiceGivesTheSame) {
  const FakeModel model(with_head(50));
  Generation generation(model, some_generation(5, 1));
  DraftSource& mtp = generation.add_source("mtp");
  generation.prefill();
  const std::vector<Token> first = mtp.propose({.max_tokens = 4}, {}).tokens;
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(mtp.propose({.max_tokens = 4}, {}).tokens, first);
}

TEST(MtpSource, DraftsBehindTheTokensOfAnotherSource) {
  // A perfect head knows what the target would say behind any tokens, right or wrong.
  for (const float temperature : {0.0f, 1.0f}) {
    const FakeModel model(with_head(100));
    GenerationOptions options = some_generation(5, temperature);
    options.sampling.frequency_penalty = 0.5f;
    Generation generation(model, options);
    DraftSource& mtp = generation.add_source("mtp");
    generation.prefill();
    const std::size_t n_rows = mtp.cache()->length();
    for (const std::vector<Token>& ahead : {std::vector<Token>{}, {7}, {3, 3, 3}, {0, 15, 1, 2}}) {
      std::vector<Token> expected = generation.tokens();
      expected.insert(expected.end(), ahead.begin(), ahead.end());
      sampling::Sampler sampler(options.sampling, model.config().n_vocab);
      for (std::size_t i = 0; i < 3; ++i) {
        expected.push_back(
            sampler.pick(model.logits_after(expected), {expected, options.prompt.size()}));
      }
      const std::vector<Token> drafts = mtp.propose({.max_tokens = 3, .ahead = ahead}, {}).tokens;
      EXPECT_EQ(drafts, std::vector<Token>(expected.end() - 3, expected.end()));
      EXPECT_LE(mtp.cache()->length(), n_rows + options.prompt.size());
      for (const auto& row : dynamic_cast<FakeHeadCache&>(*mtp.cache()).rows())
        EXPECT_FALSE(row.is_chained);
    }
  }
}

TEST(MtpSource, TokensAheadTakeTheirShareOfTheRollbackWindow) {
  FakeModelOptions model_options = with_head(100);
  model_options.rollback_window = 3;
  const FakeModel model(model_options);
  Generation generation(model, some_generation(5, 1));
  DraftSource& mtp = generation.add_source("mtp");
  generation.prefill();
  const std::vector<Token> ahead = {1, 2, 3, 4, 5};
  for (std::size_t n = 0; n <= ahead.size(); ++n) {
    const DraftRequest request{.max_tokens = 9, .ahead = TokenSpan(ahead).first(n)};
    EXPECT_EQ(mtp.propose(request, {}).tokens.size(), 4 - std::min<std::size_t>(n, 4));
  }
}

TEST(MtpSource, AStepOverAnothersTokensThatIsNotFiniteGivesNoDraft) {
  const FakeModel model(with_head(100));
  Generation generation(model, some_generation(5, 1));
  DraftSource& mtp = generation.add_source("mtp");
  generation.prefill();
  const std::vector<Token> ahead = {1, 2};
  model.fake_head()->spoil_in(1, 1);
  EXPECT_THAT(mtp.propose({.max_tokens = 3, .ahead = ahead}, {}).tokens, IsEmpty());
  EXPECT_EQ(mtp.propose({.max_tokens = 3, .ahead = ahead}, {}).tokens.size(), 3u);
}

TEST(MtpSource, ARestoredOneDraftsAsIfItHadSeenAll) {
  // Saved after rounds of its own and of others, which leave rows waiting.
  const FakeModel model(with_head(60));
  for (std::size_t n_rounds = 0; n_rounds < 12; ++n_rounds) {
    Generation generation(model, some_generation(5, 1));
    DraftSource& mtp = generation.add_source("mtp");
    DraftSource& ngram = generation.add_source("ngram");
    generation.prefill();
    for (std::size_t i = 0; i < n_rounds && !generation.is_done(); ++i)
      generation.round(i % 3 == 0 ? &mtp : &ngram, i % 2);
    const auto state = mtp.save(DraftSource::kAllTokens);
    ASSERT_NE(state, nullptr);
    const auto copy = make_draft_provider("mtp", model)
                          ->open({.model = &model,
                                  .sampler = generation.state().sampler,
                                  .cache_options = {.max_tokens = 512}});
    ASSERT_TRUE(copy->restore(*state, DraftSource::kAllTokens));
    copy->observe({.sequence = generation.tokens(),
                   .n_prompt = 8,
                   .first_position = generation.tokens().size() - 1,
                   .n_rows = 0,
                   .taps = {}});
    const std::vector<Token> drafts = mtp.propose({.max_tokens = 4}, {}).tokens;
    EXPECT_EQ(drafts.size(), 4u);
    EXPECT_EQ(copy->propose({.max_tokens = 4}, {}).tokens, drafts);
    EXPECT_EQ(copy->cache()->length(), mtp.cache()->length());

    const auto smaller = make_draft_provider("mtp", model)
                             ->open({.model = &model,
                                     .sampler = generation.state().sampler,
                                     .cache_options = {.max_tokens = 100}});
    EXPECT_FALSE(smaller->restore(*state, DraftSource::kAllTokens));
    EXPECT_FALSE(open_ngram()->restore(*state, DraftSource::kAllTokens));
  }
}

TEST(MtpSource, ARestoredOneThatHadGivenUpHasGivenUp) {
  const FakeModel model(with_head(100));
  Generation generation(model, some_generation(6, 1));
  DraftSource& mtp = generation.add_source("mtp");
  generation.prefill();
  model.fake_head()->spoil_in(0, 2);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(mtp.propose({.max_tokens = 3}, {}).tokens, IsEmpty());
  const auto copy = make_draft_provider("mtp", model)
                        ->open({.model = &model,
                                .sampler = generation.state().sampler,
                                .cache_options = {.max_tokens = 512}});
  ASSERT_TRUE(copy->restore(*mtp.save(DraftSource::kAllTokens), DraftSource::kAllTokens));
  copy->observe({.sequence = generation.tokens(),
                 .n_prompt = 8,
                 .first_position = generation.tokens().size() - 1,
                 .n_rows = 0,
                 .taps = {}});
  EXPECT_THAT(copy->propose({.max_tokens = 3}, {}).tokens, IsEmpty());
}

// A perfect head knows the law, so the draws say whose noise they were made with.
TEST(MtpSource, DrawsWithTheNoiseOfTheAttempt) {
  const FakeModel model(with_head(100));
  const GenerationOptions options = some_generation(5, 1);
  Generation generation(model, options);
  DraftSource& mtp = generation.add_source("mtp");
  generation.prefill();
  sampling::Sampler sampler(options.sampling, model.config().n_vocab);
  for (const std::uint64_t attempt : {0u, 1u, 7u}) {
    std::vector<Token> expected = generation.tokens();
    for (std::size_t i = 0; i < 6; ++i) {
      expected.push_back(sampler.pick(model.logits_after(expected),
                                      {expected, options.prompt.size()},
                                      NoisePurpose::kDraft,
                                      attempt));
    }
    const DraftRequest request{.max_tokens = 6, .wants_laws = true, .attempt = attempt};
    EXPECT_EQ(mtp.propose(request, {}).tokens,
              std::vector<Token>(expected.end() - 6, expected.end()));
  }
}

TEST(MtpSource, HasNothingToSayBeforeTheFirstToken) {
  const FakeModel model(with_head(50));
  Generation generation(model, some_generation(5, 1));
  DraftSource& mtp = generation.add_source("mtp");
  EXPECT_THAT(mtp.propose({.max_tokens = 4}, {}).tokens, IsEmpty());
}

TEST(MtpSource, StartsColdWhereTheHeadWantsNoPrompt) {
  FakeModelOptions model_options = with_head(100);
  model_options.head_wants_prompt = false;
  const FakeModel model(model_options);
  for (const std::size_t chunk : {1u, 3u, 7u, 8u}) {
    GenerationOptions options = some_generation(6, 1);
    options.prefill_chunk = chunk;
    Generation generation(model, options);
    DraftSource& mtp = generation.add_source("mtp");
    EXPECT_EQ(generation.run([](std::size_t) { return std::pair(0, std::size_t{2}); }),
              generate_plainly(model, options));
    const auto& rows = dynamic_cast<FakeHeadCache&>(*mtp.cache()).rows();
    ASSERT_FALSE(rows.empty());
    // The first row is the one whose logits chose the first token.
    EXPECT_EQ(rows[0].state, FakeModel::state_after(options.prompt));
    EXPECT_EQ(rows[0].next, generation.tokens()[options.prompt.size()]);
    EXPECT_GT(generation.n_accepted(), 5u);
  }
}

TEST(MtpSource, StopsBetweenStepsWhenCancelled) {
  const FakeModel model(with_head(100));
  Generation generation(model, some_generation(6, 1));
  DraftSource& mtp = generation.add_source("mtp");
  generation.prefill();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(mtp.propose({.max_tokens = 3}, stop.get_token()), Cancelled);
  EXPECT_EQ(mtp.propose({.max_tokens = 3}, {}).tokens.size(), 3u);
}

// Values that are not finite end the drafts of a round, at most twice in a request, and never touch
// the text.
TEST(MtpSource, EndsDraftingAtValuesThatAreNotFinite) {
  const FakeModel model(with_head(100));
  for (const std::size_t n_spoiled : {1u, 2u, 100u}) {
    for (const std::size_t first : {0u, 2u}) {
      const GenerationOptions options = some_generation(6, 1);
      Generation generation(model, options);
      DraftSource& mtp = generation.add_source("mtp");
      generation.prefill();
      model.fake_head()->spoil_in(first, n_spoiled);
      EXPECT_EQ(generation.round(&mtp, 3).drafts.size(), first);
      const bool comes_again = n_spoiled > 1;
      EXPECT_EQ(generation.round(&mtp, 3).drafts.size(), comes_again ? 0u : 3u);
      EXPECT_EQ(generation.round(&mtp, 3).drafts.size(), comes_again ? 0u : 3u);
      const std::size_t n_stepped = model.fake_head()->n_stepped();
      while (!generation.is_done()) generation.round(&mtp, comes_again ? 3 : 0);
      EXPECT_EQ(model.fake_head()->n_stepped(), n_stepped) << "a source that gave up does not work";
      const std::vector<Token> expected = generate_plainly(model, options);
      ASSERT_GE(generation.tokens().size(), expected.size());
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), generation.tokens().begin()));
    }
  }
}

// A later turn of a conversation: the session keeps a prefix, feeds the rest, and the sources
// follow.
TEST(MtpSource, FollowsASessionThatKeepsAPrefix) {
  const FakeModel model(with_head(90));
  GenerationOptions options = some_generation(9, 1);
  Generation first(model, options);
  DraftSource& mtp = first.add_source("mtp");
  first.prefill();
  for (int i = 0; i < 4; ++i) first.round(&mtp, 3);

  // Twelve tokens stay, the rest is another text. The last of the twelve is fed again.
  RoundState& state = first.state();
  state.tokens->resize(12);
  state.n_shown = 12;
  for (const Token token : {8, 8, 3}) state.tokens->push_back(token);
  options.prompt = *state.tokens;
  state.n_prompt = state.tokens->size();
  first.cache().truncate(11);
  first.prefill();
  const std::vector<Token> expected = generate_plainly(model, options);
  while (first.tokens().size() + 4 < expected.size()) first.round(&mtp, 3);
  EXPECT_TRUE(std::equal(first.tokens().begin(), first.tokens().end(), expected.begin()));
  const auto& rows = dynamic_cast<FakeHeadCache&>(*mtp.cache()).rows();
  ASSERT_GT(rows.size(), 14u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].state, FakeModel::state_after(TokenSpan(expected).first(i + 1))) << i;
  }
}

}  // namespace
}  // namespace ft::speculation
