// Multi-head latent attention with a sparse choice of keys, in absorbed form: queries are mapped
// into the latent space, so that a cached row serves all heads as key and as value. The same form
// for prefill, decode and verify. Source: DeepSeek-V2 report, section 2.1 (MLA); DeepSeek-V3.2
// report, section 2 (indexer).
#pragma once

#include "kernels/kernels.h"
#include "nn/compute.h"
#include "nn/rope.h"
#include "nn/selection.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace ft::nn {

struct LatentAttentionShape {
  std::size_t d_model = 0;
  std::size_t n_heads = 0;
  std::size_t q_rank = 0;
  std::size_t latent_dim = 0;
  std::size_t nope_dim = 0;
  std::size_t rope_dim = 0;
  std::size_t value_dim = 0;
  float norm_eps = 0;

  std::size_t key_dim() const noexcept { return latent_dim + rope_dim; }
  std::size_t query_dim() const noexcept { return nope_dim + rope_dim; }
};

struct IndexerWeights {
  IndexerShape shape;
  kernels::Weight query;        // [n_heads * head_dim, q_rank]
  kernels::Weight key;          // [head_dim, d_model]
  kernels::Weight gate;         // [n_heads, d_model]
  std::vector<float> key_norm;  // [head_dim]
  std::vector<float> key_bias;  // [head_dim]
};

struct LatentAttentionWeights {
  LatentAttentionShape shape;
  kernels::Weight q_a;                    // [q_rank, d_model]
  std::vector<float> q_norm;              // [q_rank]
  kernels::Weight q_b;                    // [n_heads * query_dim, q_rank]
  kernels::Weight kv_a;                   // [key_dim, d_model]
  std::vector<float> kv_norm;             // [latent_dim]
  std::vector<kernels::Weight> key_up;    // per head W_UK transposed [latent_dim, nope_dim]
  std::vector<kernels::Weight> value_up;  // per head W_UV [value_dim, latent_dim]
  kernels::Weight out;                    // [d_model, n_heads * value_dim]
  std::optional<IndexerWeights> indexer;
};

struct AttentionScratch {
  ScratchMatrix q_rank;
  ScratchMatrix q;
  ScratchMatrix absorbed_q;
  ScratchMatrix kv;
  ScratchMatrix z;
  ScratchMatrix values;
  ScratchMatrix index_q;
  ScratchMatrix index_key;
  ScratchMatrix gate;
  std::vector<kernels::MatmulOp> ops;
};

/// kSelect: a layer with an indexer makes its own choice. kReuse: the selection holds what is to be
/// attended.
enum class KeyChoice { kSelect, kReuse };

struct AttentionPass {
  const Rows& rows;
  std::span<const LatentKeys> caches;  // one per run of rows, room for its positions
  ConstMatrix u;                       // [rows.size(), d_model], normed input
  std::size_t first_query =
      0;  // rows before it leave their keys only; rows.size(): no queries at all
  KeyChoice choice = KeyChoice::kSelect;
  Selection& selection;  // reset with (rows, first_query), or as the last kSelect layer left it
  MutableMatrix x;       // [rows.size() - first_query, d_model]: += attention
};

/// Writes latent, rotary key and index key of every row into the caches, then adds the attention of
/// the query rows.
void latent_attention(Compute compute,
                      const LatentAttentionWeights& weights,
                      const AttentionPass& pass,
                      AttentionScratch& scratch);

}  // namespace ft::nn
