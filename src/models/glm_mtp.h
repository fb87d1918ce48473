// The GLM-5 family's next-token head: one sparse layer with its own cache and indexer, applied
// again and again. Made by glm_moe_dsa.cc; docs/model.md section 5.9 has the mathematics.
#pragma once

#include "cache/latent_cache.h"
#include "models/draft_head.h"
#include "models/glm_config.h"
#include "models/glm_weights.h"
#include "models/model.h"
#include "nn/compute.h"
#include "nn/rope.h"

#include <memory>

namespace ft::models {

class GlmDraftHead final : public DraftHead {
 public:
  /// Everything must outlive the head; weights.draft is set.
  GlmDraftHead(const GlmConfig& config,
               const GlmWeights& weights,
               const nn::RotaryTable& rotary,
               nn::Compute compute,
               const Compat& compat);

  std::unique_ptr<cache::KvCache> new_cache(const cache::CacheOptions& options) const override;
  std::unique_ptr<Workspace> new_workspace() const override;
  void append(cache::KvCache& cache,
              ConstMatrix hidden,
              TokenSpan next_tokens,
              Workspace& workspace) const override;
  DraftStep step(cache::KvCache& cache,
                 ConstMatrix hidden,
                 TokenSpan next_tokens,
                 IndexSets& sets,
                 Workspace& workspace) const override;
  bool wants_prompt() const noexcept override { return !compat_.draft_starts_cold; }

 private:
  struct Scratch;

  /// Runs the layer over all rows, those before first_query on the key side only. Returns the
  /// layer's rows.
  MutableMatrix run(cache::LatentCache& cache,
                    ConstMatrix hidden,
                    TokenSpan next_tokens,
                    std::size_t first_query,
                    const IndexSets* fixed,
                    Scratch& scratch) const;

  const GlmConfig& config_;
  const GlmWeights& weights_;
  const nn::RotaryTable& rotary_;
  nn::Compute compute_;
  Compat compat_;
  cache::LatentLayout layout_;
};

}  // namespace ft::models
