// Whatever drafts, rounds commit what decoding without them does.
#include "speculation/decode_round.h"
#include "speculation/decode_round_test_fixture.h"
#include "speculation/draft_model.h"
#include "speculation/prefill.h"
#include "testing/adversary_source.h"
#include "testing/block_drafter.h"
#include "testing/generation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::AdversarySource;
using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;
using testing::Malice;

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

}  // namespace
}  // namespace ft::speculation
