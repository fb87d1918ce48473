// The second half of a decoder layer: a SwiGLU network, alone (dense layers) or as routed experts
// plus a shared one.
#pragma once

#include "experts/expert_store.h"
#include "kernels/kernels.h"
#include "nn/compute.h"
#include "nn/router.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ft::nn {

using experts::Expert;

struct MoeWeights {
  RouterShape shape;
  kernels::Weight router;   // [n_experts, d_model]
  std::vector<float> bias;  // [n_experts], added for the choice only
  std::size_t expert_width = 0;
  experts::ExpertStore* store = nullptr;  // of the routed experts
  std::size_t layer = 0;                  // their place in it
  std::optional<Expert> shared;
};

/// The router of a later layer, asked early: much of what it will want can be told from the
/// residual before this layer's feed-forward.
struct RouterPreview {
  const MoeWeights* moe = nullptr;  // null: there is none
  std::span<const float> norm;      // [d_model], before that router
  float norm_eps = 0;
};

struct FeedForwardScratch {
  ScratchMatrix hidden;
  ScratchMatrix shared_hidden;
  ScratchMatrix outputs;
  ScratchMatrix shared_output;
  ScratchMatrix logits;
  ScratchMatrix weights;
  std::vector<std::uint32_t> experts;      // [n_rows * n_active] in rank order
  std::vector<std::uint32_t> slots;        // [n_rows * n_active]: row of `outputs`
  std::vector<std::uint32_t> slot_rows;    // [n_slots]: row of u
  std::vector<std::uint32_t> first_slots;  // [n_experts + 1]
  std::vector<std::uint32_t> chosen;       // the experts of any row, ascending
  ScratchMatrix preview_normed;
  ScratchMatrix preview_logits;
  std::vector<std::uint32_t> preview;  // [n_active * n_rows], best ranks first
  std::vector<kernels::SwigluOp> swiglu_ops;
  std::vector<kernels::MatmulOp> down_ops;
};

/// Tells the store what the layer of `next` will probably want, if there is one. x: [n_rows,
/// d_model].
void prefetch(Compute compute,
              const RouterPreview& next,
              ConstMatrix x,
              FeedForwardScratch& scratch);

/// x += D(silu(G u) * (U u)). u, x: [n_rows, d_model].
void dense_feed_forward(Compute compute,
                        const Expert& weights,
                        ConstMatrix u,
                        MutableMatrix x,
                        FeedForwardScratch& scratch);

/// x += sum of the routed experts in rank order, the shared expert last. u, x: [n_rows, d_model].
/// The rows of an expert are gathered, so each expert is read once per call; every row's sum is its
/// own, whatever the other rows chose, wherever the experts were. `next`: prefetch() for this one,
/// once this layer's own reads have begun. Throws IoError if an expert cannot be read,
/// Cancelled.
void moe_feed_forward(Compute compute,
                      const MoeWeights& weights,
                      ConstMatrix u,
                      MutableMatrix x,
                      const RouterPreview& next,
                      FeedForwardScratch& scratch);

}  // namespace ft::nn
