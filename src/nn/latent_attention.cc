#include "nn/latent_attention.h"

#include "base/error.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>

namespace ft::nn {
namespace {

using kernels::MatmulOp;

/// The indexer's layer norm has its own epsilon, which no config file states.
constexpr float kIndexKeyNormEps = 1e-6F;
/// Rows per task of the rotary loops: a row of 8 heads costs about half a microsecond.
constexpr std::size_t kRowsPerTask = 32;

struct Projections {
  MutableMatrix kv;         // [n_rows, key_dim]
  MutableMatrix index_key;  // [n_rows, head_dim], empty without an indexer
  MutableMatrix q_rank;     // [n_queries, q_rank]
  MutableMatrix gate;       // [n_queries, index heads], empty if nothing has to be chosen
};

/// Everything that reads the layer's input, in one call.
Projections project_inputs(Compute compute,
                           const LatentAttentionWeights& w,
                           const AttentionPass& pass,
                           bool has_choice,
                           AttentionScratch& s) {
  const std::size_t n_queries = pass.x.n_rows;
  const ConstMatrix queries = rows_of(pass.u, pass.first_query, n_queries);
  Projections p;
  s.ops.clear();
  p.kv = s.kv.shape(pass.u.n_rows, w.shape.key_dim());
  s.ops.push_back(linear(p.kv, pass.u, w.kv_a));
  if (n_queries > 0) {
    p.q_rank = s.q_rank.shape(n_queries, w.shape.q_rank);
    s.ops.push_back(linear(p.q_rank, queries, w.q_a));
  }
  if (w.indexer) {
    p.index_key = s.index_key.shape(pass.u.n_rows, w.indexer->shape.head_dim);
    s.ops.push_back(linear(p.index_key, pass.u, w.indexer->key));
  }
  if (has_choice) {
    p.gate = s.gate.shape(n_queries, w.indexer->shape.n_heads);
    s.ops.push_back(linear(p.gate, queries, w.indexer->gate));
  }
  compute.matmul(s.ops);
  return p;
}

/// Row `row` of a cache whose rows have n_columns.
std::span<std::byte> cache_row(std::byte* rows,
                               DType dtype,
                               std::size_t row,
                               std::size_t n_columns) {
  const std::size_t row_bytes = n_columns * element_bytes(dtype);
  return {rows + row * row_bytes, row_bytes};
}

/// Norms and rotates the keys of every run and writes them into its cache.
void write_keys(Compute compute,
                const LatentAttentionWeights& w,
                const AttentionPass& pass,
                const Projections& p) {
  const LatentAttentionShape& shape = w.shape;
  const MutableMatrix latents = columns_of(p.kv, 0, shape.latent_dim);
  compute.backend.rms_norm(latents, latents, w.kv_norm, shape.norm_eps);
  if (w.indexer) {
    compute.backend.layer_norm(
        p.index_key, p.index_key, w.indexer->key_norm, w.indexer->key_bias, kIndexKeyNormEps);
  }
  for (std::size_t i = 0; i < pass.rows.runs().size(); ++i) {
    const Run& run = pass.rows.runs()[i];
    const LatentKeys& cache = pass.caches[i];
    const auto write_rows = [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t r = begin; r < end; ++r) {
        const std::size_t row = run.first_row + r;
        const std::size_t position = run.first_position + r;
        const std::span<const float> cos = pass.rows.cos_of(row);
        const std::span<const float> sin = pass.rows.sin_of(row);
        const std::span<float> key = p.kv.row(row);
        rotate_in_place(key.data() + shape.latent_dim, cos, sin);
        convert_from_float(
            cache.dtype, key, cache_row(cache.keys, cache.dtype, position, key.size()));
        if (!w.indexer) continue;
        const std::span<float> index_key = p.index_key.row(row);
        rotate_in_place(index_key.data(), cos, sin);
        convert_from_float(cache.dtype,
                           index_key,
                           cache_row(cache.index_keys, cache.dtype, position, index_key.size()));
      }
    };
    compute.pool.parallel_for(run.n_rows, kRowsPerTask, write_rows);
  }
}

/// The queries in latent space [n_queries, n_heads * key_dim]; with a choice to make also the
/// indexer's queries.
MutableMatrix project_queries(Compute compute,
                              const LatentAttentionWeights& w,
                              const AttentionPass& pass,
                              const Projections& p,
                              AttentionScratch& s,
                              MutableMatrix* index_q) {
  const LatentAttentionShape& shape = w.shape;
  const std::size_t n_queries = pass.x.n_rows;
  compute.backend.rms_norm(p.q_rank, p.q_rank, w.q_norm, shape.norm_eps);
  const MutableMatrix q = s.q.shape(n_queries, shape.n_heads * shape.query_dim());
  const MutableMatrix absorbed = s.absorbed_q.shape(n_queries, shape.n_heads * shape.key_dim());
  s.ops.clear();
  s.ops.push_back(linear(q, p.q_rank, w.q_b));
  if (index_q != nullptr) {
    *index_q = s.index_q.shape(n_queries, w.indexer->query.n_out);
    s.ops.push_back(linear(*index_q, p.q_rank, w.indexer->query));
  }
  compute.matmul(s.ops);

  const auto rotate_rows = [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const float> cos = pass.rows.cos_of(pass.first_query + i);
      const std::span<const float> sin = pass.rows.sin_of(pass.first_query + i);
      for (std::size_t h = 0; h < shape.n_heads; ++h) {
        rotate(q.row(i).data() + h * shape.query_dim() + shape.nope_dim,
               cos,
               sin,
               absorbed.row(i).data() + h * shape.key_dim() + shape.latent_dim);
      }
      if (index_q == nullptr) continue;
      for (std::size_t h = 0; h < w.indexer->shape.n_heads; ++h) {
        rotate_in_place(index_q->row(i).data() + h * w.indexer->shape.head_dim, cos, sin);
      }
    }
  };
  compute.pool.parallel_for(n_queries, kRowsPerTask, rotate_rows);

  s.ops.clear();
  for (std::size_t h = 0; h < shape.n_heads; ++h) {
    s.ops.push_back(linear(columns_of(absorbed, h * shape.key_dim(), shape.latent_dim),
                           columns_of(ConstMatrix(q), h * shape.query_dim(), shape.nope_dim),
                           w.key_up[h]));
  }
  compute.matmul(s.ops);
  return absorbed;
}

/// x += W_o of every head's W_UV z.
void project_out(Compute compute,
                 const LatentAttentionWeights& w,
                 ConstMatrix z,
                 MutableMatrix x,
                 AttentionScratch& s) {
  const LatentAttentionShape& shape = w.shape;
  const MutableMatrix values = s.values.shape(x.n_rows, shape.n_heads * shape.value_dim);
  s.ops.clear();
  for (std::size_t h = 0; h < shape.n_heads; ++h) {
    s.ops.push_back(linear(columns_of(values, h * shape.value_dim, shape.value_dim),
                           columns_of(z, h * shape.latent_dim, shape.latent_dim),
                           w.value_up[h]));
  }
  compute.matmul(s.ops);
  const MatmulOp out = linear(x, values, w.out, MatmulOp::Store::kAdd);
  compute.matmul({&out, 1});
}

}  // namespace

void latent_attention(Compute compute,
                      const LatentAttentionWeights& weights,
                      const AttentionPass& pass,
                      AttentionScratch& scratch) {
  const StageScope stage(compute.meter, Stage::kAttention);
  const LatentAttentionShape& shape = weights.shape;
  FT_CHECK(pass.u.n_rows == pass.rows.size() && pass.caches.size() == pass.rows.runs().size());
  FT_CHECK(pass.first_query + pass.x.n_rows == pass.u.n_rows);
  const bool has_choice = weights.indexer && pass.choice == KeyChoice::kSelect &&
                          pass.selection.has_choice(weights.indexer->shape.top_k);
  const Projections p = project_inputs(compute, weights, pass, has_choice, scratch);
  write_keys(compute, weights, pass, p);
  if (pass.x.n_rows == 0) return;

  FT_CHECK(pass.selection.size() == pass.x.n_rows);
  MutableMatrix index_q;
  const MutableMatrix q =
      project_queries(compute, weights, pass, p, scratch, has_choice ? &index_q : nullptr);
  if (has_choice) {
    const StageScope inner_stage(compute.meter, Stage::kIndexer);
    pass.selection.choose(compute, weights.indexer->shape, index_q, p.gate, pass.caches);
  }
  const MutableMatrix z = scratch.z.shape(pass.x.n_rows, shape.n_heads * shape.latent_dim);
  compute.backend.attend(
      {.q = q,
       .sets = pass.selection.over(pass.caches),
       .n_heads = shape.n_heads,
       .key_dim = shape.key_dim(),
       .latent_dim = shape.latent_dim,
       .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.query_dim()))),
       .z = z});
  project_out(compute, weights, z, pass.x, scratch);
}

}  // namespace ft::nn
