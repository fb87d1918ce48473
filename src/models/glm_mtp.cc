#include "models/glm_mtp.h"

#include "base/error.h"
#include "cache/latent_cache.h"
#include "models/glm_layer.h"
#include "nn/embedding.h"
#include "nn/selection.h"

#include <algorithm>
#include <vector>

namespace ft::models {

struct GlmDraftHead::Scratch final : Workspace {
  /// Consecutive rows of one sequence.
  struct Part {
    cache::LatentCache* cache = nullptr;
    ConstMatrix hidden;
    TokenSpan next_tokens;
  };
  std::vector<Part> parts;
  std::vector<nn::Run> runs;           // one per part
  std::vector<nn::LatentKeys> caches;  // one per part
  nn::Rows rows;
  nn::Selection selection;
  nn::ScratchMatrix joined;
  nn::ScratchMatrix x;
  nn::ScratchMatrix normed;
  nn::ScratchMatrix logits;
  GlmLayerScratch layer;
  std::vector<DraftStep> steps;
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

void GlmDraftHead::clear(Scratch& s) {
  s.parts.clear();
  s.runs.clear();
  s.caches.clear();
}

void GlmDraftHead::add_rows(const DraftSlice& slice,
                            std::size_t begin,
                            std::size_t end,
                            Scratch& s) const {
  if (begin == end) return;
  auto& cache = dynamic_cast<cache::LatentCache&>(*slice.cache);
  const nn::Run last = s.runs.empty() ? nn::Run{} : s.runs.back();
  s.runs.push_back({.first_row = last.first_row + last.n_rows,
                    .n_rows = end - begin,
                    .first_position = cache.length() + begin});
  s.parts.push_back({&cache,
                     nn::rows_of(slice.hidden, begin, end - begin),
                     slice.next_tokens.subspan(begin, end - begin)});
  s.caches.push_back({cache.keys(0), cache.index_keys(0), cache.dtype()});
}

bool GlmDraftHead::lay_out(std::span<const DraftSlice> slices, Scratch& s) const {
  FT_CHECK(!slices.empty());
  const bool is_fixed = config_.drafts_share_selection && slices.front().sets->is_set;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const DraftSlice& slice = slices[i];
    const std::size_t n = slice.next_tokens.size();
    FT_CHECK(n >= 1 && slice.hidden.n_rows == n && slice.hidden.n_cols == config_.d_model);
    FT_CHECK(slice.sets->is_set == slices.front().sets->is_set || !config_.drafts_share_selection);
    FT_CHECK(std::none_of(slices.begin(),
                          slices.begin() + static_cast<std::ptrdiff_t>(i),
                          [&](const auto& other) { return other.cache == slice.cache; }));
    checked_glm_cache(*slice.cache, layout_, n);
    check_tokens(slice.next_tokens, config_.n_vocab);
  }
  clear(s);
  for (const DraftSlice& slice : slices) add_rows(slice, 0, slice.next_tokens.size() - 1, s);
  for (const DraftSlice& slice : slices)
    add_rows(slice, slice.next_tokens.size() - 1, slice.next_tokens.size(), s);
  s.rows.assign(compute_, s.runs, rotary_);
  s.selection.reset(s.rows, s.rows.size() - slices.size());
  for (std::size_t i = 0; is_fixed && i < slices.size(); ++i)
    s.selection.fix(i, slices[i].sets->positions);
  return is_fixed;
}

// The embedding's half comes first.
void GlmDraftHead::join_inputs(Scratch& s) const {
  const GlmDraftLayer& draft = *weights_.draft;
  const std::size_t d = config_.d_model;
  const MutableMatrix joined = s.joined.shape(s.rows.size(), 2 * d);
  const MutableMatrix embedded = nn::columns_of(joined, 0, d);
  const MutableMatrix normed = nn::columns_of(joined, d, d);
  const float eps = draft.layer.norm_eps;
  for (std::size_t i = 0; i < s.parts.size(); ++i) {
    const nn::Run& run = s.runs[i];
    nn::embed(weights_.embedding,
              s.parts[i].next_tokens,
              nn::rows_of(embedded, run.first_row, run.n_rows));
    compute_.backend.rms_norm(
        nn::rows_of(normed, run.first_row, run.n_rows), s.parts[i].hidden, draft.hidden_norm, eps);
  }
  compute_.backend.rms_norm(embedded, embedded, draft.embedding_norm, eps);
}

MutableMatrix GlmDraftHead::run(std::size_t first_query, nn::KeyChoice choice, Scratch& s) const {
  const nn::Compute compute{compute_.backend, compute_.pool, s.meter(), &s.stop()};
  const GlmDraftLayer& draft = *weights_.draft;
  join_inputs(s);
  const std::size_t n = s.rows.size();
  const MutableMatrix x = s.x.shape(n, config_.d_model);
  const kernels::MatmulOp projection =
      nn::linear(x, s.joined.shape(n, 2 * config_.d_model), draft.projection);
  compute.matmul({&projection, 1});
  run_glm_layer(compute,
                draft.layer,
                {.rows = s.rows,
                 .caches = s.caches,
                 .first_query = first_query,
                 .choice = choice,
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
  checked_glm_cache(cache, layout_, n);
  check_tokens(next_tokens, config_.n_vocab);
  if (n == 0) return;
  auto& s = dynamic_cast<Scratch&>(workspace);
  clear(s);
  add_rows({&cache, hidden, next_tokens, nullptr}, 0, n, s);
  s.rows.assign(compute_, s.runs, rotary_);
  s.selection.reset(s.rows, n);
  run(n, nn::KeyChoice::kSelect, s);
  s.parts.front().cache->append(n);
}

std::span<const DraftStep> GlmDraftHead::step(std::span<const DraftSlice> slices,
                                              Workspace& workspace) const {
  auto& s = dynamic_cast<Scratch&>(workspace);
  const bool is_fixed = lay_out(slices, s);
  const std::size_t first_query = s.rows.size() - slices.size();
  const MutableMatrix x =
      nn::rows_of(run(first_query, is_fixed ? nn::KeyChoice::kReuse : nn::KeyChoice::kSelect, s),
                  first_query,
                  slices.size());

  const MutableMatrix normed = s.normed.shape(slices.size(), config_.d_model);
  compute_.backend.rms_norm(normed, x, weights_.draft->norm, weights_.draft->layer.norm_eps);
  const MutableMatrix logits = s.logits.shape(slices.size(), config_.n_vocab);
  const kernels::MatmulOp head = nn::linear(logits, normed, weights_.draft->head);
  nn::Compute{compute_.backend, compute_.pool, s.meter(), &s.stop()}.matmul({&head, 1});
  s.steps.clear();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (config_.drafts_share_selection && !is_fixed) {
      s.selection.positions(i, slices[i].sets->positions);
      slices[i].sets->is_set = true;
    }
    s.parts[s.parts.size() - slices.size() + i].cache->append(slices[i].next_tokens.size());
    s.steps.push_back({.logits = logits.row(i),
                       .hidden = compat_.draft_chains_raw ? x.row(i) : normed.row(i),
                       .is_finite = nn::all_finite(nn::rows_of(x, i, 1)) &&
                                    nn::all_finite(nn::rows_of(logits, i, 1))});
  }
  return s.steps;
}

}  // namespace ft::models
