#include "models/glm_config.h"

#include "json/json.h"
#include "testing/tiny_glm.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::models {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Edits = std::map<std::string, std::string>;  // key: JSON text, "" removes

ParsedGlmConfig parse(const Edits& edits, const std::string& generation = "null") {
  testing::TinyGlm glm = testing::make_tiny_glm({});
  for (const auto& [key, value] : edits) {
    glm.config.erase(key);
    if (!value.empty()) glm.config[key] = value;
  }
  return parse_glm_config(json::parse(glm.config_json(), "config.json"),
                          generation == "null" ? json::Value() : json::parse(generation, "g"));
}

TEST(GlmConfig, ReadsWhatTheModelComputesWith) {
  const auto [config, problems] = parse({});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(config.n_layers, 5U);
  EXPECT_EQ(config.attention.query_dim(), 14U);
  EXPECT_EQ(config.attention.key_dim(), 22U);
  EXPECT_FLOAT_EQ(config.attention.norm_eps, 1e-5F);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_THAT(config.has_indexer, ElementsAre(true, true, false, false, true));
  EXPECT_THAT(config.is_sparse, ElementsAre(false, true, true, true, true));
  EXPECT_EQ(config.router.n_experts, 6U);
  EXPECT_FLOAT_EQ(config.router.scale, 2.5F);
  EXPECT_TRUE(config.drafts_share_selection);
  EXPECT_THAT(config.eos_tokens, ElementsAre(3, 5));
  EXPECT_EQ(config.block_rows, 128U);
}

TEST(GlmConfig, PrefersTheNestedTheta) {
  EXPECT_EQ(parse({{"rope_theta", "1e4"}, {"rope_parameters", R"({"rope_theta": 8000000})"}})
                .config.rope_theta,
            8e6);
  EXPECT_EQ(parse({{"rope_theta", "1e6"}, {"rope_parameters", ""}}).config.rope_theta, 1e6);
  EXPECT_EQ(parse({{"rope_theta", "5e5"}, {"rope_parameters", "null"}}).config.rope_theta, 5e5);
}

TEST(GlmConfig, UnitesTheEndTokensOfBothFilesInOrder) {
  EXPECT_THAT(parse({}, R"({"eos_token_id": [7, 3]})").config.eos_tokens, ElementsAre(3, 5, 7));
  EXPECT_THAT(parse({{"eos_token_id", "9"}}, R"({"eos_token_id": 9})").config.eos_tokens,
              ElementsAre(9));
  EXPECT_THAT(parse({{"eos_token_id", "null"}}, R"({"eos_token_id": 4})").config.eos_tokens,
              ElementsAre(4));
  EXPECT_THAT(parse({}, R"({"eos_token_id": null})").problems, IsEmpty());
}

TEST(GlmConfig, TakesTheIndexerScheduleFromTheListElseTheRuleElseEverywhere) {
  // GLM-5.2's rule at 7 layers: 0, 1, 2 and 6.
  const Edits released{{"indexer_types", ""},
                       {"index_topk_freq", "4"},
                       {"index_skip_topk_offset", "3"},
                       {"num_hidden_layers", "7"},
                       {"mlp_layer_types", ""}};
  EXPECT_THAT(parse(released).config.has_indexer,
              ElementsAre(true, true, true, false, false, false, true));
  // GLM-5 and 5.1 have none of the fields.
  EXPECT_THAT(parse({{"indexer_types", ""}}).config.has_indexer,
              ElementsAre(true, true, true, true, true));
  // A list that agrees with the rule, as in GLM-5.2.
  EXPECT_THAT(parse({{"index_topk_freq", "3"}, {"index_skip_topk_offset", "2"}}).problems,
              IsEmpty());
}

TEST(GlmConfig, AcceptsAModelWithoutIndexer) {
  const auto [config, problems] =
      parse({{"index_topk", ""}, {"index_n_heads", ""}, {"index_head_dim", ""}});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_FALSE(config.indexer.has_value());
}

TEST(GlmConfig, NeedsNoExpertFieldsInADenseModel) {
  const auto [config, problems] = parse({{"mlp_layer_types", ""},
                                         {"first_k_dense_replace", "5"},
                                         {"n_routed_experts", ""},
                                         {"num_experts_per_tok", ""},
                                         {"norm_topk_prob", ""},
                                         {"routed_scaling_factor", ""},
                                         {"moe_intermediate_size", ""}});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_FALSE(config.has_experts);
}

TEST(GlmConfig, AppliesTheSafeDefaults) {
  const auto [config, problems] = parse({{"rms_norm_eps", ""},
                                         {"n_shared_experts", ""},
                                         {"n_group", ""},
                                         {"topk_group", ""},
                                         {"qk_head_dim", ""},
                                         {"index_share_for_mtp_iteration", ""},
                                         {"rope_interleave", ""},
                                         {"mlp_layer_types", ""}});
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_FLOAT_EQ(config.attention.norm_eps, 1e-5F);
  EXPECT_EQ(config.n_shared_experts, 0U);
  EXPECT_EQ(config.router.n_groups, 1U);
  EXPECT_FALSE(config.drafts_share_selection);
}

TEST(GlmConfig, ListsEveryProblem) {
  const ParsedGlmConfig parsed = parse({{"hidden_size", "-4"}, {"vocab_size", ""}});
  EXPECT_THAT(parsed.problems,
              ::testing::IsSupersetOf({"config.json: hidden_size is -4, expected 1 to 1048576",
                                       "config.json: vocab_size is missing"}));
}

struct Refusal {
  Edits edits;
  std::string message;
};

class GlmConfigRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(GlmConfigRefusal, NamesWhatIsWrong) {
  const ParsedGlmConfig parsed = parse(GetParam().edits);
  EXPECT_THAT(parsed.problems, ::testing::Contains(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Traps,
    GlmConfigRefusal,
    ::testing::Values(
        Refusal{{{"rope_parameters", R"({"rope_type": "default"})"}}, "rope_theta is missing"},
        Refusal{{{"rope_parameters", R"({"rope_theta": 1e4, "rope_type": "yarn"})"}},
                "rope_parameters.rope_type is 'yarn'; only 'default' is supported"},
        Refusal{{{"rope_parameters", R"({"rope_theta": 1e4, "partial_rotary_factor": 0.5})"}},
                "partial_rotary_factor"},
        Refusal{{{"rope_scaling", R"({"type": "linear", "factor": 4})"}},
                "rope_scaling.type is 'linear'"},
        Refusal{{{"rope_parameters", R"({"rope_theta": -1})"}}, "rope_theta is -1"},
        Refusal{{{"norm_topk_prob", ""}}, "norm_topk_prob is missing"},
        Refusal{{{"routed_scaling_factor", ""}}, "routed_scaling_factor is missing"},
        Refusal{{{"routed_scaling_factor", "\"big\""}}, "routed_scaling_factor is a string"},
        Refusal{{{"attention_bias", "true"}}, "attention_bias is true; only false is supported"},
        Refusal{{{"mlp_bias", "true"}}, "mlp_bias is true"},
        Refusal{{{"hidden_act", "\"gelu\""}}, "hidden_act is 'gelu'; only 'silu' is supported"},
        Refusal{{{"scoring_func", "\"softmax\""}}, "scoring_func is 'softmax'"},
        Refusal{{{"topk_method", "\"greedy\""}}, "topk_method is 'greedy'"},
        Refusal{{{"rope_interleave", "false"}}, "rope_interleave is false"},
        Refusal{{{"indexer_rope_interleave", "false"}}, "indexer_rope_interleave is false"},
        Refusal{{{"moe_layer_freq", "2"}}, "moe_layer_freq is 2"},
        Refusal{{{"qk_head_dim", "24"}}, "qk_head_dim is 24, but qk_nope_head_dim 10"},
        Refusal{{{"qk_rope_head_dim", "5"}, {"qk_head_dim", ""}},
                "qk_rope_head_dim is 5, expected an even"},
        Refusal{{{"index_topk", ""}}, "index_topk is missing"},
        Refusal{{{"index_head_dim", "2"}},
                "index_head_dim is 2, expected at least qk_rope_head_dim"},
        Refusal{{{"index_topk", "0"}}, "index_topk is 0"},
        Refusal{{{"index_topk_pattern", "\"FSSS\""}}, "index_topk_pattern"},
        Refusal{{{"indexer_types", R"(["full"])"}},
                "indexer_types has 1 entries, expected num_hidden_layers = 5"},
        Refusal{{{"indexer_types", R"(["full", "full", "half", "full", "full"])"}},
                "indexer_types[2] is 'half'"},
        Refusal{{{"indexer_types", R"(["shared", "full", "full", "full", "full"])"}},
                "layer 0 shares its index set"},
        Refusal{{{"index_topk_freq", "2"}, {"index_skip_topk_offset", "2"}},
                "indexer_types[3] is 'shared', but index_topk_freq 2 with index_skip_topk_offset 2 "
                "makes it 'full'"},
        Refusal{{{"mlp_layer_types", R"(["dense"])"}}, "mlp_layer_types has 1 entries"},
        Refusal{{{"first_k_dense_replace", "2"}},
                "mlp_layer_types disagrees with first_k_dense_replace = 2"},
        Refusal{{{"mlp_layer_types", ""}, {"first_k_dense_replace", ""}}, "both missing"},
        Refusal{{{"n_group", "4"}}, "n_routed_experts 6 is no multiple of n_group 4"},
        Refusal{{{"n_group", "2"}, {"topk_group", "3"}}, "topk_group 3 exceeds n_group 2"},
        Refusal{{{"n_group", "6"}, {"topk_group", "1"}}, "num_experts_per_tok is 2, but only 1"},
        Refusal{{{"num_experts_per_tok", "65"}}, "num_experts_per_tok is 65, expected 1 to 64"},
        Refusal{{{"n_routed_experts", "5000"}}, "n_routed_experts is 5000, expected 1 to 4096"},
        Refusal{{{"num_hidden_layers", "100000000"}},
                "num_hidden_layers is 100000000, expected 1 to 128"},
        Refusal{{{"num_hidden_layers", "5.5"}}, "num_hidden_layers"},
        Refusal{{{"vocab_size", "9000000000000000000"}}, "vocab_size is 9000000000000000000"},
        Refusal{{{"hidden_size", "[24]"}}, "hidden_size is an array"},
        Refusal{{{"eos_token_id", ""}},
                "eos_token_id is missing, here and in generation_config.json"},
        Refusal{{{"eos_token_id", "50"}}, "eos_token_id is 50, expected 0 to 49"},
        Refusal{{{"eos_token_id", "[1, \"x\"]"}}, "eos_token_id is a string"},
        Refusal{{{"rms_norm_eps", "0"}}, "rms_norm_eps is 0"},
        Refusal{{{"quantization_config", R"({"weight_block_size": [128]})"}}, "weight_block_size"},
        Refusal{{{"quantization_config", R"({"weight_block_size": [0, 128]})"}},
                "weight_block_size[0] is 0"}));

}  // namespace
}  // namespace ft::models
