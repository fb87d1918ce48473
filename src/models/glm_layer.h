// One decoder layer of the GLM-5 family, as the trunk and the next-token head both run it.
#pragma once

#include "cache/latent_cache.h"
#include "models/glm_config.h"
#include "models/glm_weights.h"
#include "nn/compute.h"
#include "nn/feed_forward.h"
#include "nn/latent_attention.h"
#include "nn/rope.h"
#include "nn/selection.h"

#include <cstddef>
#include <span>
#include <vector>

namespace ft::models {

struct GlmLayerScratch {
  nn::ScratchMatrix normed;
  nn::AttentionScratch attention;
  nn::FeedForwardScratch feed_forward;
};

struct GlmLayerPass {
  const nn::Rows& rows;
  std::span<const nn::LatentKeys> caches;  // one per run
  std::size_t first_query = 0;             // rows before it leave only their keys
  nn::KeyChoice choice = nn::KeyChoice::kSelect;
  nn::Selection& selection;
  bool previews = false;  // of the next layer's experts
  MutableMatrix x;  // [rows.size(), d_model]; from first_query on it becomes the layer's output
};

/// h = x + attention(norm(x)); x = h + feed_forward(norm(h)).
void run_glm_layer(nn::Compute compute,
                   const GlmLayer& layer,
                   const GlmLayerPass& pass,
                   GlmLayerScratch& scratch);

/// The cache of a stack of such layers.
cache::LatentLayout glm_cache_layout(const GlmConfig& config, std::vector<bool> has_indexer);

/// A new cache. Throws InvalidInput if more positions are asked for than the model was trained for.
std::unique_ptr<cache::KvCache> new_glm_cache(const GlmConfig& config,
                                              std::vector<bool> has_indexer,
                                              const cache::CacheOptions& options);

/// `cache` as the type it must have, with room for n more positions. Throws InvalidInput if it is
/// full, LogicError if it is another model's.
cache::LatentCache& checked_glm_cache(cache::KvCache& cache,
                                      const cache::LatentLayout& layout,
                                      std::size_t n);

/// Throws InvalidInput unless all ids are below n_vocab.
void check_tokens(TokenSpan tokens, std::size_t n_vocab);

}  // namespace ft::models
