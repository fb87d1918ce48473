#include "models/glm_weights.h"

#include <algorithm>
#include <utility>

namespace ft::models {
namespace {

using Orientation = MatrixPart::Orientation;

bool has_tensor(const checkpoint::Checkpoint& checkpoint, const std::string& name) {
  return checkpoint.find(name) != nullptr || checkpoint.find_panels(name) != nullptr ||
         checkpoint.find_foreign(name) != nullptr;
}

constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
constexpr const char* kHeadName = "lm_head.weight";

/// Declares the weights of one layer; names are the Hugging Face checkpoint's.
class LayerDeclaration {
 public:
  LayerDeclaration(const GlmConfig& config,
                   std::size_t layer,
                   std::vector<experts::Expert>& experts,
                   WeightPlan& plan)
      : config_(config),
        layer_(layer),
        prefix_("model.layers." + std::to_string(layer) + "."),
        experts_(experts),
        plan_(plan) {}

  void layer(bool has_indexer, bool is_sparse, GlmLayer& layer) {
    const std::size_t d = config_.d_model;
    layer.norm_eps = config_.attention.norm_eps;
    plan_.vector(prefix_ + "input_layernorm.weight", d, layer.input_norm);
    plan_.vector(prefix_ + "post_attention_layernorm.weight", d, layer.attention_norm);
    attention(layer.attention);
    if (has_indexer) indexer(layer.attention.indexer.emplace());
    if (is_sparse) {
      moe(layer.moe.emplace());
    } else {
      expert(prefix_ + "mlp.", config_.dense_width, layer.dense.emplace());
    }
  }

  void draft(GlmDraftLayer& draft) {
    const std::size_t d = config_.d_model;
    plan_.vector(prefix_ + "enorm.weight", d, draft.embedding_norm);
    plan_.vector(prefix_ + "hnorm.weight", d, draft.hidden_norm);
    plan_.matrix(prefix_ + "eh_proj.weight", d, 2 * d, MatrixUse::kSensitive, draft.projection);
    plan_.vector(prefix_ + "shared_head.norm.weight", d, draft.norm);
    layer(config_.indexer.has_value(), config_.draft_layer_is_sparse, draft.layer);
  }

 private:
  void attention(nn::LatentAttentionWeights& w) {
    const nn::LatentAttentionShape& s = w.shape = config_.attention;
    const std::string p = prefix_ + "self_attn.";
    // Rounding what these are multiplied with was measured to hurt (docs/model.md, section 8.1).
    constexpr MatrixUse kUse = MatrixUse::kFloatInputs;
    projection(p + "q_a_proj", s.q_rank, s.d_model, kUse, w.q_a);
    plan_.vector(p + "q_a_layernorm.weight", s.q_rank, w.q_norm);
    projection(p + "q_b_proj", s.n_heads * s.query_dim(), s.q_rank, kUse, w.q_b);
    projection(p + "kv_a_proj_with_mqa", s.key_dim(), s.d_model, kUse, w.kv_a);
    plan_.vector(p + "kv_a_layernorm.weight", s.latent_dim, w.kv_norm);
    projection(p + "o_proj", s.d_model, s.n_heads * s.value_dim, MatrixUse::kRoundedInputs, w.out);
    // Per head W_UK, used transposed on the query's side, then W_UV.
    w.key_up.resize(s.n_heads);
    w.value_up.resize(s.n_heads);
    std::vector<MatrixPart> parts;
    for (std::size_t h = 0; h < s.n_heads; ++h) {
      const std::size_t row = h * (s.nope_dim + s.value_dim);
      const std::string head = p + "kv_b_proj.head_" + std::to_string(h);
      parts.push_back({head + ".key_up", row, s.nope_dim, Orientation::kTransposed, &w.key_up[h]});
      parts.push_back({head + ".value_up",
                       row + s.nope_dim,
                       s.value_dim,
                       Orientation::kAsStored,
                       &w.value_up[h]});
    }
    plan_.parts(
        p + "kv_b_proj.weight", s.n_heads * (s.nope_dim + s.value_dim), s.latent_dim, kUse, parts);
  }

  void indexer(nn::IndexerWeights& w) {
    w.shape = *config_.indexer;
    const std::string p = prefix_ + "self_attn.indexer.";
    constexpr MatrixUse kUse = MatrixUse::kSensitive;
    const std::size_t n_query = w.shape.n_heads * w.shape.head_dim;
    projection(p + "wq_b", n_query, config_.attention.q_rank, kUse, w.query);
    projection(p + "wk", w.shape.head_dim, config_.d_model, kUse, w.key);
    plan_.matrix(
        p + "weights_proj.weight", w.shape.n_heads, config_.d_model, MatrixUse::kExact, w.gate);
    plan_.vector(p + "k_norm.weight", w.shape.head_dim, w.key_norm);
    plan_.vector(p + "k_norm.bias", w.shape.head_dim, w.key_bias);
  }

  void moe(nn::MoeWeights& w) {
    const std::string p = prefix_ + "mlp.";
    w.shape = config_.router;
    plan_.matrix(
        p + "gate.weight", w.shape.n_experts, config_.d_model, MatrixUse::kExact, w.router);
    plan_.vector(p + "gate.e_score_correction_bias", w.shape.n_experts, w.bias);
    if (config_.n_shared_experts > 0) {
      expert(p + "shared_experts.",
             config_.n_shared_experts * config_.expert_width,
             w.shared.emplace());
    }
    w.layer = layer_;
    w.expert_width = config_.expert_width;
    experts_.resize(w.shape.n_experts);
    const WeightPart around = plan_.part();
    if (around == WeightPart::kDense) plan_.set_part(WeightPart::kExperts);
    for (std::size_t e = 0; e < experts_.size(); ++e) {
      plan_.set_expert(ExpertPlace{layer_, e});
      expert(p + "experts." + std::to_string(e) + ".", config_.expert_width, experts_[e]);
    }
    plan_.set_expert(std::nullopt);
    plan_.set_part(around);
  }

  void expert(const std::string& p, std::size_t width, nn::Expert& w) {
    constexpr MatrixUse kUse = MatrixUse::kRoundedInputs;
    plan_.gate_up(p, width, config_.d_model, kUse, w.gate_up);
    projection(p + "down_proj", config_.d_model, width, kUse, w.down);
  }

  void projection(const std::string& name,
                  std::size_t n_out,
                  std::size_t n_in,
                  MatrixUse use,
                  kernels::Weight& w) {
    plan_.matrix(name + ".weight", n_out, n_in, use, w);
  }

  const GlmConfig& config_;
  std::size_t layer_;
  std::string prefix_;
  std::vector<experts::Expert>& experts_;
  WeightPlan& plan_;
};

WeightPlan declare_trunk(const GlmConfig& config,
                         const checkpoint::Checkpoint& checkpoint,
                         GlmWeights& weights) {
  WeightPlan plan(checkpoint, config.block_rows, config.block_cols);
  plan.table(kEmbeddingName, config.n_vocab, config.d_model, weights.embedding);
  weights.layers.resize(config.n_layers);
  weights.experts.resize(config.n_layers + 1);
  for (std::size_t i = 0; i < config.n_layers; ++i) {
    LayerDeclaration(config, i, weights.experts[i], plan)
        .layer(config.has_indexer[i], config.is_sparse[i], weights.layers[i]);
  }
  plan.vector("model.norm.weight", config.d_model, weights.norm);
  plan.set_part(WeightPart::kHead);
  constexpr MatrixUse kUse = MatrixUse::kRoundedInputs;
  if (config.ties_head) {
    const MatrixPart head{kHeadName, 0, config.n_vocab, Orientation::kAsStored, &weights.head};
    plan.also_packed(kEmbeddingName, config.n_vocab, config.d_model, head, kUse);
  } else {
    plan.matrix(kHeadName, config.n_vocab, config.d_model, kUse, weights.head);
  }
  return plan;
}

}  // namespace

GlmInventory take_inventory(const GlmConfig& config,
                            const checkpoint::Checkpoint& checkpoint,
                            GlmWeights& weights) {
  GlmInventory inventory{declare_trunk(config, checkpoint, weights),
                         config.ties_head ? kEmbeddingName : kHeadName,
                         kHeadName,
                         {}};
  ModelConfig& description = inventory.description;
  description.family = "glm_moe_dsa";
  description.n_layers = config.n_layers;
  description.d_model = config.d_model;
  description.n_vocab = config.n_vocab;
  const bool is_moe =
      std::find(config.is_sparse.begin(), config.is_sparse.end(), true) != config.is_sparse.end();
  description.n_experts = is_moe ? config.router.n_experts : 0;
  description.n_active = is_moe ? config.router.n_active : 0;
  description.max_context = config.max_context;
  description.eos_tokens = config.eos_tokens;
  description.weight_format = inventory.plan.format();
  const WeightTotals trunk = inventory.plan.totals();
  description.n_parameters = trunk.n_parameters;
  description.dense_bytes = trunk.dense_bytes;
  description.expert_bytes = trunk.expert_bytes;

  // The config's num_nextn_predict_layers promises nothing: many files were cut behind the trunk.
  // Tensors decide.
  const std::string prefix = "model.layers." + std::to_string(config.n_layers) + ".";
  if (!has_tensor(checkpoint, prefix + "eh_proj.weight")) {
    description.draft_head_absence =
        "the checkpoint has no next-token layer (no " + prefix + "eh_proj.weight)";
    return inventory;
  }
  if (config.draft_layer_is_sparse ? !config.has_experts : config.dense_width == 0) {
    description.draft_head_absence =
        "config.json has no widths for the next-token layer's feed-forward";
    return inventory;
  }
  WeightPlan draft_plan(checkpoint, config.block_rows, config.block_cols);
  draft_plan.set_part(WeightPart::kMtp);
  LayerDeclaration(config, config.n_layers, weights.experts.back(), draft_plan)
      .draft(weights.draft.emplace());
  if (const std::vector<std::string> missing = draft_plan.missing(); !missing.empty()) {
    weights.draft.reset();
    weights.experts.back().clear();
    description.draft_head_absence =
        "the next-token layer is incomplete: " + missing.front() + " is missing" +
        (missing.size() > 1 ? ", with " + std::to_string(missing.size() - 1) + " more" : "");
    return inventory;
  }
  const WeightTotals draft = draft_plan.totals();
  description.n_parameters += draft.n_parameters;
  description.draft_head_bytes = draft.dense_bytes + draft.expert_bytes;
  inventory.plan.merge(std::move(draft_plan));
  return inventory;
}

}  // namespace ft::models
