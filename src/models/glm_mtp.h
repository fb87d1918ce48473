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

#include <cstddef>
#include <memory>
#include <span>

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
  std::span<const DraftStep> step(std::span<const DraftSlice> slices,
                                  Workspace& workspace) const override;
  bool wants_prompt() const noexcept override { return !compat_.draft_starts_cold; }

 private:
  struct Scratch;

  static void clear(Scratch& scratch);
  /// Checks the slices and lays out their rows, the last one of each behind all others. Whether
  /// their index sets are given.
  bool lay_out(std::span<const DraftSlice> slices, Scratch& scratch) const;
  /// Lays out a part of a slice's rows: consecutive ones, behind those of the parts before.
  void add_rows(const DraftSlice& slice,
                std::size_t begin,
                std::size_t end,
                Scratch& scratch) const;
  /// Runs the layer over the rows laid out, those before first_query on the key side only. Returns
  /// the layer's rows.
  MutableMatrix run(std::size_t first_query, nn::KeyChoice choice, Scratch& scratch) const;
  void join_inputs(Scratch& scratch) const;

  const GlmConfig& config_;
  const GlmWeights& weights_;
  const nn::RotaryTable& rotary_;
  nn::Compute compute_;
  Compat compat_;
  cache::LatentLayout layout_;
};

}  // namespace ft::models
