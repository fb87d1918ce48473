#include "base/error.h"
#include "base/work_meter.h"
#include "cache/latent_cache.h"
#include "models/glm_model_test_fixture.h"
#include "models/model.h"
#include "tensor/formats/float_formats.h"
#include "testing/fake_clock.h"
#include "testing/tiny_glm.h"

#include <cstring>
#include <limits>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::models {
namespace {

using ::testing::HasSubstr;
using testing::TinyFormat;
using testing::TinyGlm;

// --- every row is its own, whatever travels with it

class GlmRowTest
    : public GlmModelTest,
      public ::testing::WithParamInterface<std::tuple<kernels::Isa, TinyFormat, DType>> {};

TEST_P(GlmRowTest, ChunksThreadsAndRaggedBatchesGiveTheSameBits) {
  const auto [isa, format, kv_type] = GetParam();
  const cache::CacheOptions room{.max_tokens = 40, .dtype = kv_type};
  const TinyGlm glm = testing::make_tiny_glm({.seed = 3, .format = format});
  const LoadedModel& one = load(glm, isa, 1);
  const LoadedModel& two = load(glm, isa, 2);
  const std::vector<Token> tokens = some_tokens(25);  // index_topk is 6
  const auto fed = [&](const LoadedModel& loaded, std::size_t chunk) {
    const auto cache = loaded.model->new_cache(room);
    return feed(*loaded.model, *cache, tokens, chunk);
  };
  const Fed whole = fed(one, 25);
  for (const std::size_t chunk : {1, 2, 7, 25}) {
    EXPECT_EQ(fed(one, chunk).logits, whole.logits) << "chunk " << chunk;
    const Fed with_two = fed(two, chunk);
    EXPECT_EQ(with_two.logits, whole.logits) << "2 threads, chunk " << chunk;
    EXPECT_EQ(with_two.hidden, whole.hidden) << "2 threads, chunk " << chunk;
  }
  // Two sequences in one call, with logits of their last rows only.
  const auto a = one.model->new_cache(room);
  const auto b = one.model->new_cache(room);
  feed(*one.model, *a, TokenSpan(tokens).first(9), 9);
  const std::vector<SequenceSlice> slices{{a.get(), TokenSpan(tokens).subspan(9, 5), 2},
                                          {b.get(), TokenSpan(tokens).first(8), 3}};
  const auto workspace = one.model->new_workspace();
  const ForwardOutput& output = one.model->forward(slices, {}, {}, *workspace);
  RowCopy expected(whole.logits.view(12, 2));
  expected.add(whole.logits.view(5, 3));
  EXPECT_EQ(RowCopy(output.logits), expected);
  // A prefill chunk that nobody looks at, then logits of the last row.
  const std::vector<SequenceSlice> unseen{{a.get(), TokenSpan(tokens).subspan(14, 6), 0}};
  EXPECT_EQ(one.model->forward(unseen, {}, {}, *workspace).logits.n_rows, 0U);
  const std::vector<SequenceSlice> last{{a.get(), TokenSpan(tokens).subspan(20, 5), 1}};
  EXPECT_EQ(RowCopy(one.model->forward(last, {}, {}, *workspace).logits),
            RowCopy(whole.logits.view(24, 1)));
}

TEST_P(GlmRowTest, DraftHeadBatchesGiveTheSameBits) {
  const auto [isa, format, kv_type] = GetParam();
  const cache::CacheOptions room{.max_tokens = 40, .dtype = kv_type};
  const LoadedModel& loaded = load(testing::make_tiny_glm({.seed = 4, .format = format}), isa, 2);
  const std::vector<Token> tokens = some_tokens(20);
  const auto cache = loaded.model->new_cache(room);
  const Fed fed = feed(*loaded.model, *cache, tokens, 20);
  const DraftHead& head = *loaded.model->draft_head();
  const auto drafts = [&](std::size_t n_appended, std::size_t chunk) {
    const auto draft_cache = head.new_cache(room);
    const auto workspace = head.new_workspace();
    for (std::size_t at = 0; at < n_appended; at += chunk) {
      const std::size_t n = std::min(chunk, n_appended - at);
      head.append(
          *draft_cache, fed.hidden.view(at, n), TokenSpan(tokens).subspan(at + 1, n), *workspace);
    }
    const std::size_t n = 19 - n_appended;
    const Drafted drafted = draft(head,
                                  *draft_cache,
                                  fed.hidden.view(n_appended, n),
                                  TokenSpan(tokens).subspan(n_appended + 1, n),
                                  4);
    EXPECT_EQ(draft_cache->length(), 19U);
    return drafted.logits;
  };
  const RowCopy whole = drafts(0, 1);
  EXPECT_EQ(whole.size(), 4U);
  EXPECT_EQ(drafts(18, 18), whole);
  EXPECT_EQ(drafts(18, 1), whole);
  EXPECT_EQ(drafts(15, 4), whole);
}

// Chains of several sequences, each with another backlog, step by step together.
TEST_P(GlmRowTest, DraftHeadStepsOfManySequencesAreThoseOfEachAlone) {
  const auto [isa, format, kv_type] = GetParam();
  const cache::CacheOptions room{.max_tokens = 40, .dtype = kv_type};
  const LoadedModel& loaded = load(testing::make_tiny_glm({.seed = 4, .format = format}), isa, 2);
  const std::vector<Token> tokens = some_tokens(20);
  const auto cache = loaded.model->new_cache(room);
  const Fed fed = feed(*loaded.model, *cache, tokens, 20);
  const DraftHead& head = *loaded.model->draft_head();
  const auto workspace = head.new_workspace();
  struct Chain {
    std::unique_ptr<cache::KvCache> cache;
    IndexSets sets;
    std::vector<float> state;
    Token draft = 0;
    RowCopy logits;
  };
  const std::vector<std::pair<std::size_t, std::size_t>> rows{{0, 7}, {12, 1}, {3, 16}, {0, 2}};
  std::vector<Chain> chains(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [n_before, n] = rows[i];
    chains[i].cache = head.new_cache(room);
    head.append(*chains[i].cache,
                fed.hidden.view(0, n_before),
                TokenSpan(tokens).subspan(1, n_before),
                *workspace);
  }
  for (int k = 0; k < 3; ++k) {
    std::vector<DraftSlice> slices;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto [n_before, n] = rows[i];
      Chain& chain = chains[i];
      const std::size_t d = chain.state.size();
      slices.push_back(
          {chain.cache.get(),
           k == 0 ? fed.hidden.view(n_before, n) : ConstMatrix{chain.state.data(), 1, d, d},
           k == 0 ? TokenSpan(tokens).subspan(n_before + 1, n) : TokenSpan(&chain.draft, 1),
           &chain.sets});
    }
    const std::span<const DraftStep> steps = head.step(slices, *workspace);
    ASSERT_EQ(steps.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> logits = steps[i].logits;
      chains[i].logits.add({logits.data(), 1, logits.size(), logits.size()});
      chains[i].draft = argmax(logits);
      chains[i].state.assign(steps[i].hidden.begin(), steps[i].hidden.end());
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [n_before, n] = rows[i];
    const auto alone = head.new_cache(room);
    head.append(
        *alone, fed.hidden.view(0, n_before), TokenSpan(tokens).subspan(1, n_before), *workspace);
    EXPECT_EQ(draft(head,
                    *alone,
                    fed.hidden.view(n_before, n),
                    TokenSpan(tokens).subspan(n_before + 1, n),
                    3)
                  .logits,
              chains[i].logits)
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    GlmRowTest,
    ::testing::Combine(::testing::ValuesIn(kernels::usable_isas()),
                       ::testing::Values(TinyFormat::kF32, TinyFormat::kBf16, TinyFormat::kFp8),
                       ::testing::Values(DType::kF32, DType::kBF16)),
    [](const auto& param) {
      const char* format = std::get<1>(param.param) == TinyFormat::kF32    ? "f32"
                           : std::get<1>(param.param) == TinyFormat::kBf16 ? "bf16"
                                                                           : "fp8";
      const char* kv_type = std::get<2>(param.param) == DType::kF32 ? "f32" : "bf16";
      return std::string(kernels::isa_name(std::get<0>(param.param))) + "_" + format + "_kv_" +
             kv_type;
    });

// --- caches

/// The first layer's rows are made of the same input whatever the cache's type is.
TEST_F(GlmModelTest, Bf16CacheHoldsTheRoundedRowsOfAnF32Cache) {
  const LoadedModel& loaded = load(testing::make_tiny_glm({.seed = 5}));
  const std::vector<Token> tokens = some_tokens(12);
  const auto rows = [&](DType dtype) {
    auto cache = loaded.model->new_cache({.max_tokens = 12, .dtype = dtype});
    feed(*loaded.model, *cache, tokens, 12);
    return cache;
  };
  const auto f32 = rows(DType::kF32);
  const auto bf16 = rows(DType::kBF16);
  EXPECT_EQ(f32->used_bytes(), 2 * bf16->used_bytes());
  auto& exact = dynamic_cast<cache::LatentCache&>(*f32);
  auto& stored = dynamic_cast<cache::LatentCache&>(*bf16);
  const auto expect_rounded = [](const std::byte* from, const std::byte* to, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const float value = load_element(DType::kF32, from + i * 4);
      EXPECT_EQ(load_element(DType::kBF16, to + i * 2), bf16_to_float(float_to_bf16(value))) << i;
    }
  };
  expect_rounded(exact.keys(0), stored.keys(0), 12 * exact.layout().key_dim);
  ASSERT_TRUE(exact.layout().has_index_keys[0]);
  expect_rounded(exact.index_keys(0), stored.index_keys(0), 12 * exact.layout().index_dim);
}

TEST_F(GlmModelTest, TruncatedCacheEqualsOneThatNeverWentOn) {
  const LoadedModel& loaded = load(testing::make_tiny_glm({.seed = 5}));
  const std::vector<Token> tokens = some_tokens(24);
  const auto plain = loaded.model->new_cache({.max_tokens = 40});
  const Fed expected = feed(*loaded.model, *plain, tokens, 24);
  const auto rewound = loaded.model->new_cache({.max_tokens = 40});
  feed(*loaded.model, *rewound, TokenSpan(tokens).first(10), 10);
  const auto copy = rewound->clone();
  const std::vector<Token> wrong(8, 49);
  feed(*loaded.model, *rewound, wrong, 3);
  rewound->truncate(10);
  const RowCopy tail(expected.logits.view(10, 14));
  EXPECT_EQ(feed(*loaded.model, *rewound, TokenSpan(tokens).subspan(10), 5).logits, tail);
  EXPECT_EQ(feed(*loaded.model, *copy, TokenSpan(tokens).subspan(10), 5).logits, tail);
}

TEST_F(GlmModelTest, FailedForwardLeavesEveryCacheAsItWas) {
  const LoadedModel& loaded = load(testing::make_tiny_glm({.seed = 6}));
  const Model& model = *loaded.model;
  const std::vector<Token> tokens = some_tokens(12);
  const auto cache = model.new_cache({.max_tokens = 12});
  const auto other = model.new_cache({.max_tokens = 2});
  const auto workspace = model.new_workspace();
  feed(model, *cache, TokenSpan(tokens).first(8), 8);

  std::stop_source stopped;
  stopped.request_stop();
  const SequenceSlice rest{cache.get(), TokenSpan(tokens).subspan(8), 1};
  EXPECT_THROW(model.forward({&rest, 1}, {}, stopped.get_token(), *workspace), Cancelled);

  const std::vector<SequenceSlice> too_long{rest, {other.get(), TokenSpan(tokens).first(3), 1}};
  try {
    model.forward(too_long, {}, {}, *workspace);
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("0 of 2 positions are used, 3 more do not fit"));
  }
  const std::vector<Token> outside{1, static_cast<Token>(testing::kTinyVocab)};
  const std::vector<Token> negative{-1};
  for (const TokenSpan bad : {TokenSpan(outside), TokenSpan(negative)}) {
    const SequenceSlice slice{cache.get(), bad, 1};
    EXPECT_THROW(model.forward({&slice, 1}, {}, {}, *workspace), InvalidInput);
  }
  EXPECT_EQ(cache->length(), 8U);
  EXPECT_EQ(other->length(), 0U);

  const auto fresh = model.new_cache({.max_tokens = 12});
  const Fed expected = feed(model, *fresh, tokens, 12);
  EXPECT_EQ(feed(model, *cache, TokenSpan(tokens).subspan(8), 4).logits,
            RowCopy(expected.logits.view(8, 4)));
}

TEST_F(GlmModelTest, ReportsStagesAndWeightBytes) {
  const LoadedModel& loaded = load(testing::make_tiny_glm({.seed = 6}));
  const Model& model = *loaded.model;
  const std::vector<Token> tokens = some_tokens(12);
  const auto cache = model.new_cache({.max_tokens = 14});
  feed(model, *cache, tokens, 12);
  const testing::FakeClock clock(1);
  WorkMeter meter(clock);
  const auto workspace = model.new_workspace();
  workspace->set_meter(&meter);
  const auto work_of_one_row = [&](std::size_t n_logits) {
    const WorkTotals before = meter.totals();
    const SequenceSlice slice{cache.get(), TokenSpan(tokens).first(1), n_logits};
    const LayerIndex tap = 0;
    model.forward({&slice, 1}, {&tap, 1}, {}, *workspace);
    return meter.totals().since(before);
  };
  const WorkTotals with_logits = work_of_one_row(1);
  for (const Stage stage : {Stage::kAttention,
                            Stage::kIndexer,
                            Stage::kExperts,
                            Stage::kDense,
                            Stage::kHead,
                            Stage::kOther}) {
    EXPECT_GT(with_logits.us(stage), 0) << static_cast<int>(stage);
  }
  EXPECT_EQ(with_logits.us(Stage::kDraft), 0);
  const ModelConfig& config = model.config();
  EXPECT_LT(with_logits.weight_bytes, config.dense_bytes + config.expert_bytes);
  // Without logits nobody asks for the last layer's output either: it leaves only its keys.
  EXPECT_GE(with_logits.weight_bytes - work_of_one_row(0).weight_bytes,
            config.n_vocab * config.d_model * sizeof(float));
}

TEST_F(GlmModelTest, RefusesAContextBeyondTheTrainedOne) {
  const LoadedModel& loaded = load(testing::make_tiny_glm({}));
  EXPECT_THROW(loaded.model->new_cache({.max_tokens = testing::kTinyContext + 1}), InvalidInput);
  EXPECT_EQ(loaded.model->new_cache({.max_tokens = testing::kTinyContext})->max_tokens(),
            testing::kTinyContext);
}

TEST_F(GlmModelTest, NamesTheLayerThatStopsBeingFinite) {
  TinyGlm glm = testing::make_tiny_glm({.seed = 7});
  std::string& bytes = glm.tensors["model.layers.2.self_attn.o_proj.weight"].bytes;
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data(), &infinity, sizeof infinity);
  const LoadedModel& loaded = load(glm);
  const auto cache = loaded.model->new_cache({.max_tokens = 8});
  try {
    feed(*loaded.model, *cache, some_tokens(3), 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("layer 2 computed values that are not finite"));
  }
  EXPECT_EQ(cache->length(), 0U);
}

TEST_F(GlmModelTest, SaysThatADraftStepIsNotFinite) {
  TinyGlm glm = testing::make_tiny_glm({.seed = 7});
  std::string& bytes = glm.tensors["model.layers.5.self_attn.o_proj.weight"].bytes;
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data(), &infinity, sizeof infinity);
  const LoadedModel& loaded = load(glm);
  const std::vector<Token> tokens = some_tokens(4);
  const auto cache = loaded.model->new_cache({.max_tokens = 8});
  const Fed fed = feed(*loaded.model, *cache, TokenSpan(tokens).first(3), 3);
  const DraftHead& head = *loaded.model->draft_head();
  const auto draft_cache = head.new_cache({.max_tokens = 8});
  const auto workspace = head.new_workspace();
  IndexSets sets;
  const DraftSlice slice{
      draft_cache.get(), fed.hidden.view(0, 3), TokenSpan(tokens).subspan(1), &sets};
  const DraftStep step = head.step({&slice, 1}, *workspace).front();
  EXPECT_FALSE(step.is_finite);
  EXPECT_EQ(draft_cache->length(), 3U) << "its rows stand";
}

// --- what forward returns

TEST_F(GlmModelTest, TapsAreTheResidualAfterALayerAndTheFinalNorm) {
  const LoadedModel& loaded = load(testing::make_tiny_glm({.seed = 8}));
  const Model& model = *loaded.model;
  const std::vector<Token> tokens = some_tokens(5);
  const auto cache = model.new_cache({.max_tokens = 8});
  const auto workspace = model.new_workspace();
  const std::vector<LayerIndex> taps{5, 1, 4};
  const SequenceSlice slice{cache.get(), tokens, 0};
  const ForwardOutput& output = model.forward({&slice, 1}, taps, {}, *workspace);
  EXPECT_EQ(output.logits.n_rows, 0U);
  ASSERT_EQ(output.taps.size(), 3U);
  for (const ConstMatrix& tap : output.taps) {
    EXPECT_EQ(tap.n_rows, 5U);
    EXPECT_EQ(tap.n_cols, testing::kTinyWidth);
  }
  // Tap 5 is tap 4 after the final norm: row by row the same direction up to the norm's weights
  // near 1.
  for (std::size_t r = 0; r < 5; ++r) {
    double square = 0;
    for (const float value : output.taps[2].row(r)) square += double{value} * double{value};
    const double rms = std::sqrt(square / testing::kTinyWidth);
    for (std::size_t c = 0; c < testing::kTinyWidth; ++c) {
      const double normed = output.taps[2].row(r)[c] / rms;
      EXPECT_NEAR(output.taps[0].row(r)[c], normed, 0.6 * std::abs(normed) + 1e-4);
    }
  }
  EXPECT_NE(RowCopy(output.taps[1]), RowCopy(output.taps[2]));
}

TEST_F(GlmModelTest, EmbedsAndProjectsWithTheBitsOfAForward) {
  for (const testing::TinyFormat format : {testing::TinyFormat::kF32, testing::TinyFormat::kBf16}) {
    const LoadedModel& loaded = load(
        testing::make_tiny_glm({.seed = 8, .format = format}), kernels::usable_isas().front(), 2);
    const Model& model = *loaded.model;
    const std::vector<Token> tokens = some_tokens(9);
    const auto cache = model.new_cache({.max_tokens = 16});
    const Fed fed = feed(model, *cache, tokens, 4);
    const auto workspace = model.new_workspace();
    EXPECT_EQ(RowCopy(model.project(fed.hidden.view(0, 9), {}, *workspace)), fed.logits);
    const std::vector<Token> ids = {49, 0, 7, 7};
    const ConstMatrix chosen = model.project(fed.hidden.view(3, 2), ids, *workspace);
    ASSERT_EQ(chosen.n_rows, 2U);
    ASSERT_EQ(chosen.n_cols, 4U);
    for (std::size_t r = 0; r < 2; ++r) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(chosen.row(r)[i],
                  fed.logits.view(3 + r, 1).row(0)[static_cast<std::size_t>(ids[i])]);
      }
    }
    // Rows of the table do not depend on their place, and projecting leaves them alone.
    const RowCopy all(model.embed(tokens, *workspace));
    EXPECT_EQ(all.size(), 9U);
    const ConstMatrix one = model.embed(TokenSpan(tokens).subspan(4, 1), *workspace);
    model.project(fed.hidden.view(0, 3), {}, *workspace);
    EXPECT_EQ(RowCopy(one), RowCopy(all.view(4, 1)));
    EXPECT_NE(RowCopy(all.view(0, 1)), RowCopy(all.view(1, 1)));

    const std::vector<Token> outside = {3, static_cast<Token>(testing::kTinyVocab)};
    EXPECT_THROW(model.embed(outside, *workspace), InvalidInput);
    EXPECT_THROW(model.project(fed.hidden.view(0, 1), outside, *workspace), InvalidInput);
    EXPECT_THROW(model.embed({}, *workspace), LogicError);
    EXPECT_THROW(model.project(all.view(0, 0), {}, *workspace), LogicError);
    EXPECT_THROW(model.project(fed.logits.view(0, 1), {}, *workspace), LogicError);
  }
}

TEST_F(GlmModelTest, SparseAttentionOverEverythingIsDenseAttention) {
  TinyGlm sparse = testing::make_tiny_glm({.seed = 9, .index_topk = 100});
  TinyGlm dense = sparse;
  for (const char* key : {"index_topk", "index_n_heads", "index_head_dim", "indexer_types"}) {
    dense.config.erase(key);
  }
  const std::vector<Token> tokens = some_tokens(20);
  const auto logits = [&](const TinyGlm& glm) {
    const LoadedModel& loaded = load(glm);
    const auto cache = loaded.model->new_cache({.max_tokens = 20});
    return feed(*loaded.model, *cache, tokens, 20).logits;
  };
  const RowCopy expected = logits(dense);
  EXPECT_EQ(logits(sparse), expected);
  EXPECT_NE(logits(testing::make_tiny_glm({.seed = 9, .index_topk = 6})), expected);
}

// --- the draft head

TEST_F(GlmModelTest, DraftChainAttendsTheFirstStepsSet) {
  TinyGlm shared = testing::make_tiny_glm({.seed = 10});
  TinyGlm own = shared;
  own.config["index_share_for_mtp_iteration"] = "false";
  const std::vector<Token> tokens = some_tokens(16);
  const auto drafts = [&](const TinyGlm& glm, const LoadOptions& options = {}) {
    const LoadedModel& loaded = load(glm, kernels::Isa::kRef, 1, options);
    const auto cache = loaded.model->new_cache({.max_tokens = 40});
    const Fed fed = feed(*loaded.model, *cache, tokens, 16);
    const DraftHead& head = *loaded.model->draft_head();
    const auto draft_cache = head.new_cache({.max_tokens = 40});
    return draft(head, *draft_cache, fed.hidden.view(0, 15), TokenSpan(tokens).subspan(1), 3)
        .logits;
  };
  const RowCopy with_sharing = drafts(shared);
  const RowCopy without = drafts(own);
  EXPECT_EQ(RowCopy(with_sharing.view(0, 1)), RowCopy(without.view(0, 1)));
  EXPECT_NE(RowCopy(with_sharing.view(1, 1)), RowCopy(without.view(1, 1)));
  const RowCopy raw = drafts(shared, {.compat = {.draft_chains_raw = true}, .progress = {}});
  EXPECT_EQ(RowCopy(with_sharing.view(0, 1)), RowCopy(raw.view(0, 1)));
  EXPECT_NE(RowCopy(with_sharing.view(1, 1)), RowCopy(raw.view(1, 1)));
}

TEST_F(GlmModelTest, DraftHeadRefusesWhatDoesNotFit) {
  const LoadedModel& loaded = load(testing::make_tiny_glm({}),
                                   kernels::Isa::kRef,
                                   1,
                                   {.compat = {.draft_starts_cold = true}, .progress = {}});
  const DraftHead& head = *loaded.model->draft_head();
  EXPECT_FALSE(head.wants_prompt());
  const auto cache = head.new_cache({.max_tokens = 2});
  const auto workspace = head.new_workspace();
  const std::vector<float> hidden(3 * testing::kTinyWidth, 0.5F);
  const ConstMatrix rows{hidden.data(), 3, testing::kTinyWidth, testing::kTinyWidth};
  const std::vector<Token> tokens{1, 2, 3};
  EXPECT_THROW(head.append(*cache, rows, tokens, *workspace), InvalidInput);
  const std::vector<Token> outside{99};
  IndexSets sets;
  const DraftSlice slice{cache.get(), {rows.data, 1, rows.n_cols, rows.stride}, outside, &sets};
  EXPECT_THROW(head.step({&slice, 1}, *workspace), InvalidInput);
  EXPECT_EQ(cache->length(), 0U);
  EXPECT_FALSE(sets.is_set);
}

TEST_F(GlmModelTest, HasNoDraftHeadUnlessTheLayerIsComplete) {
  TinyGlm glm = testing::make_tiny_glm({});
  EXPECT_NE(load(glm).model->draft_head(), nullptr);
  EXPECT_EQ(load(glm).model->config().draft_head_absence, "");

  glm.tensors.erase("model.layers.5.mlp.experts.4.up_proj.weight");
  const LoadedModel& partial = load(glm);
  EXPECT_EQ(partial.model->draft_head(), nullptr);
  EXPECT_THAT(partial.model->config().draft_head_absence,
              HasSubstr("incomplete: model.layers.5.mlp.experts.4.up_proj.weight is missing"));
  EXPECT_EQ(partial.model->config().draft_head_bytes, 0U);

  const LoadedModel& without = load(testing::make_tiny_glm({.has_draft_layer = false}));
  EXPECT_EQ(without.model->draft_head(), nullptr);
  EXPECT_THAT(without.model->config().draft_head_absence, HasSubstr("no next-token layer"));
}

}  // namespace
}  // namespace ft::models
