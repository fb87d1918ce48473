#include "models/glm_layer.h"

#include "base/error.h"

#include <memory>
#include <utility>

namespace ft::models {

void run_glm_layer(nn::Compute compute,
                   const GlmLayer& layer,
                   const GlmLayerPass& pass,
                   GlmLayerScratch& scratch) {
  kernels::Backend& backend = compute.backend;
  const MutableMatrix u = scratch.normed.shape(pass.x.n_rows, pass.x.n_cols);
  backend.rms_norm(u, pass.x, layer.input_norm, layer.norm_eps);
  const std::size_t n_queries = pass.rows.size() - pass.first_query;
  const MutableMatrix x = nn::rows_of(pass.x, pass.first_query, n_queries);
  nn::latent_attention(compute,
                       layer.attention,
                       {.rows = pass.rows,
                        .caches = pass.caches,
                        .u = u,
                        .first_query = pass.first_query,
                        .choice = pass.choice,
                        .selection = pass.selection,
                        .x = x},
                       scratch.attention);
  if (n_queries == 0) return;
  const MutableMatrix u2 = nn::rows_of(u, pass.first_query, n_queries);
  backend.rms_norm(u2, x, layer.attention_norm, layer.norm_eps);
  const nn::RouterPreview next = pass.previews ? layer.next : nn::RouterPreview{};
  if (layer.moe) {
    nn::moe_feed_forward(compute, *layer.moe, u2, x, next, scratch.feed_forward);
  } else {
    nn::prefetch(compute, next, x, scratch.feed_forward);
    nn::dense_feed_forward(compute, *layer.dense, u2, x, scratch.feed_forward);
  }
}

cache::LatentLayout glm_cache_layout(const GlmConfig& config, std::vector<bool> has_indexer) {
  return {.key_dim = config.attention.key_dim(),
          .index_dim = config.indexer ? config.indexer->head_dim : 0,
          .has_index_keys = std::move(has_indexer)};
}

std::unique_ptr<cache::KvCache> new_glm_cache(const GlmConfig& config,
                                              std::vector<bool> has_indexer,
                                              const cache::CacheOptions& options) {
  if (options.max_tokens > config.max_context) {
    fail("model: a context of {} tokens is asked for, but the model was trained for {} at most",
         options.max_tokens,
         config.max_context);
  }
  return std::make_unique<cache::LatentCache>(glm_cache_layout(config, std::move(has_indexer)),
                                              options);
}

cache::LatentCache& checked_glm_cache(cache::KvCache& cache,
                                      const cache::LatentLayout& layout,
                                      std::size_t n) {
  auto* latent = dynamic_cast<cache::LatentCache*>(&cache);
  FT_CHECK(latent != nullptr && latent->layout() == layout);
  if (n > latent->max_tokens() - latent->length()) {
    fail("model: the context is full: {} of {} positions are used, {} more do not fit",
         latent->length(),
         latent->max_tokens(),
         n);
  }
  return *latent;
}

void check_tokens(TokenSpan tokens, std::size_t n_vocab) {
  for (const Token token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= n_vocab) {
      fail("model: token id {} is outside the vocabulary of {} tokens", token, n_vocab);
    }
  }
}

}  // namespace ft::models
