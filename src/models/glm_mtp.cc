#include "models/glm_mtp.h"

#include "base/error.h"
#include "cache/latent_cache.h"
#include "models/glm_layer.h"
#include "nn/embedding.h"
#include "nn/selection.h"

#include <array>
#include <vector>

namespace ft::models {

struct GlmDraftHead::Scratch final : Workspace {
  nn::Rows rows;
  nn::Selection selection;
  nn::ScratchMatrix joined;
  nn::ScratchMatrix x;
  nn::ScratchMatrix normed;
  nn::ScratchMatrix logits;
  GlmLayerScratch layer;
};

GlmDraftHead::GlmDraftHead(const GlmConfig& config,
                           const GlmWeights& weights,
                           const nn::RotaryTable& rotary,
                           nn::Compute compute,
                           const Compat& compat)
    : config_(config),
      weights_(weights),
      rotary_(rotary),
      compute_(compute),
      compat_(compat),
      layout_(glm_cache_layout(config, {config.indexer.has_value()})) {
  FT_CHECK(weights_.draft.has_value());
}

std::unique_ptr<cache::KvCache> GlmDraftHead::new_cache(const cache::CacheOptions& options) const {
  return new_glm_cache(config_, layout_.has_index_keys, options);
}

std::unique_ptr<Workspace> GlmDraftHead::new_workspace() const {
  return std::make_unique<Scratch>();
}

MutableMatrix GlmDraftHead::run(cache::LatentCache& cache,
                                ConstMatrix hidden,
                                TokenSpan next_tokens,
                                std::size_t first_query,
                                const IndexSets* fixed,
                                Scratch& s) const {
  const nn::Compute compute{compute_.backend, compute_.pool, s.meter(), &s.stop()};
  const GlmDraftLayer& draft = *weights_.draft;
  const std::size_t n = next_tokens.size();
  const std::size_t d = config_.d_model;
  const nn::Run run{.first_row = 0, .n_rows = n, .first_position = cache.length()};
  s.rows.assign(compute_, {&run, 1}, rotary_);
  s.selection.reset(s.rows, first_query);
  if (fixed != nullptr) s.selection.fix(0, fixed->positions);

  // The embedding's half comes first.
  const MutableMatrix joined = s.joined.shape(n, 2 * d);
  const MutableMatrix embedded = nn::columns_of(joined, 0, d);
  nn::embed(weights_.embedding, next_tokens, embedded);
  const float eps = draft.layer.norm_eps;
  compute_.backend.rms_norm(embedded, embedded, draft.embedding_norm, eps);
  compute_.backend.rms_norm(nn::columns_of(joined, d, d), hidden, draft.hidden_norm, eps);
  const MutableMatrix x = s.x.shape(n, d);
  const kernels::MatmulOp projection = nn::linear(x, joined, draft.projection);
  compute.matmul({&projection, 1});

  const std::array keys{nn::LatentKeys{cache.keys(0), cache.index_keys(0), cache.dtype()}};
  run_glm_layer(compute,
                draft.layer,
                {.rows = s.rows,
                 .caches = keys,
                 .first_query = first_query,
                 .choice = fixed != nullptr ? nn::KeyChoice::kReuse : nn::KeyChoice::kSelect,
                 .selection = s.selection,
                 .x = x},
                s.layer);
  return x;
}

void GlmDraftHead::append(cache::KvCache& cache,
                          ConstMatrix hidden,
                          TokenSpan next_tokens,
                          Workspace& workspace) const {
  const std::size_t n = next_tokens.size();
  FT_CHECK(hidden.n_rows == n && hidden.n_cols == config_.d_model);
  cache::LatentCache& latent = checked_glm_cache(cache, layout_, n);
  check_tokens(next_tokens, config_.n_vocab);
  if (n == 0) return;
  run(latent, hidden, next_tokens, n, nullptr, dynamic_cast<Scratch&>(workspace));
  latent.append(n);
}

DraftStep GlmDraftHead::step(cache::KvCache& cache,
                             ConstMatrix hidden,
                             TokenSpan next_tokens,
                             IndexSets& sets,
                             Workspace& workspace) const {
  const std::size_t n = next_tokens.size();
  FT_CHECK(n >= 1 && hidden.n_rows == n && hidden.n_cols == config_.d_model);
  cache::LatentCache& latent = checked_glm_cache(cache, layout_, n);
  check_tokens(next_tokens, config_.n_vocab);
  auto& s = dynamic_cast<Scratch&>(workspace);
  const bool shares = config_.drafts_share_selection;
  const bool is_fixed = shares && sets.is_set;
  const MutableMatrix x =
      nn::rows_of(run(latent, hidden, next_tokens, n - 1, is_fixed ? &sets : nullptr, s), n - 1, 1);

  const MutableMatrix normed = s.normed.shape(1, config_.d_model);
  compute_.backend.rms_norm(normed, x, weights_.draft->norm, weights_.draft->layer.norm_eps);
  const MutableMatrix logits = s.logits.shape(1, config_.n_vocab);
  const kernels::MatmulOp head = nn::linear(logits, normed, weights_.draft->head);
  nn::Compute{compute_.backend, compute_.pool, s.meter(), &s.stop()}.matmul({&head, 1});
  if (shares && !sets.is_set) {
    s.selection.positions(0, sets.positions);
    sets.is_set = true;
  }
  latent.append(n);
  return {.logits = logits.row(0),
          .hidden = compat_.draft_chains_raw ? x.row(0) : normed.row(0),
          .is_finite = nn::all_finite(x) && nn::all_finite(logits)};
}

}  // namespace ft::models
