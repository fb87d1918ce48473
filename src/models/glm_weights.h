// The weights of the GLM-5 family in the form its forward uses, and where in a checkpoint they lie.
#pragma once

#include "base/buffer.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "models/glm_config.h"
#include "models/memory_needs.h"
#include "models/model.h"
#include "models/weight_plan.h"
#include "nn/embedding.h"
#include "nn/feed_forward.h"
#include "nn/latent_attention.h"
#include "tensor/formats/quantized_copy.h"

#include <optional>
#include <string>
#include <vector>

namespace ft::models {

struct GlmLayer {
  std::vector<float> input_norm;      // [d_model]
  std::vector<float> attention_norm;  // [d_model], post_attention_layernorm
  float norm_eps = 0;
  nn::LatentAttentionWeights attention;
  std::optional<nn::Expert> dense;  // or moe
  std::optional<nn::MoeWeights> moe;
  nn::RouterPreview next;  // of the layer behind this one, if that has experts
};

/// The next-token layer: h' = layer(W [norm(embedding) | norm(hidden)]).
struct GlmDraftLayer {
  std::vector<float> embedding_norm;  // enorm [d_model]
  std::vector<float> hidden_norm;     // hnorm [d_model]
  kernels::Weight projection;         // eh_proj [d_model, 2 * d_model]
  GlmLayer layer;
  std::vector<float> norm;  // shared_head.norm [d_model]
  kernels::Weight head;     // [n_vocab, d_model]: the trunk's, or a view of the copy
  std::optional<QuantizedCopy> head_copy;
};

struct GlmWeights {
  nn::EmbeddingTable embedding;  // [n_vocab, d_model]
  std::vector<GlmLayer> layers;
  std::vector<float> norm;             // [d_model]
  kernels::Weight head;                // [n_vocab, d_model]
  std::optional<GlmDraftLayer> draft;  // only if the checkpoint has all of it
  /// Routed experts of layer i, the next-token layer behind the trunk's; until they move into a
  /// store.
  std::vector<std::vector<experts::Expert>> experts;
  Buffer packed;  // what the weights point into
};

/// What a checkpoint holds for a config: the plan to load it and its description.
struct GlmInventory {
  WeightPlan plan;
  std::string head_name;    // the tensor that the output head is made of
  std::string head_entry;   // the head as a weight of the plan
  ModelConfig description;  // all but weights_hash
};

/// Declares every weight with its destination in `weights`, whose vectors get their sizes here and
/// must stay in place until plan.load(). Nothing is mapped or checked. Without a complete
/// next-token layer weights.draft stays empty and description.draft_head_absence says why.
/// `checkpoint` and `weights` must outlive the result.
GlmInventory take_inventory(const GlmConfig& config,
                            const checkpoint::Checkpoint& checkpoint,
                            GlmWeights& weights);

/// See memory_needs().
MemoryNeeds glm_memory_needs(const GlmConfig& config,
                             checkpoint::Checkpoint& checkpoint,
                             const kernels::Backend& backend,
                             const MemoryUse& use);

}  // namespace ft::models
