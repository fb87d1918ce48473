#include "testing/tiny_glm.h"

#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include <fmt/format.h>

namespace ft::testing {
namespace {

// Odd and unequal on purpose: offsets that only work for equal widths must show.
constexpr std::size_t kQueryRank = 20;
constexpr std::size_t kLatent = 18;
constexpr std::size_t kNope = 10;
constexpr std::size_t kRope = 4;
constexpr std::size_t kValue = 7;
constexpr std::size_t kIndexHeads = 3;
constexpr std::size_t kIndexDim = 6;
constexpr std::size_t kExperts = 6;
constexpr std::size_t kActive = 2;
constexpr std::size_t kExpertWidth = 9;
constexpr std::size_t kDenseWidth = 30;

class Writer {
 public:
  Writer(const TinyGlmOptions& options, TinyGlm& glm)
      : options_(options), glm_(glm), rng_(options.seed) {}

  void layer(std::size_t index, bool has_indexer, bool is_sparse) {
    const std::string p = fmt::format("model.layers.{}.", index);
    const std::string a = p + "self_attn.";
    norm(p + "input_layernorm", kTinyWidth);
    norm(p + "post_attention_layernorm", kTinyWidth);
    projection(a + "q_a_proj", kQueryRank, kTinyWidth);
    norm(a + "q_a_layernorm", kQueryRank);
    projection(a + "q_b_proj", options_.n_heads * (kNope + kRope), kQueryRank, 2);
    projection(a + "kv_a_proj_with_mqa", kLatent + kRope, kTinyWidth);
    norm(a + "kv_a_layernorm", kLatent);
    projection(a + "kv_b_proj", options_.n_heads * (kNope + kValue), kLatent);
    projection(a + "o_proj", kTinyWidth, options_.n_heads * kValue);
    if (has_indexer) {
      projection(a + "indexer.wq_b", kIndexHeads * kIndexDim, kQueryRank, 2);
      projection(a + "indexer.wk", kIndexDim, kTinyWidth);
      norm(a + "indexer.k_norm", kIndexDim);
      values(a + "indexer.k_norm.bias", {kIndexDim}, 0, 0.1F);
      values(a + "indexer.weights_proj.weight", {kIndexHeads, kTinyWidth}, 0, 0.2F);
    }
    if (!is_sparse) return expert(p + "mlp.", kDenseWidth);
    values(p + "mlp.gate.weight", {kExperts, kTinyWidth}, 0, 0.2F);
    values(p + "mlp.gate.e_score_correction_bias", {kExperts}, 0, 0.05F, TinyFormat::kF32);
    for (std::size_t e = 0; e < kExperts; ++e) {
      expert(p + fmt::format("mlp.experts.{}.", e), kExpertWidth);
    }
    if (options_.n_shared_experts > 0) {
      expert(p + "mlp.shared_experts.", kExpertWidth * options_.n_shared_experts);
    }
  }

  void norm(const std::string& name, std::size_t n) { values(name + ".weight", {n}, 1, 0.1F); }

  void values(const std::string& name,
              const std::vector<std::uint64_t>& shape,
              float mean,
              float deviation) {
    const bool is_f32 = options_.format == TinyFormat::kF32;
    values(name, shape, mean, deviation, is_f32 ? TinyFormat::kF32 : TinyFormat::kBf16);
  }

 private:
  float normal() {
    // Sum of uniforms: the standard distributions differ between libraries.
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(rng_()) * 0x1p-32F;
    return sum;
  }

  void expert(const std::string& p, std::size_t width) {
    projection(p + "gate_proj", width, kTinyWidth);
    projection(p + "up_proj", width, kTinyWidth);
    projection(p + "down_proj", kTinyWidth, width);
  }

  void values(const std::string& name,
              const std::vector<std::uint64_t>& shape,
              float mean,
              float deviation,
              TinyFormat format) {
    std::uint64_t n = 1;
    for (const std::uint64_t size : shape) n *= size;
    TinyTensor tensor{format == TinyFormat::kF32 ? "F32" : "BF16", shape, {}};
    for (std::uint64_t i = 0; i < n; ++i) {
      const float value = mean + deviation * normal();
      if (format == TinyFormat::kF32) {
        append(tensor.bytes, value);
      } else {
        append(tensor.bytes, float_to_bf16(value));
      }
    }
    glm_.tensors[name] = std::move(tensor);
  }

  void projection(const std::string& name, std::size_t n_out, std::size_t n_in, float gain = 1) {
    const std::string weight = name + ".weight";
    const float deviation = gain / std::sqrt(static_cast<float>(n_in));
    if (options_.format != TinyFormat::kFp8) return values(weight, {n_out, n_in}, 0, deviation);
    // Codes near +-448 with scales that differ from block to block, as a quantiser leaves them.
    const std::size_t block = options_.fp8_block;
    const std::size_t n_scale_rows = (n_out + block - 1) / block;
    const std::size_t n_scale_cols = (n_in + block - 1) / block;
    TinyTensor codes{"F8_E4M3", {n_out, n_in}, {}};
    for (std::size_t i = 0; i < n_out * n_in; ++i)
      append(codes.bytes, float_to_f8e4m3(100 * normal()));
    TinyTensor scales{"F32", {n_scale_rows, n_scale_cols}, {}};
    for (std::size_t i = 0; i < n_scale_rows * n_scale_cols; ++i) {
      append(scales.bytes, deviation / 100 * (1 + 0.2F * std::abs(normal())));
    }
    glm_.tensors[weight] = std::move(codes);
    glm_.tensors[weight + "_scale_inv"] = std::move(scales);
  }

  template <typename T>
  static void append(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  const TinyGlmOptions& options_;
  TinyGlm& glm_;
  std::mt19937 rng_;
};

std::string quoted_list(const std::string& letters, const std::map<char, std::string>& words) {
  std::vector<std::string> items;
  for (const char letter : letters) items.push_back('"' + words.at(letter) + '"');
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::map<std::string, std::string> make_config(const TinyGlmOptions& options) {
  const std::size_t n_layers = options.indexer_types.size();
  std::map<std::string, std::string> config{
      {"model_type", "\"glm_moe_dsa\""},
      {"hidden_act", "\"silu\""},
      {"attention_bias", "false"},
      {"rope_interleave", "true"},
      {"indexer_rope_interleave", "true"},
      {"scoring_func", "\"sigmoid\""},
      {"topk_method", "\"noaux_tc\""},
      {"norm_topk_prob", "true"},
      {"routed_scaling_factor", "2.5"},
      {"rms_norm_eps", "1e-5"},
      {"rope_parameters", R"({"rope_theta": 10000.0, "rope_type": "default"})"},
      {"head_dim", "999"},
      {"index_share_for_mtp_iteration", "true"},
      {"eos_token_id", "[3, 5]"},
      {"indexer_types", quoted_list(options.indexer_types, {{'F', "full"}, {'S', "shared"}})}};
  const std::map<std::string, std::size_t> numbers{{"num_hidden_layers", n_layers},
                                                   {"hidden_size", kTinyWidth},
                                                   {"vocab_size", kTinyVocab},
                                                   {"max_position_embeddings", kTinyContext},
                                                   {"num_attention_heads", options.n_heads},
                                                   {"q_lora_rank", kQueryRank},
                                                   {"kv_lora_rank", kLatent},
                                                   {"qk_nope_head_dim", kNope},
                                                   {"qk_rope_head_dim", kRope},
                                                   {"qk_head_dim", kNope + kRope},
                                                   {"v_head_dim", kValue},
                                                   {"index_n_heads", kIndexHeads},
                                                   {"index_head_dim", kIndexDim},
                                                   {"index_topk", options.index_topk},
                                                   {"first_k_dense_replace", options.n_dense},
                                                   {"intermediate_size", kDenseWidth},
                                                   {"moe_intermediate_size", kExpertWidth},
                                                   {"n_routed_experts", kExperts},
                                                   {"num_experts_per_tok", kActive},
                                                   {"n_shared_experts", options.n_shared_experts},
                                                   {"n_group", options.n_groups},
                                                   {"topk_group", options.n_kept_groups}};
  for (const auto& [key, value] : numbers) config[key] = std::to_string(value);
  std::string kinds(std::min(options.n_dense, n_layers), 'D');
  kinds.resize(n_layers, 'S');
  config["mlp_layer_types"] = quoted_list(kinds, {{'D', "dense"}, {'S', "sparse"}});
  if (options.format == TinyFormat::kFp8) {
    config["quantization_config"] = fmt::format(
        R"({{"quant_method": "fp8", "weight_block_size": [{0}, {0}]}})", options.fp8_block);
  }
  return config;
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

std::string TinyGlm::config_json() const {
  std::vector<std::string> members;
  for (const auto& [key, value] : config) members.push_back(fmt::format("\"{}\": {}", key, value));
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

void TinyGlm::write(const std::filesystem::path& folder) const {
  std::vector<std::string> members;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    members.push_back(
        fmt::format(R"("{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})",
                    name,
                    tensor.dtype,
                    fmt::join(tensor.shape, ", "),
                    data.size(),
                    data.size() + tensor.bytes.size()));
    data += tensor.bytes;
  }
  const std::string header = fmt::format("{{{}}}", fmt::join(members, ", "));
  const std::uint64_t n = header.size();
  std::string length(sizeof n, '\0');
  std::memcpy(length.data(), &n, sizeof n);
  std::filesystem::create_directories(folder);
  write_file(folder / "config.json", config_json());
  write_file(folder / "model.safetensors", length + header + data);
}

TinyGlm make_tiny_glm(const TinyGlmOptions& options) {
  TinyGlm glm;
  glm.config = make_config(options);
  Writer writer(options, glm);
  const std::size_t n_layers = options.indexer_types.size();
  writer.values("model.embed_tokens.weight", {kTinyVocab, kTinyWidth}, 0, 1);
  for (std::size_t i = 0; i < n_layers; ++i) {
    writer.layer(i, options.indexer_types[i] == 'F', i >= options.n_dense);
  }
  writer.norm("model.norm", kTinyWidth);
  writer.values("lm_head.weight", {kTinyVocab, kTinyWidth}, 0, 0.4F);
  if (options.has_draft_layer) {
    writer.layer(n_layers, true, n_layers >= options.n_dense);
    const std::string p = fmt::format("model.layers.{}.", n_layers);
    writer.norm(p + "enorm", kTinyWidth);
    writer.norm(p + "hnorm", kTinyWidth);
    writer.values(p + "eh_proj.weight", {kTinyWidth, 2 * kTinyWidth}, 0, 0.15F);
    writer.norm(p + "shared_head.norm", kTinyWidth);
  }
  return glm;
}

}  // namespace ft::testing
