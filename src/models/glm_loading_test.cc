// What a checkpoint must hold to become a model, and what is said where it does not.
#include "models/glm_model_test_fixture.h"
#include "models/model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::models {
namespace {

using ::testing::HasSubstr;
using testing::TinyFormat;
using testing::TinyGlm;

using GlmLoadingTest = GlmModelTest;

TEST_F(GlmLoadingTest, DescribesTheModel) {
  const TinyGlm glm = testing::make_tiny_glm({.format = TinyFormat::kFp8});
  const ModelConfig& config = load(glm).model->config();
  EXPECT_EQ(config.family, "glm_moe_dsa");
  EXPECT_EQ(config.n_layers, 5U);
  EXPECT_EQ(config.n_experts, 6U);
  EXPECT_EQ(config.max_context, testing::kTinyContext);
  EXPECT_EQ(config.weight_format, "fp8");
  EXPECT_EQ(config.weights_hash.size(), 16U);
  std::uint64_t n_bytes = 0;
  std::uint64_t n_parameters = 0;
  for (const auto& [name, tensor] : glm.tensors) {
    n_bytes += tensor.bytes.size();
    std::uint64_t n = name.find("_scale_inv") == std::string::npos ? 1 : 0;
    for (const std::uint64_t size : tensor.shape) n *= size;
    n_parameters += n;
  }
  EXPECT_EQ(config.n_parameters, n_parameters);
  EXPECT_EQ(config.dense_bytes + config.expert_bytes + config.draft_head_bytes, n_bytes);
  EXPECT_GT(config.expert_bytes, 0U);
}

TEST_F(GlmLoadingTest, ReportsProgressUpToTheTotal) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reports;
  LoadOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    reports.emplace_back(done, total);
  };
  load(testing::make_tiny_glm({}), kernels::Isa::kRef, 2, options);
  ASSERT_GT(reports.size(), 4U);
  EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
  EXPECT_EQ(reports.back().first, reports.back().second);
}

TEST_F(GlmLoadingTest, TiesTheHeadToTheEmbeddingIfTheConfigSaysSo) {
  TinyGlm tied = testing::make_tiny_glm({.seed = 11});
  TinyGlm copied = tied;
  tied.config["tie_word_embeddings"] = "true";
  tied.tensors.erase("lm_head.weight");
  copied.tensors["lm_head.weight"] = copied.tensors["model.embed_tokens.weight"];
  const std::vector<Token> tokens = some_tokens(4);
  const auto logits = [&](const TinyGlm& glm) {
    const LoadedModel& loaded = load(glm);
    const auto cache = loaded.model->new_cache({.max_tokens = 4});
    return feed(*loaded.model, *cache, tokens, 4).logits;
  };
  EXPECT_EQ(logits(tied), logits(copied));
}

TEST_F(GlmLoadingTest, RefusesDamagedWeightsByName) {
  const auto fp8 = [] { return testing::make_tiny_glm({.format = TinyFormat::kFp8}); };
  for (const std::string name : {"model.layers.1.mlp.experts.3.up_proj.weight",
                                 "model.layers.0.self_attn.kv_b_proj.weight",
                                 "model.layers.5.self_attn.indexer.wq_b.weight"}) {
    for (const char code : {'\x7f', '\xff'}) {
      TinyGlm glm = fp8();
      glm.tensors[name].bytes.back() = code;
      EXPECT_THAT(refusal(glm), HasSubstr("tensor '" + name + "'"));
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  TinyGlm bad_scale = fp8();
  std::memcpy(
      bad_scale.tensors["model.layers.2.mlp.experts.0.gate_proj.weight_scale_inv"].bytes.data(),
      &nan,
      sizeof nan);
  EXPECT_THAT(refusal(bad_scale), HasSubstr("'model.layers.2.mlp.experts.0.gate_proj.weight'"));
  TinyGlm bad_bias = fp8();
  std::memcpy(bad_bias.tensors["model.layers.2.mlp.gate.e_score_correction_bias"].bytes.data(),
              &nan,
              sizeof nan);
  EXPECT_THAT(refusal(bad_bias), HasSubstr("'model.layers.2.mlp.gate.e_score_correction_bias'"));
}

TEST_F(GlmLoadingTest, RoundsOnlyNumbersForTheDraftHead) {
  TinyGlm glm = testing::make_tiny_glm({});
  const std::string name = "model.layers.5.mlp.experts.1.up_proj.weight";
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(glm.tensors.at(name).bytes.data(), &infinity, sizeof infinity);
  EXPECT_EQ(refusal(glm), "");  // as stored, it is the draft head's own trouble
  LoadOptions options;
  options.draft_format = QuantFormat::kQ4;
  try {
    load(glm, kernels::Isa::kRef, 1, options);
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("'" + name + "'"));
  }
}

TEST_F(GlmLoadingTest, RefusesWrongInventories) {
  const TinyGlm good = testing::make_tiny_glm({.format = TinyFormat::kFp8});
  TinyGlm missing = good;
  missing.tensors.erase("model.layers.3.self_attn.kv_a_layernorm.weight");
  EXPECT_THAT(refusal(missing), HasSubstr("kv_a_layernorm"));

  TinyGlm no_scale = good;
  no_scale.tensors.erase("model.layers.3.self_attn.o_proj.weight_scale_inv");
  EXPECT_THAT(refusal(no_scale), HasSubstr("o_proj.weight_scale_inv"));

  TinyGlm wrong_scale = good;
  wrong_scale.config["quantization_config"] = R"({"weight_block_size": [8, 16]})";
  EXPECT_THAT(refusal(wrong_scale), HasSubstr("weight_scale_inv"));

  TinyGlm wrong_shape = good;
  wrong_shape.config["v_head_dim"] = "8";
  EXPECT_THAT(refusal(wrong_shape),
              HasSubstr("o_proj.weight' has shape [24, 21], expected [24, 24]"));

  TinyGlm mixed = good;
  const TinyGlm f32 = testing::make_tiny_glm({.format = TinyFormat::kF32});
  const std::string up = "model.layers.1.mlp.experts.0.up_proj.weight";
  mixed.tensors[up] = f32.tensors.at(up);
  EXPECT_THAT(refusal(mixed), HasSubstr("only F8_E4M3 takes scales"));
  mixed.tensors.erase(up + "_scale_inv");
  EXPECT_THAT(refusal(mixed), HasSubstr("must have one dtype, found F8_E4M3 and F32"));

  TinyGlm quantized_router = good;
  quantized_router.tensors["model.layers.1.mlp.gate.weight"].dtype = "F8_E4M3";
  quantized_router.tensors["model.layers.1.mlp.gate.weight"].bytes.resize(6 * testing::kTinyWidth);
  EXPECT_THAT(refusal(quantized_router), HasSubstr("model.layers.1.mlp.gate.weight"));
}

TEST_F(GlmLoadingTest, InspectionListsProblemsWithoutMapping) {
  TestFolder folder;
  const auto inspect = [&](const TinyGlm& glm) {
    glm.write(folder.path());
    return inspect_model(checkpoint::Checkpoint::open(folder.path()));
  };
  const Inspection good = inspect(testing::make_tiny_glm({}));
  EXPECT_THAT(good.problems, ::testing::IsEmpty());
  EXPECT_TRUE(good.has_draft_head);
  EXPECT_EQ(good.config.weight_format, "f32");
  EXPECT_EQ(good.config.weights_hash, "");

  TinyGlm bad = testing::make_tiny_glm({.has_draft_layer = false});
  bad.config["hidden_act"] = "\"relu\"";
  bad.config["scoring_func"] = "\"softmax\"";
  EXPECT_EQ(inspect(bad).problems.size(), 2U);
  TinyGlm other = bad;
  other.config["model_type"] = "\"llama\"";
  EXPECT_THAT(inspect(other).problems,
              ::testing::ElementsAre(HasSubstr("'llama' is not supported (known: glm_moe_dsa)")));
  TinyGlm incomplete = testing::make_tiny_glm({.has_draft_layer = false});
  incomplete.tensors.erase("model.norm.weight");
  const Inspection inspection = inspect(incomplete);
  EXPECT_THAT(inspection.problems, ::testing::ElementsAre(HasSubstr("model.norm.weight")));
  EXPECT_FALSE(inspection.has_draft_head);
  EXPECT_THAT(inspection.config.draft_head_absence, HasSubstr("no next-token layer"));
}

TEST_F(GlmLoadingTest, CountsProblemsInOneLine) {
  TinyGlm bad = testing::make_tiny_glm({});
  bad.config["hidden_act"] = "\"relu\"";
  bad.config["scoring_func"] = "\"softmax\"";
  EXPECT_THAT(refusal(bad),
              HasSubstr("hidden_act is 'relu'; only 'silu' is supported (and 1 more"));
}

}  // namespace
}  // namespace ft::models
