// A family's own next-token head (MTP). Shares the model's weights; used by the generic draft
// source `mtp`.
#pragma once

#include "base/types.h"
#include "cache/kv_cache.h"
#include "models/workspace.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ft::models {

/// The attention set of a draft chain's first step, carried to the later ones. Cleared by the
/// caller at the start of a chain; only the head reads it.
struct IndexSets {
  std::vector<std::int32_t> positions;
  bool is_set = false;
};

/// One sequence's rows of a step.
struct DraftSlice {
  cache::KvCache* cache = nullptr;  // made by the same head's new_cache
  ConstMatrix hidden;               // [n, d_model] f32, n >= 1
  TokenSpan next_tokens;            // n
  IndexSets* sets = nullptr;        // of its chain
};

/// Views into the workspace; they die at its next use.
struct DraftStep {
  std::span<const float> logits;  // [n_vocab] f32
  std::span<const float> hidden;  // [d_model] f32: the state to chain into the next step
  bool is_finite = true;          // false: neither may be used; the rows are appended all the same
};

/// Row t pairs the trunk's hidden t (after the final norm: tap n_layers) with token t + 1 and
/// predicts token t + 2. Rows are appended in order and sit where the cache ends: where some are
/// left out, those before seem nearer. The cache is the head's own.
class DraftHead {
 public:
  virtual ~DraftHead() = default;
  virtual std::unique_ptr<cache::KvCache> new_cache(const cache::CacheOptions& options) const = 0;
  virtual std::unique_ptr<Workspace> new_workspace() const = 0;

  /// Appends history rows: hidden [n, d_model] f32 with the NEXT token of each. Key side only: no
  /// attention, no experts, no head. Same cache contents as step() would have left. Throws
  /// InvalidInput if the cache is full.
  virtual void append(cache::KvCache& cache,
                      ConstMatrix hidden,
                      TokenSpan next_tokens,
                      Workspace& workspace) const = 0;

  /// append() of every slice's rows, and its last one in full: the logits and the state to chain,
  /// one entry per slice. All rows go in one batched pass (a ragged batch); what becomes of a slice
  /// does not depend on the others. No two slices are of one cache, and either all chains are at
  /// their first step or none is: with index sharing between draft steps the first one of a chain
  /// fills its sets, later ones obey them. If it throws, any of the rows may be in the caches.
  virtual std::span<const DraftStep> step(std::span<const DraftSlice> slices,
                                          Workspace& workspace) const = 0;

  /// Whether history rows of the prompt are wanted (false only under Compat::draft_starts_cold).
  virtual bool wants_prompt() const noexcept = 0;
};

}  // namespace ft::models
