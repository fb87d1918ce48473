// What a block drafter needs of rounds, prefill and models, by a drafter without weights.
#include "testing/block_drafter.h"

#include "base/error.h"
#include "models/glm_test_model.h"
#include "speculation/prefill.h"
#include "testing/fake_clock.h"
#include "testing/generation.h"
#include "testing/tiny_glm.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::BlockDrafter;
using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;

FakeModelOptions repetitive() {
  FakeModelOptions options;
  options.is_repetitive = true;
  return options;
}

GenerationOptions some_generation(float temperature) {
  GenerationOptions options;
  options.sampling.temperature = temperature;
  options.sampling.seed = 5;
  options.prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  options.prefill_chunk = 3;
  return options;
}

class BlockDrafterTest : public ::testing::Test {
 protected:
  explicit BlockDrafterTest(FakeModelOptions options = repetitive())
      : model_(options),
        generation_(model_, some_generation(0)),
        block_({.check = testing::fake_feature_check({1, 3})},
               {.model = &model_, .sampler = generation_.state().sampler, .cache_options = {}}) {
    generation_.add_source(block_);
  }

  FakeModel model_;
  Generation generation_;
  BlockDrafter block_;
};

TEST_F(BlockDrafterTest, DraftsAtMostItsBlockAndIsOftenRight) {
  generation_.prefill();
  while (!generation_.is_done()) EXPECT_LE(generation_.round(&block_, 3).drafts.size(), 3u);
  EXPECT_GT(generation_.n_accepted(), 3u);
  EXPECT_LE(block_.propose({.max_tokens = 50}, {}).tokens.size(), 4u);
  EXPECT_GT(block_.n_checked(), 100u);
  EXPECT_EQ(block_.ring().size(), 12u);
  EXPECT_EQ(block_.ring().end() + 1, generation_.tokens().size());
}

TEST_F(BlockDrafterTest, ACancelledRoundLeavesItAsItWas) {
  generation_.prefill();
  for (int i = 0; i < 4; ++i) generation_.round(&block_, 4);
  const std::vector<Token> drafts = block_.propose({.max_tokens = 4}, {}).tokens;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(decode_round(generation_.state(), {{{&block_, 4}}}, stop.get_token()), Cancelled);
  generation_.workspace().fails_in = 0;
  EXPECT_THROW(generation_.round(&block_, 4), IoError);
  EXPECT_EQ(block_.propose({.max_tokens = 4}, {}).tokens, drafts);
  while (!generation_.is_done()) generation_.round(&block_, 4);
  EXPECT_GT(block_.n_checked(), 50u);
}

TEST_F(BlockDrafterTest, GoesOnBehindAGap) {
  generation_.prefill();
  for (int i = 0; i < 3; ++i) generation_.round(&block_, 4);
  // A source that came late: it is told the tokens, and sees rows from the next round on.
  BlockDrafter late(
      {.check = testing::fake_feature_check({1, 3})},
      {.model = &model_, .sampler = generation_.state().sampler, .cache_options = {}});
  const std::vector<ConstMatrix> no_rows(2);
  late.observe({.sequence = generation_.tokens(),
                .n_prompt = 11,
                .first_position = generation_.tokens().size() - 1,
                .n_rows = 0,
                .taps = no_rows});
  EXPECT_TRUE(late.propose({.max_tokens = 4}, {}).tokens.empty());
  generation_.add_source(late);
  const std::size_t n_fed = generation_.cache().length();
  while (!generation_.is_done()) generation_.round(&late, 2);
  EXPECT_GE(late.ring().begin(), n_fed);
  EXPECT_GT(late.n_checked(), 10u);
}

TEST_F(BlockDrafterTest, ACheckSeesAWrongRow) {
  const testing::FeatureCheck check = testing::fake_feature_check({1, 3});
  const std::vector<Token> tokens = {1, 2, 3};
  std::vector<float> row = FakeModel::hidden_after(tokens, 1);
  const std::vector<float> last = FakeModel::hidden_after(tokens, 3);
  row.insert(row.end(), last.begin(), last.end());
  check(tokens, row);
  EXPECT_THROW(check(TokenSpan(tokens).first(2), row), LogicError);
  EXPECT_THROW(testing::fake_feature_check({2, 3})(tokens, row), LogicError);
  EXPECT_THROW(testing::fake_feature_check({3, 1})(tokens, row), LogicError);
}

// A real family: the drafter reads the very bits that one-row forwards leave, through prefill in
// chunks, accepted and rejected drafts.
TEST(BlockDrafterOnGlm, ReadsTheBitsOfOneRowForwards) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("ft_block_" + std::to_string(::getpid()));
  testing::make_tiny_glm({.seed = 8}).write(folder);
  const models::LoadedModel loaded(folder, kernels::Isa::kRef, 1);
  const models::Model& model = *loaded.model;
  const std::vector<LayerIndex> layers = {1, 3, 5};

  std::vector<models::RowCopy> truth(layers.size());  // by tap, of the sequence as it is so far
  std::vector<Token> truth_tokens;
  const auto truth_cache = model.new_cache({.max_tokens = 96});
  const auto truth_space = model.new_workspace();
  const auto check = [&](TokenSpan tokens, std::span<const float> row) {
    while (truth_tokens.size() < tokens.size()) {
      const TokenSpan next = tokens.subspan(truth_tokens.size(), 1);
      const models::SequenceSlice slice{truth_cache.get(), next, 0};
      const auto& out = model.forward({&slice, 1}, layers, {}, *truth_space);
      for (std::size_t i = 0; i < layers.size(); ++i) truth[i].add(out.taps[i]);
      truth_tokens.push_back(next[0]);
    }
    ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), truth_tokens.begin()));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto expected = truth[i].view(tokens.size() - 1, 1).row(0);
      EXPECT_TRUE(std::equal(expected.begin(),
                             expected.end(),
                             row.begin() + static_cast<std::ptrdiff_t>(i * testing::kTinyWidth)));
    }
  };

  sampling::SamplingParams params;
  params.temperature = 0;
  sampling::Sampler sampler(params, model.config().n_vocab);
  BlockDrafter block({.taps = layers, .window = 20, .check = check},
                     {.model = &model, .sampler = &sampler, .cache_options = {}});
  std::vector<DraftSource*> sources = {&block};
  std::vector<Token> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  const auto cache = model.new_cache({.max_tokens = 96});
  const auto workspace = model.new_workspace();
  testing::FakeClock clock(1);
  RoundState state{.model = &model,
                   .workspace = workspace.get(),
                   .cache = cache.get(),
                   .tokens = &tokens,
                   .n_prompt = tokens.size(),
                   .sampler = &sampler,
                   .sources = sources,
                   .stop_tokens = {},
                   .clock = &clock};
  prefill_chunk(state, 4, {});
  prefill_chunk(state, 5, {});
  first_token(state, prefill_chunk(state, 2, {}).logits);
  while (tokens.size() < 70) decode_round(state, {{{&block, 4}}}, {});
  EXPECT_GT(block.n_checked(), 300u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ft::speculation
