// The second half of a decoder layer: a SwiGLU network, alone (dense layers) or as routed experts
// plus a shared one.
#pragma once

#include "kernels/kernels.h"
#include "nn/compute.h"
#include "nn/router.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ft::nn {

/// D(silu(G u) * (U u)); gate and up are packed together.
struct Expert {
  kernels::Weight gate_up;  // [2 * width, d_model]
  kernels::Weight down;     // [d_model, width]
};

struct MoeWeights {
  RouterShape shape;
  kernels::Weight router;   // [n_experts, d_model]
  std::vector<float> bias;  // [n_experts], added for the choice only
  std::vector<Expert> experts;
  std::optional<Expert> shared;
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
  std::vector<kernels::SwigluOp> swiglu_ops;
  std::vector<kernels::MatmulOp> down_ops;
};

/// x += D(silu(G u) * (U u)). u, x: [n_rows, d_model].
void dense_feed_forward(Compute compute,
                        const Expert& weights,
                        ConstMatrix u,
                        MutableMatrix x,
                        FeedForwardScratch& scratch);

/// x += sum of the routed experts in rank order, the shared expert last. u, x: [n_rows, d_model].
/// The rows of an expert are gathered, so each expert is read once per call; every row's sum is its
/// own, whatever the other rows chose.
void moe_feed_forward(Compute compute,
                      const MoeWeights& weights,
                      ConstMatrix u,
                      MutableMatrix x,
                      FeedForwardScratch& scratch);

}  // namespace ft::nn
