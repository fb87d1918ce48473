#include "experts/routing_memory.h"
#include "models/glm_layer.h"
#include "models/glm_weights.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ft::models {
namespace {

/// f32 values per row that a forward's scratch holds at once: GlmWorkspace, GlmLayerScratch.
std::uint64_t row_values(const GlmConfig& config) {
  const nn::LatentAttentionShape& a = config.attention;
  const std::uint64_t d = config.d_model;
  std::uint64_t n = 3 * d;  // residual, normed, final norm
  n += a.key_dim() + 2 * a.q_rank + a.rope_dim;
  n += a.n_heads * (a.query_dim() + a.key_dim() + a.latent_dim + a.value_dim);
  if (config.indexer) {
    n += (config.indexer->n_heads + 1) * config.indexer->head_dim + config.indexer->n_heads;
    n += config.indexer->top_k;  // positions, i32
  }
  std::uint64_t feed_forward = config.dense_width;
  if (config.has_experts) {
    const std::uint64_t shared =
        config.n_shared_experts > 0 ? config.n_shared_experts * config.expert_width + d : 0;
    const std::uint64_t routed =
        config.router.n_active * (config.expert_width + d) + config.router.n_experts;
    feed_forward = std::max(feed_forward, shared + routed);
  }
  return n + feed_forward;
}

/// Values of inputs per row that one call rounds to 8 bits at most.
std::uint64_t rounded_values(const GlmConfig& config) {
  std::uint64_t n = std::max<std::uint64_t>(config.dense_width,
                                            config.attention.n_heads * config.attention.value_dim);
  // A layer's input serves all of its experts; what they make of it is theirs.
  n = std::max<std::uint64_t>(n, config.d_model);
  if (config.has_experts) {
    n = std::max<std::uint64_t>(
        n, (config.router.n_active + config.n_shared_experts) * config.expert_width);
  }
  return n;
}

ExpertNeeds expert_needs(const GlmConfig& config,
                         const checkpoint::Checkpoint& checkpoint,
                         const kernels::Backend& backend,
                         const WeightPlan& plan,
                         bool is_draft) {
  ExpertNeeds needs;
  needs.n_experts = config.router.n_experts;
  needs.n_active = config.router.n_active;
  bool is_panels = true;
  const auto counts = [&](const Packing& packing) {
    if (!packing.expert || (packing.belongs_to == WeightPart::kMtp) != is_draft) return false;
    is_panels &= packing.origin == Packing::Origin::kPanels;
    return true;
  };
  const WeightMemory memory = plan.memory(backend, counts);
  needs.packed_bytes = memory.packed_bytes;
  needs.stored_bytes = memory.packed_bytes + memory.mapped_bytes;
  needs.n_layers = is_draft ? std::size_t{needs.stored_bytes > 0}
                            : static_cast<std::size_t>(std::count(
                                  config.is_sparse.begin(), config.is_sparse.end(), true));
  if (checkpoint.container() == nullptr || !is_panels) return needs;
  for (const checkpoint::ExpertLayer& layer : checkpoint.container()->experts) {
    if ((layer.layer == config.n_layers) == is_draft) {
      needs.slot_bytes = std::max(needs.slot_bytes, layer.extent_bytes);
    }
  }
  return needs;
}

}  // namespace

MemoryNeeds glm_memory_needs(const GlmConfig& config,
                             checkpoint::Checkpoint& checkpoint,
                             const kernels::Backend& backend,
                             const MemoryUse& use) {
  GlmWeights weights;
  GlmInventory inventory = take_inventory(config, checkpoint, weights);
  WeightPlan& plan = inventory.plan;
  plan.census();
  checkpoint.map();
  if (use.draft_format) plan.quantize(WeightPart::kMtp, *use.draft_format);

  MemoryNeeds needs;
  const WeightMemory tables = plan.table_memory(backend);
  const WeightMemory others =
      plan.memory(backend, [](const Packing& packing) { return !packing.expert.has_value(); });
  needs.packed_bytes = tables.packed_bytes + others.packed_bytes;
  needs.mapped_bytes = tables.mapped_bytes + others.mapped_bytes;
  const bool drafts = weights.draft.has_value();
  if (drafts && use.draft_format && plan.is_made_of_elements(inventory.head_entry)) {
    QuantMatrix copy;
    copy.format = *use.draft_format;
    copy.scale_dtype = DType::kBF16;
    copy.n_rows = config.n_vocab;
    copy.n_cols = config.d_model;
    needs.packed_bytes += copy.code_bytes() + copy.scale_bytes();
  }
  if (config.has_experts) {
    needs.routing_bytes =
        experts::RoutingMemory::bytes_for(config.n_layers, config.router.n_active);
    needs.trunk = expert_needs(config, checkpoint, backend, plan, false);
    if (drafts && config.draft_layer_is_sparse) {
      needs.draft = expert_needs(config, checkpoint, backend, plan, true);
    }
  }
  const std::uint64_t positions = std::min(use.context, config.max_context);
  const auto cache_bytes = [&](const std::vector<bool>& has_indexer) {
    return positions * glm_cache_layout(config, has_indexer).position_bytes(use.kv_type);
  };
  needs.kv_bytes = cache_bytes(config.has_indexer);
  needs.workspace_bytes =
      backend.scratch_bytes(use.n_rows * rounded_values(config)) +
      sizeof(float) * (use.n_rows * row_values(config) + use.n_logits * config.n_vocab +
                       nn::score_values(use.n_rows, positions));
  if (drafts && use.drafts) {
    needs.draft_kv_bytes = cache_bytes({config.indexer.has_value()});
    // All rows leave their keys: joined input, layer input and its norm, keys. One gives a draft.
    needs.draft_workspace_bytes =
        sizeof(float) * (use.n_draft_rows * (5 * config.d_model + 2 * config.attention.key_dim()) +
                         row_values(config) + nn::score_values(1, positions) + config.n_vocab);
    needs.workspace_bytes += needs.draft_workspace_bytes;
  }
  return needs;
}

}  // namespace ft::models
