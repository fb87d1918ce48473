#include "models/glm_config.h"

#include "base/error.h"
#include "models/config_reader.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ft::models {
namespace {

// Bounds of a plausible config: far above any released model, low enough that no product of two of
// them overflows and no value can make the loader allocate before the census has compared it with
// real tensors.
constexpr Range kLayers{1, 128};
constexpr Range kWidth{1, 1 << 20};
// Rows of the latent and index caches: within kernels::kMaxKeyDim with the rotary part.
constexpr Range kCacheRow{1, 1 << 12};
constexpr Range kHeads{1, 4096};
constexpr Range kVocab{1, 1 << 24};
constexpr Range kPositions{1, 1 << 30};
constexpr Range kExperts{1, nn::kMaxExperts};
constexpr Range kActive{1, nn::kMaxActiveExperts};
constexpr Range kRotary{2, nn::kMaxRotaryDim};
constexpr double kMaxTheta = 1e12;

void read_attention(const ConfigReader& reader, GlmConfig& config) {
  nn::LatentAttentionShape& shape = config.attention;
  shape.d_model = config.d_model;
  shape.n_heads = reader.count("num_attention_heads", kHeads);
  shape.q_rank = reader.count("q_lora_rank", kWidth);
  shape.latent_dim = reader.count("kv_lora_rank", kCacheRow);
  shape.nope_dim = reader.count("qk_nope_head_dim", kWidth);
  shape.rope_dim = reader.count("qk_rope_head_dim", kRotary);
  shape.value_dim = reader.count("v_head_dim", kWidth);
  shape.norm_eps = static_cast<float>(reader.positive_real_or("rms_norm_eps", 1e-5, 1));
  if (shape.rope_dim % 2 != 0) {
    reader.problem("qk_rope_head_dim is {}, expected an even number", shape.rope_dim);
  }
  // head_dim is not read: it means the nope width in some releases and the rotary width in others.
  const std::size_t qk_head_dim =
      reader.count_or("qk_head_dim", shape.query_dim(), {1, 2 * kWidth.max});
  if (qk_head_dim != shape.query_dim()) {
    reader.problem("qk_head_dim is {}, but qk_nope_head_dim {} + qk_rope_head_dim {} make {}",
                   qk_head_dim,
                   shape.nope_dim,
                   shape.rope_dim,
                   shape.query_dim());
  }
  reader.expect_flag("attention_bias", false);
  reader.expect_flag("rope_interleave", true);
}

void read_rope(const ConfigReader& reader, std::vector<std::string>& problems, GlmConfig& config) {
  const json::Value nothing;
  const json::Value* nested = reader.find("rope_parameters");
  const ConfigReader inner(
      nested == nullptr ? nothing : *nested, "config.json: rope_parameters.", problems);
  inner.expect_text("rope_type", "default");
  if (const json::Value* factor = inner.find("partial_rotary_factor");
      factor != nullptr &&
      !(factor->is_number() && factor->as_real("partial_rotary_factor") == 1)) {
    inner.problem("partial_rotary_factor is not 1; only 1 is supported");
  }
  // Older files: a scaling rule beside the theta. A null one is no rule.
  if (const json::Value* scaling = reader.find("rope_scaling"); scaling != nullptr) {
    const ConfigReader old(*scaling, "config.json: rope_scaling.", problems);
    old.expect_text("rope_type", "default");
    old.expect_text("type", "default");
  }
  if (inner.has("rope_theta")) {
    config.rope_theta = inner.positive_real("rope_theta", kMaxTheta);
  } else if (reader.has("rope_theta")) {
    config.rope_theta = reader.positive_real("rope_theta", kMaxTheta);
  } else {
    reader.problem("rope_theta is missing, in rope_parameters and outside; no default is safe");
  }
}

/// One entry per layer, each one of two words; nullopt if the list is absent or wrong.
std::optional<std::vector<bool>> read_layer_types(const ConfigReader& reader,
                                                  std::string_view key,
                                                  std::string_view yes,
                                                  std::string_view no,
                                                  std::size_t n_layers) {
  const std::optional<std::vector<std::string>> words = reader.strings(key);
  if (!words) return std::nullopt;
  if (words->size() != n_layers) {
    reader.problem(
        "{} has {} entries, expected num_hidden_layers = {}", key, words->size(), n_layers);
    return std::nullopt;
  }
  std::vector<bool> types;
  for (const std::string& word : *words) {
    if (word != yes && word != no) {
      reader.problem(
          "{}[{}] is '{}', expected '{}' or '{}'", key, types.size(), word.substr(0, 60), yes, no);
      return std::nullopt;
    }
    types.push_back(word == yes);
  }
  return types;
}

/// The list if there is one, else the frequency rule, which without its fields means every layer.
/// List and rule must agree where both are written down.
std::vector<bool> read_indexer_layers(const ConfigReader& reader, std::size_t n_layers) {
  const std::size_t frequency = reader.count_or("index_topk_freq", 1, kLayers);
  const std::size_t offset = reader.count_or("index_skip_topk_offset", 2, {0, kLayers.max});
  std::vector<bool> by_rule;
  for (std::size_t i = 0; i < n_layers; ++i) {
    by_rule.push_back((i + 1 > offset ? i + 1 - offset : 0) % frequency == 0);
  }
  const auto by_list = read_layer_types(reader, "indexer_types", "full", "shared", n_layers);
  const bool has_rule = reader.has("index_topk_freq") && reader.has("index_skip_topk_offset");
  if (by_list && has_rule && *by_list != by_rule) {
    const auto at = std::mismatch(by_list->begin(), by_list->end(), by_rule.begin()).first;
    reader.problem(
        "indexer_types[{}] is '{}', but index_topk_freq {} with index_skip_topk_offset {} makes it "
        "'{}'; remove the one that is wrong",
        at - by_list->begin(),
        *at ? "full" : "shared",
        frequency,
        offset,
        *at ? "shared" : "full");
  }
  return by_list ? *by_list : by_rule;
}

void read_indexer(const ConfigReader& reader, GlmConfig& config) {
  config.has_indexer.assign(config.n_layers, false);
  const bool has_any =
      reader.has("index_topk") || reader.has("index_n_heads") || reader.has("index_head_dim");
  if (!has_any) return;
  nn::IndexerShape shape;
  shape.n_heads = reader.count("index_n_heads", kHeads);
  shape.head_dim = reader.count("index_head_dim", kCacheRow);
  shape.top_k = reader.count("index_topk", kPositions);
  if (shape.head_dim < config.attention.rope_dim) {
    reader.problem("index_head_dim is {}, expected at least qk_rope_head_dim = {}",
                   shape.head_dim,
                   config.attention.rope_dim);
  }
  reader.expect_flag("indexer_rope_interleave", true);
  if (reader.has("index_topk_pattern")) {
    reader.problem(
        "index_topk_pattern is set; only indexer_types and index_topk_freq are supported");
  }
  config.indexer = shape;
  config.has_indexer = read_indexer_layers(reader, config.n_layers);
  if (!config.has_indexer.front()) {
    reader.problem("layer 0 shares its index set, but there is no earlier layer to share with");
  }
}

void read_layer_kinds(const ConfigReader& reader, GlmConfig& config) {
  const std::size_t n_layers = config.n_layers;
  const std::size_t n_dense = reader.count_or("first_k_dense_replace", 0, {0, kLayers.max});
  std::vector<bool> by_count;
  for (std::size_t i = 0; i < n_layers; ++i) by_count.push_back(i >= n_dense);
  const auto by_list = read_layer_types(reader, "mlp_layer_types", "sparse", "dense", n_layers);
  const bool has_count = reader.has("first_k_dense_replace");
  if (!by_list && !has_count) {
    reader.problem("mlp_layer_types and first_k_dense_replace are both missing");
  }
  if (by_list && has_count && *by_list != by_count) {
    reader.problem("mlp_layer_types disagrees with first_k_dense_replace = {}", n_dense);
  }
  config.is_sparse = by_list ? *by_list : by_count;
  config.draft_layer_is_sparse = n_dense <= n_layers;
  reader.count_or("moe_layer_freq", 1, {1, 1});
  if (std::count(config.is_sparse.begin(), config.is_sparse.end(), false) > 0) {
    config.dense_width = reader.count("intermediate_size", kWidth);
  }
}

void read_experts(const ConfigReader& reader, GlmConfig& config) {
  const bool is_needed = std::count(config.is_sparse.begin(), config.is_sparse.end(), true) > 0;
  if (!is_needed && !reader.has("n_routed_experts")) return;
  config.has_experts = true;
  nn::RouterShape& router = config.router;
  router.n_experts = reader.count("n_routed_experts", kExperts);
  router.n_active = reader.count("num_experts_per_tok", kActive);
  router.n_groups = reader.count_or("n_group", 1, kExperts);
  router.n_kept_groups = reader.count_or("topk_group", 1, kExperts);
  // The defaults in use elsewhere (false and 1) are wrong for this family.
  router.normalizes = reader.flag("norm_topk_prob");
  router.scale = static_cast<float>(reader.positive_real("routed_scaling_factor", 1e6));
  config.expert_width = reader.count("moe_intermediate_size", kWidth);
  config.n_shared_experts = reader.count_or("n_shared_experts", 0, {0, kActive.max});
  reader.expect_text("scoring_func", "sigmoid");
  reader.expect_text("topk_method", "noaux_tc");
  if (router.n_experts % router.n_groups != 0) {
    reader.problem(
        "n_routed_experts {} is no multiple of n_group {}", router.n_experts, router.n_groups);
  } else if (router.n_kept_groups > router.n_groups) {
    reader.problem("topk_group {} exceeds n_group {}", router.n_kept_groups, router.n_groups);
  } else if (const std::size_t n_choosable =
                 router.n_kept_groups * (router.n_experts / router.n_groups);
             router.n_active > n_choosable) {
    reader.problem("num_experts_per_tok is {}, but only {} experts can be chosen",
                   router.n_active,
                   n_choosable);
  }
}

void read_scale_blocks(const ConfigReader& reader,
                       std::vector<std::string>& problems,
                       GlmConfig& config) {
  const json::Value* quantization = reader.find("quantization_config");
  if (quantization == nullptr) return;
  // Nothing else of this object is read: in derived files it is often stale, dtypes and shapes
  // decide.
  const ConfigReader inner(*quantization, "config.json: quantization_config.", problems);
  const json::Value* block = inner.find("weight_block_size");
  if (block == nullptr) return;
  if (!block->is_array() || block->as_array("weight_block_size").size() != 2) {
    inner.problem("weight_block_size is no list of two numbers");
    return;
  }
  const json::Array& sizes = block->as_array("weight_block_size");
  const json::Value as_object(
      json::Object{{"weight_block_size[0]", sizes[0]}, {"weight_block_size[1]", sizes[1]}});
  const ConfigReader items(as_object, "config.json: quantization_config.", problems);
  config.block_rows = items.count("weight_block_size[0]", kWidth);
  config.block_cols = items.count("weight_block_size[1]", kWidth);
}

/// Appends the ids of one file's eos_token_id: an integer, a list, or nothing.
void read_eos(const ConfigReader& reader, std::size_t n_vocab, std::vector<Token>& eos_tokens) {
  const json::Value* value = reader.find("eos_token_id");
  if (value == nullptr) return;
  const json::Array ids = value->is_array() ? value->as_array("eos_token_id") : json::Array{*value};
  for (const json::Value& id : ids) {
    const json::Value as_object(json::Object{{"eos_token_id", id}});
    std::vector<std::string> problems;
    const ConfigReader item(as_object, "", problems);
    const std::size_t token =
        item.count("eos_token_id", {0, static_cast<std::int64_t>(n_vocab) - 1});
    if (!problems.empty()) {
      reader.problem("{}", problems.front());
    } else if (const auto as_token = static_cast<Token>(token);
               std::find(eos_tokens.begin(), eos_tokens.end(), as_token) == eos_tokens.end()) {
      eos_tokens.push_back(as_token);
    }
  }
}

}  // namespace

ParsedGlmConfig parse_glm_config(const json::Value& config_json,
                                 const json::Value& generation_config) {
  ParsedGlmConfig parsed;
  GlmConfig& config = parsed.config;
  const ConfigReader reader(config_json, "config.json: ", parsed.problems);
  config.n_layers = reader.count("num_hidden_layers", kLayers);
  config.d_model = reader.count("hidden_size", kWidth);
  config.n_vocab = reader.count("vocab_size", kVocab);
  config.max_context = reader.count("max_position_embeddings", kPositions);
  config.ties_head = reader.flag_or("tie_word_embeddings", false);
  config.drafts_share_selection = reader.flag_or("index_share_for_mtp_iteration", false);
  reader.expect_text("hidden_act", "silu");
  reader.expect_flag("mlp_bias", false);
  read_attention(reader, config);
  read_rope(reader, parsed.problems, config);
  read_indexer(reader, config);
  read_layer_kinds(reader, config);
  read_experts(reader, config);
  read_scale_blocks(reader, parsed.problems, config);

  read_eos(reader, config.n_vocab, config.eos_tokens);
  const ConfigReader generation(generation_config, "generation_config.json: ", parsed.problems);
  read_eos(generation, config.n_vocab, config.eos_tokens);
  if (config.eos_tokens.empty()) {
    reader.problem("eos_token_id is missing, here and in generation_config.json");
  }
  return parsed;
}

}  // namespace ft::models
