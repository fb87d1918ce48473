#include "speculation/draft_model.h"

#include "base/error.h"
#include "testing/generation.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What a draft model is told to do wrong, and what it was asked.
struct Script {
  std::optional<std::size_t> fails_in;   // that many forwards from now one throws IoError
  std::optional<std::size_t> spoils_in;  // that many forwards from now all are not finite
  std::optional<std::size_t> nan_in;     // that many forwards from now one gives NaN
  std::vector<std::size_t> n_fed;        // tokens of each forward

  void follow(std::span<const models::SequenceSlice> slices, models::Workspace& workspace) {
    if (fails_in && (*fails_in)-- == 0) {
      fails_in.reset();
      throw IoError("planned failure");
    }
    if (spoils_in) {
      if (*spoils_in == 0) throw Error(ErrorCode::kInternal, "not finite");
      --*spoils_in;
    }
    if (nan_in && (*nan_in)-- == 0) {
      nan_in.reset();
      dynamic_cast<testing::FakeWorkspace&>(workspace).nan_row = 0;
    }
    n_fed.push_back(slices[0].tokens.size());
  }
};

/// A model that follows the script, which must outlive it.
std::unique_ptr<FakeModel> scripted_model(FakeModelOptions options, Script& script) {
  options.before_forward = [&script](auto slices, const auto&, models::Workspace& workspace) {
    script.follow(slices, workspace);
  };
  return std::make_unique<FakeModel>(std::move(options));
}

GenerationOptions some_generation(std::uint64_t seed, float temperature) {
  GenerationOptions options;
  options.sampling.temperature = temperature;
  options.sampling.seed = seed;
  options.prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  options.max_tokens = 40;
  return options;
}

/// A generation with one source, that of a scripted draft model.
class Pair {
 public:
  explicit Pair(const GenerationOptions& options,
                const FakeModelOptions& target = {},
                const FakeModelOptions& draft = {},
                std::size_t chunk = 512)
      : model_(target),
        sampler_(options.sampling, target.n_vocab),
        provider_(make_draft_model_provider(scripted_model(draft, script), {.chunk = chunk})),
        cache_options_{.max_tokens = options.cache_tokens},
        source_(another()),
        generation(model_, options) {
    generation.add_source(*source_);
  }

  const FakeModel& model() const { return model_; }
  DraftSource& source() { return *source_; }
  /// One more of the same draft model, which follows the same script.
  std::unique_ptr<DraftSource> another() {
    return provider_->open(
        {.model = &model_, .sampler = &sampler_, .cache_options = cache_options_});
  }
  std::size_t n_fed() const {
    return std::accumulate(script.n_fed.begin(), script.n_fed.end(), std::size_t{0});
  }
  std::vector<Token> propose(std::size_t n, TokenSpan ahead = {}) {
    return source_->propose({.max_tokens = n, .ahead = ahead}, {}).tokens;
  }
  /// What the cache holds once guesses are gone.
  std::vector<Token> fed() {
    const TokenSpan tokens = dynamic_cast<testing::FakeCache&>(*source_->cache()).tokens();
    return {tokens.begin(), tokens.end()};
  }

  Script script;

 private:
  FakeModel model_;
  sampling::Sampler sampler_;
  std::unique_ptr<DraftProvider> provider_;
  cache::CacheOptions cache_options_;
  std::unique_ptr<DraftSource> source_;

 public:
  Generation generation;
};

bool is_prefix(const std::vector<Token>& a, const std::vector<Token>& of) {
  return a.size() <= of.size() && std::equal(a.begin(), a.end(), of.begin());
}

TEST(DraftModel, APerfectOneIsAlwaysRight) {
  for (const float temperature : {0.0F, 1.0F}) {
    for (const std::optional<std::size_t> window : {std::optional<std::size_t>(), {3}, {8}}) {
      FakeModelOptions model;
      model.rollback_window = window;
      GenerationOptions options = some_generation(5, temperature);
      options.sampling.top_p = 0.9F;
      options.sampling.frequency_penalty = 0.5F;
      Pair pair(options, model, model);
      EXPECT_EQ(pair.generation.run([](std::size_t) { return std::pair(0, std::size_t{3}); }),
                generate_plainly(pair.model(), options));
      const std::size_t n_output = pair.generation.tokens().size() - options.prompt.size();
      EXPECT_EQ(pair.generation.n_rounds(), (n_output - 1 + 3) / 4);
      // The prompt and the first token, then what was accepted last and its successor.
      ASSERT_GT(pair.script.n_fed.size(), 6U);
      EXPECT_EQ(pair.script.n_fed[0], 9U);
      for (std::size_t i = 1; i < pair.script.n_fed.size(); ++i) {
        EXPECT_EQ(pair.script.n_fed[i], i % 3 == 0 ? 2U : 1U) << i;
      }
      EXPECT_TRUE(is_prefix(pair.fed(), pair.generation.tokens()));
    }
  }
}

TEST(DraftModel, AWrongOneChangesNothing) {
  FakeModelOptions other;
  other.is_repetitive = true;
  for (const std::optional<std::size_t> window : {std::optional<std::size_t>(), {1}, {4}}) {
    other.rollback_window = window;
    for (std::size_t depth = 0; depth <= 8; ++depth) {
      const GenerationOptions options = some_generation(depth, 1);
      Pair pair(options, {}, other, 3);
      EXPECT_EQ(pair.generation.run([=](std::size_t) { return std::pair(0, depth); }),
                generate_plainly(pair.model(), options));
      EXPECT_TRUE(is_prefix(pair.fed(), pair.generation.tokens()));
    }
  }
}

TEST(DraftModel, FeedsNothingUntilItIsAsked) {
  Pair pair(some_generation(7, 1));
  pair.generation.prefill();
  for (int i = 0; i < 5; ++i) pair.generation.round(nullptr, 0);
  EXPECT_THAT(pair.script.n_fed, IsEmpty());
  pair.generation.round(&pair.source(), 1);
  // All of the backlog at once; the last draft is not fed.
  EXPECT_THAT(pair.script.n_fed, ::testing::ElementsAre(8 + 1 + 5));
}

TEST(DraftModel, FeedsABacklogInChunks) {
  Pair pair(some_generation(7, 1), {}, {}, 4);
  pair.generation.prefill();
  EXPECT_EQ(pair.propose(2).size(), 2U);
  EXPECT_THAT(pair.script.n_fed, ::testing::ElementsAre(4, 4, 1, 1));
}

TEST(DraftModel, GoesOnBehindTheDraftsOfOthers) {
  const GenerationOptions options = some_generation(7, 1);
  Pair pair(options);
  pair.generation.prefill();
  const std::vector<Token> text = generate_plainly(pair.model(), options);
  const auto from = text.begin() + static_cast<std::ptrdiff_t>(pair.generation.tokens().size());
  const std::vector<Token> ahead(from, from + 3);
  EXPECT_EQ(pair.propose(3, ahead), std::vector<Token>(from + 3, from + 6));
  EXPECT_THAT(pair.script.n_fed, ::testing::ElementsAre(9 + 3, 1, 1));
  EXPECT_EQ(pair.fed(), pair.generation.tokens());
  EXPECT_EQ(pair.propose(6), std::vector<Token>(from, from + 6));
}

TEST(DraftModel, ProposingTwiceGivesTheSame) {
  FakeModelOptions bounded;
  bounded.rollback_window = 3;
  for (const FakeModelOptions& draft : {FakeModelOptions{}, bounded}) {
    Pair pair(some_generation(5, 1), {}, draft);
    pair.generation.prefill();
    const std::vector<Token> first = pair.propose(4);
    EXPECT_EQ(first.size(), 4U);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.propose(4), first);
  }
}

TEST(DraftModel, DraftsNoMoreThanItCanTakeBack) {
  FakeModelOptions bounded;
  bounded.rollback_window = 2;
  Pair pair(some_generation(5, 1), {}, bounded);
  pair.generation.prefill();
  EXPECT_EQ(pair.propose(8).size(), 3U);  // the last one is not fed
  const std::vector<Token> ahead = {1, 2};
  EXPECT_EQ(pair.propose(8, ahead).size(), 1U);
  EXPECT_THAT(pair.script.n_fed, ::testing::ElementsAre(9, 1, 1, 2)) << "both guesses taken back";
  EXPECT_THAT(pair.propose(8, std::vector<Token>{1, 2, 3}), IsEmpty());
  EXPECT_THAT(pair.propose(8, std::vector<Token>{1, 2, 3, 4}), IsEmpty());
}

TEST(DraftModel, SaysNothingBeforeTheSessionBegins) {
  Pair pair(some_generation(5, 1));
  EXPECT_THAT(pair.propose(3), IsEmpty());
}

TEST(DraftModel, IsAsBeforeAfterAFailureOrACancellation) {
  for (std::size_t at = 0; at < 4; ++at) {
    const GenerationOptions options = some_generation(9, 1);
    Pair pair(options);
    pair.generation.prefill();
    pair.generation.round(&pair.source(), 2);
    pair.script.fails_in = at;
    EXPECT_THROW(pair.propose(4), IoError);
    EXPECT_TRUE(is_prefix(pair.fed(), pair.generation.tokens()));
    std::stop_source stop;
    stop.request_stop();
    EXPECT_THROW(pair.source().propose({.max_tokens = 4}, stop.get_token()), Cancelled);
    while (!pair.generation.is_done()) pair.generation.round(&pair.source(), 3);
    EXPECT_TRUE(is_prefix(generate_plainly(pair.model(), options), pair.generation.tokens()));
    EXPECT_GT(pair.generation.n_accepted(), 10U);
  }
}

TEST(DraftModel, EndsDraftingAtValuesThatAreNotFinite) {
  Pair pair(some_generation(9, 1));
  pair.generation.prefill();
  pair.script.spoils_in = 2;
  EXPECT_EQ(pair.propose(5).size(), 2U);
  EXPECT_THAT(pair.propose(5), IsEmpty());
  const std::size_t n_forwards = pair.script.n_fed.size();
  pair.script.spoils_in.reset();
  EXPECT_THAT(pair.propose(5), IsEmpty());  // it has given up
  EXPECT_EQ(pair.script.n_fed.size(), n_forwards);
}

TEST(DraftModel, StopsWhereItsContextEnds) {
  FakeModelOptions small;
  small.max_context = 12;
  const GenerationOptions options = some_generation(9, 1);
  Pair pair(options, {}, small);
  pair.generation.prefill();  // nine tokens
  EXPECT_EQ(pair.propose(9).size(), 4U);
  while (pair.generation.tokens().size() < 12) pair.generation.round(nullptr, 0);
  EXPECT_EQ(pair.propose(9).size(), 1U);
  pair.generation.round(nullptr, 0);
  EXPECT_THAT(pair.propose(9), IsEmpty());
  while (!pair.generation.is_done()) pair.generation.round(&pair.source(), 2);
  EXPECT_TRUE(is_prefix(generate_plainly(pair.model(), options), pair.generation.tokens()));
}

TEST(DraftModel, DraftsOnlyIdsThatBothKnow) {
  FakeModelOptions larger;
  larger.n_vocab = 40;
  FakeModelOptions smaller;
  smaller.n_vocab = 12;
  const GenerationOptions options = some_generation(9, 1);
  for (const FakeModelOptions& draft : {larger, smaller}) {
    Pair pair(options, {}, draft);
    const std::size_t n_both = std::min<std::size_t>(draft.n_vocab, 16);
    pair.generation.prefill();
    for (const Token token : pair.propose(8)) EXPECT_LT(static_cast<std::size_t>(token), n_both);
    while (!pair.generation.is_done()) pair.generation.round(&pair.source(), 3);
    EXPECT_TRUE(is_prefix(generate_plainly(pair.model(), options), pair.generation.tokens()));
  }
}

TEST(DraftModel, HandsOverTheLawsOfItsDraws) {
  Pair pair(some_generation(9, 1));
  pair.generation.prefill();
  const DraftRequest request{.max_tokens = 4, .wants_laws = true, .attempt = 1};
  const Draft draft = pair.source().propose(request, {});
  ASSERT_EQ(draft.tokens.size(), 4U);
  ASSERT_EQ(draft.laws.size(), 4U * 16);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto row = std::span(draft.laws).subspan(16 * i, 16);
    float sum = 0;
    for (const float p : row) sum += p;
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_GT(row[static_cast<std::size_t>(draft.tokens[i])], 0);
  }
  EXPECT_THAT(pair.source().propose({.max_tokens = 4}, {}).laws, IsEmpty());
}

// A perfect one knows the law, so the draws say whose noise they were made with.
TEST(DraftModel, DrawsWithTheNoiseOfTheAttempt) {
  const GenerationOptions options = some_generation(9, 1);
  Pair pair(options);
  pair.generation.prefill();
  sampling::Sampler sampler(options.sampling, pair.model().config().n_vocab);
  for (const std::uint64_t attempt : {0U, 1U, 7U}) {
    std::vector<Token> expected = pair.generation.tokens();
    for (std::size_t i = 0; i < 6; ++i) {
      expected.push_back(sampler.pick(pair.model().logits_after(expected),
                                      {expected, options.prompt.size()},
                                      NoisePurpose::kDraft,
                                      attempt));
    }
    const DraftRequest request{.max_tokens = 6, .wants_laws = true, .attempt = attempt};
    EXPECT_EQ(pair.source().propose(request, {}).tokens,
              std::vector<Token>(expected.end() - 6, expected.end()));
  }
}

TEST(DraftModel, HandsOverOneLawPerDraftWhenValuesAreNotFinite) {
  Pair pair(some_generation(9, 1));
  pair.generation.prefill();
  pair.script.nan_in = 2;
  const DraftRequest request{.max_tokens = 4, .wants_laws = true, .attempt = 1};
  const Draft draft = pair.source().propose(request, {});
  EXPECT_EQ(draft.tokens.size(), 2U);
  EXPECT_EQ(draft.laws.size(), 2U * 16);
  EXPECT_EQ(pair.source().propose(request, {}).tokens.size(), 4U);
}

// A later turn of a conversation: the session keeps a prefix and goes on differently.
TEST(DraftModel, FollowsASessionThatKeepsAPrefix) {
  for (const std::optional<std::size_t> window : {std::optional<std::size_t>(), {4}}) {
    FakeModelOptions draft;
    draft.rollback_window = window;
    GenerationOptions options = some_generation(9, 1);
    Pair pair(options, {}, draft);
    pair.generation.prefill();
    for (int i = 0; i < 4; ++i) pair.generation.round(&pair.source(), 3);
    RoundState& state = pair.generation.state();
    state.tokens->resize(12);
    state.n_shown = std::min<std::size_t>(state.n_shown, 12);
    for (const Token token : {8, 8, 3}) state.tokens->push_back(token);
    options.prompt = *state.tokens;
    state.n_prompt = state.tokens->size();
    pair.generation.cache().truncate(11);
    pair.generation.prefill();
    EXPECT_EQ(pair.fed().size(), window ? 0U : 12U);
    const std::vector<Token> text = generate_plainly(pair.model(), options);
    const std::size_t n = pair.generation.tokens().size();
    EXPECT_TRUE(std::ranges::equal(pair.propose(3), TokenSpan(text).subspan(n, 3)));
  }
}

/// What it drafts, and how many tokens it is fed for that.
std::pair<std::vector<Token>, std::size_t> drafts_of(Pair& pair, DraftSource& source) {
  const std::size_t n_before = pair.n_fed();
  std::vector<Token> tokens = source.propose({.max_tokens = 4}, {}).tokens;
  return {std::move(tokens), pair.n_fed() - n_before};
}

void show(Pair& pair, DraftSource& source) {
  const TokenSpan tokens = pair.generation.tokens();
  source.observe({.sequence = tokens,
                  .n_prompt = pair.generation.state().n_prompt,
                  .first_position = tokens.size() - 1,
                  .n_rows = 0,
                  .taps = {}});
}

TEST(DraftModel, ASavedOneIsTakenUpWithoutFeedingTheTextAgain) {
  for (const std::optional<std::size_t> window : {std::optional<std::size_t>(), {4}}) {
    FakeModelOptions draft;
    draft.rollback_window = window;
    draft.is_repetitive = true;  // now right, now wrong
    Pair pair(some_generation(9, 1), {}, draft);
    pair.generation.prefill();
    for (std::size_t n_rounds = 0; n_rounds < 8; ++n_rounds) {
      if (n_rounds > 0) pair.generation.round(n_rounds % 3 == 0 ? nullptr : &pair.source(), 2);
      SCOPED_TRACE(n_rounds);
      const std::size_t n_text = pair.generation.tokens().size();
      const auto saved = pair.source().save(DraftSource::kAllTokens);
      ASSERT_NE(saved, nullptr);
      const auto expected = drafts_of(pair, pair.source());
      const auto with_guesses = pair.source().save(DraftSource::kAllTokens);
      for (const SourceState* state : {saved.get(), with_guesses.get()}) {
        const auto taken_up = pair.another();
        ASSERT_TRUE(taken_up->restore(*state, DraftSource::kAllTokens));
        show(pair, *taken_up);
        const auto [tokens, n_fed] = drafts_of(pair, *taken_up);
        EXPECT_EQ(tokens, expected.first);
        // The second state has the backlog too; the last token is always fed.
        EXPECT_LE(n_fed, expected.second);
        EXPECT_TRUE(state != saved.get() || n_fed == expected.second) << n_fed;
        EXPECT_TRUE(n_rounds == 0 || n_fed < n_text) << n_fed;
      }
      const auto fresh = pair.another();
      show(pair, *fresh);
      EXPECT_EQ(drafts_of(pair, *fresh), std::pair(expected.first, n_text + 3));
    }
  }
}

TEST(DraftModel, AFrontIsAsGoodForABranchAsTheWhole) {
  for (const std::optional<std::size_t> window : {std::optional<std::size_t>(), {4}}) {
    FakeModelOptions draft;
    draft.rollback_window = window;
    Pair pair(some_generation(9, 1), {}, draft);
    pair.generation.prefill();
    pair.generation.round(&pair.source(), 3);
    drafts_of(pair, pair.source());
    const TokenSpan tokens = pair.generation.tokens();
    const auto whole = pair.source().save(DraftSource::kAllTokens);
    for (std::size_t n_common = 1; n_common <= tokens.size(); ++n_common) {
      SCOPED_TRACE(n_common);
      std::vector<Token> branch(tokens.begin(),
                                tokens.begin() + static_cast<std::ptrdiff_t>(n_common));
      branch.push_back(0);
      const auto taken_up = [&](const SourceState& state, std::size_t n_tokens) {
        auto out = pair.another();
        EXPECT_TRUE(out->restore(state, n_tokens));
        EXPECT_LE(out->cache()->length(), n_tokens);
        out->observe({.sequence = branch,
                      .n_prompt = branch.size(),
                      .first_position = n_common,
                      .n_rows = 0,
                      .taps = {}});
        return drafts_of(pair, *out);
      };
      const auto expected = taken_up(*whole, DraftSource::kAllTokens);
      EXPECT_EQ(taken_up(*whole, n_common), expected);
      EXPECT_EQ(taken_up(*pair.source().save(n_common), DraftSource::kAllTokens), expected);
    }
  }
}

TEST(DraftModel, AStateOfAnotherDraftModelIsNotUsed) {
  Pair pair(some_generation(9, 1));
  pair.generation.prefill();
  const std::vector<Token> expected = pair.propose(4);
  const auto state = pair.source().save(DraftSource::kAllTokens);
  FakeModelOptions other_weights;
  other_weights.weights_hash = "other";
  FakeModelOptions shorter;
  shorter.max_context = 12;
  for (const FakeModelOptions& draft : {other_weights, shorter}) {
    Pair other(some_generation(9, 1), {}, draft);
    const auto source = other.another();
    EXPECT_FALSE(source->restore(*state, DraftSource::kAllTokens));
    show(pair, *source);
    const auto [tokens, n_fed] = drafts_of(other, *source);
    EXPECT_EQ(tokens, expected);
    EXPECT_EQ(n_fed, 9U + 3);
  }
}

TEST(DraftModel, IsNamedByTheRegistryWithWhatItNeeds) {
  try {
    make_draft_provider("draft", FakeModel({}));
    FAIL() << "made without a second model";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("give one with --draft-model DIR"));
  }
  for (const std::string_view name : available_sources(FakeModel({}))) EXPECT_NE(name, "draft");
}

}  // namespace
}  // namespace ft::speculation
