// Latent attention of one row. Included by an instruction set's files after its vec.h.
//
// A chunk of keys at a time: all dots, then the softmax of each head, then the weighted sums of the
// keys. Dots go by tiles of keys, which stay in the L1 cache for all heads. Sums go by strips of
// columns and runs of keys, which do too; 4 heads' sums of a strip are registers during a run and
// memory between runs, keys in order all along.
// Rows of caches that start on cache lines are read fastest; any alignment is right.
//
// Intel Xeon at 2.7 GHz, one core, peak 175 GFLOP/s with AVX-512 and 87 with AVX2, 2026-11-29:
// 8 heads, 192 columns, 256 keys 9.4 us a row (140 GFLOP/s), AVX2 16.9 us (78); 64 heads, 576
// columns, 2048 of 16384 keys 2.3 ms (123).
#pragma once

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/simd/keys-inl.h"
// After keys-inl.h.
#include "kernels/cpu/simd/dots-inl.h"
#include "kernels/cpu/simd/exp-inl.h"
#include "kernels/cpu/simd/unroll.h"

namespace ft::kernels::FT_ISA {

/// Heads worked on at one time at most.
constexpr std::size_t kHeadBlock = 64;
// A run of a 256-byte strip of kRunKeys keys is 16 KiB, as are its weights for 64 heads.

/// Some heads of one row against one chunk of its keys.
struct AttendBlock {
  std::size_t n_heads;
  std::size_t key_dim;
  std::size_t latent_dim;
  float scale;
  const float* q;
  float* weights;  // [n_heads, kKeyChunk]: dots, then exp(score - max)
  std::size_t n_keys;
  float max[kHeadBlock];
  float sum[kHeadBlock];
};

/// The chunk's rows as stored, float or bf16, the last one again up to a whole tile.
template <typename Key>
struct ChunkKeys {
  const Key* rows[kKeyChunk];
  KeyScratch widened;
};

/// Looks the chunk's rows up.
template <typename Key>
static inline void take_keys(const KeySet& set,
                             std::size_t begin,
                             AttendBlock& block,
                             ChunkKeys<Key>& keys) noexcept {
  const Key* first = static_cast<const Key*>(set.keys);
  const std::size_t left = set.n - begin;
  const std::size_t n = left < kKeyChunk ? left : kKeyChunk;
  block.n_keys = n;
  if (set.positions == nullptr) {
    for (std::size_t j = 0; j < n; ++j) {
      keys.rows[j] = first + (begin + j) * block.key_dim;
    }
  } else {
    for (std::size_t j = 0; j < n; ++j) {
      const auto position = static_cast<std::size_t>(set.positions[begin + j]);
      keys.rows[j] = first + position * block.key_dim;
    }
  }
  for (std::size_t j = n; j % kKeyTile != 0; ++j) {
    keys.rows[j] = keys.rows[n - 1];
  }
}

template <typename Key>
static inline void dot_chunk(AttendBlock& block, ChunkKeys<Key>& keys) noexcept {
  for (std::size_t j = 0; j < block.n_keys; j += kKeyTile) {
    const std::size_t left = block.n_keys - j;
    const std::size_t n = left < kKeyTile ? left : kKeyTile;
    const KeyView view = view_keys(keys.rows + j, n, 0, block.key_dim, keys.widened);
    dot_tile(block.q, block.n_heads, view.rows, n, block.key_dim, block.weights + j, kKeyChunk);
  }
}

/// Dots to weights, with their max and sum, for each head.
static inline void softmax_chunk(AttendBlock& block) noexcept {
  const Vec scale = broadcast(block.scale);
  const std::size_t n = block.n_keys;
  const std::size_t whole = n / kLanes * kLanes;
  for (std::size_t h = 0; h < block.n_heads; ++h) {
    float* weights = block.weights + h * kKeyChunk;
    Vec maxima = broadcast(-__builtin_inff());
    for (std::size_t j = 0; j < whole; j += kLanes) {
      maxima = max(maxima, mul(load(weights + j), scale));
    }
    float most = max_lanes(maxima);
    for (std::size_t j = whole; j < n; ++j) {
      const float score = weights[j] * block.scale;
      most = score > most ? score : most;
    }
    const Vec max_score = broadcast(most);
    Vec sums = zero();
    for (std::size_t j = 0; j < whole; j += kLanes) {
      const Vec weight = exp(sub(mul(load(weights + j), scale), max_score));
      store(weights + j, weight);
      sums = add(sums, weight);
    }
    if (whole != n) {
      const Vec score = mul(load_partial(weights + whole, n - whole), scale);
      store_partial(weights + whole, exp(sub(score, max_score)), n - whole);
      sums = add(sums, load_partial(weights + whole, n - whole));
    }
    block.max[h] = most;
    block.sum[h] = sum_lanes(sums);
  }
}

/// z_h[0, kVecs * kLanes) += sum_j weights_h[j] * keys[j][...] for kHeads heads, j in order.
template <std::size_t kHeads, std::size_t kVecs>
FT_INLINE void weigh_strip(
    const float* weights, KeyView keys, std::size_t n, float* z, std::size_t z_stride) noexcept {
  Vec sums[kHeads * kVecs];
  FT_UNROLL
  for (std::size_t i = 0; i < kHeads * kVecs; ++i) {
    sums[i] = load(z + i / kVecs * z_stride + i % kVecs * kLanes);
  }
  for (std::size_t j = 0; j < n; ++j) {
    Vec values[kVecs];
    FT_UNROLL
    for (std::size_t v = 0; v < kVecs; ++v) {
      values[v] = load(keys.rows[j] + keys.column + v * kLanes);
    }
    FT_UNROLL
    for (std::size_t i = 0; i < kHeads * kVecs; ++i) {
      const Vec weight = broadcast(weights[i / kVecs * kKeyChunk + j]);
      sums[i] = fma(weight, values[i % kVecs], sums[i]);
    }
  }
  FT_UNROLL
  for (std::size_t i = 0; i < kHeads * kVecs; ++i) {
    store(z + i / kVecs * z_stride + i % kVecs * kLanes, sums[i]);
  }
}

/// The same for one head and the fewer than kLanes columns at the end.
static inline void weigh_rest(
    const float* weights, KeyView keys, std::size_t n, std::size_t n_columns, float* z) noexcept {
  Vec sum = load_partial(z, n_columns);
  for (std::size_t j = 0; j < n; ++j) {
    sum = fma(broadcast(weights[j]), load_partial(keys.rows[j] + keys.column, n_columns), sum);
  }
  store_partial(z, sum, n_columns);
}

/// Some columns of a run of a chunk's keys.
struct KeyRun {
  const float* weights;  // of the first head; next head kKeyChunk further
  KeyView keys;
  std::size_t n;
};

/// All heads for a run of keys and a strip of kVecs vectors.
template <std::size_t kVecs>
static inline void weigh_heads(const AttendBlock& block, const KeyRun& run, float* z) noexcept {
  const std::size_t stride = block.latent_dim;
  const float* weights = run.weights;
  std::size_t h = 0;
  for (; h + 4 <= block.n_heads; h += 4) {
    weigh_strip<4, kVecs>(weights, run.keys, run.n, z, stride);
    weights += 4 * kKeyChunk;
    z += 4 * stride;
  }
  if (h + 2 <= block.n_heads) {
    weigh_strip<2, kVecs>(weights, run.keys, run.n, z, stride);
    weights += 2 * kKeyChunk;
    z += 2 * stride;
    h += 2;
  }
  if (h < block.n_heads) {
    weigh_strip<1, kVecs>(weights, run.keys, run.n, z, stride);
  }
}

/// z_h += sum_j weights_h[j] * key_j for all heads and keys of a chunk; z is [n_heads, latent_dim].
template <typename Key>
static inline void weigh_chunk(const AttendBlock& block, ChunkKeys<Key>& keys, float* z) noexcept {
  constexpr std::size_t kStrip = kStripVecs * kLanes;
  const std::size_t whole = block.latent_dim / kLanes * kLanes;
  for (std::size_t column = 0; column < block.latent_dim;) {
    const bool is_strip = column + kStrip <= whole;
    const std::size_t n_columns = is_strip         ? kStrip
                                  : column < whole ? kLanes
                                                   : block.latent_dim - column;
    for (std::size_t j = 0; j < block.n_keys; j += kRunKeys) {
      const std::size_t left = block.n_keys - j;
      const std::size_t n = left < kRunKeys ? left : kRunKeys;
      const KeyRun run = {
          block.weights + j, view_keys(keys.rows + j, n, column, n_columns, keys.widened), n};
      if (is_strip) {
        weigh_heads<kStripVecs>(block, run, z + column);
      } else if (column < whole) {
        weigh_heads<1>(block, run, z + column);
      } else {
        for (std::size_t h = 0; h < block.n_heads; ++h) {
          weigh_rest(run.weights + h * kKeyChunk,
                     run.keys,
                     run.n,
                     n_columns,
                     z + h * block.latent_dim + column);
        }
      }
    }
    column += n_columns;
  }
}

static inline float exp_of(float x) noexcept {
  return max_lanes(exp(broadcast(x)));  // all lanes are equal
}

/// z = z * keep + more * take.
static inline void scale_and_add(
    float* z, float keep, const float* more, float take, std::size_t n) noexcept {
  const Vec kept = broadcast(keep);
  const Vec taken = broadcast(take);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(z + i, fma(load(more + i), taken, mul(load(z + i), kept)));
  }
  if (i < n) {
    const Vec sum =
        fma(load_partial(more + i, n - i), taken, mul(load_partial(z + i, n - i), kept));
    store_partial(z + i, sum, n - i);
  }
}

/// What earlier chunks of the row gave, per head; weights are relative to exp(max).
struct AttendTotals {
  float max[kHeadBlock];
  float sum[kHeadBlock];
};

/// Adds a chunk's sums to the totals.
static inline void merge_chunk(const AttendBlock& block,
                               const float* chunk_z,
                               AttendTotals& totals,
                               float* z) noexcept {
  for (std::size_t h = 0; h < block.n_heads; ++h) {
    const float most = totals.max[h] > block.max[h] ? totals.max[h] : block.max[h];
    const float keep = exp_of(totals.max[h] - most);
    const float take = exp_of(block.max[h] - most);
    totals.max[h] = most;
    totals.sum[h] = totals.sum[h] * keep + block.sum[h] * take;
    const std::size_t offset = h * block.latent_dim;
    scale_and_add(z + offset, keep, chunk_z + offset, take, block.latent_dim);
  }
}

/// z *= factor.
static inline void scale_row(float* z, float factor, std::size_t n) noexcept {
  const Vec factors = broadcast(factor);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(z + i, mul(load(z + i), factors));
  }
  if (i < n) {
    store_partial(z + i, mul(load_partial(z + i, n - i), factors), n - i);
  }
}

static inline void fill_zero(float* to, std::size_t n) noexcept {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(to + i, zero());
  }
  for (; i < n; ++i) {
    to[i] = 0;
  }
}

/// Floats for the largest view of widened rows.
template <typename Key>
static inline std::size_t widened_floats(std::size_t key_dim) noexcept {
  if (sizeof(Key) == sizeof(float)) {
    return 0;
  }
  constexpr std::size_t kStripFloats = kRunKeys * kStripVecs * kLanes;
  return kKeyTile * key_dim > kStripFloats ? kKeyTile * key_dim : kStripFloats;
}

/// Heads [head, head + n_heads) of the task, n_heads <= kHeadBlock.
template <typename Key>
static inline void attend_heads(const AttendTask& task,
                                std::size_t head,
                                std::size_t n_heads) noexcept {
  AttendBlock block;
  block.n_heads = n_heads;
  block.key_dim = task.key_dim;
  block.latent_dim = task.latent_dim;
  block.scale = task.scale;
  block.q = task.q + head * task.key_dim;
  ChunkKeys<Key> keys;
  keys.widened.values = task.scratch;
  block.weights = task.scratch + widened_floats<Key>(task.key_dim);
  float* chunk_z = block.weights + n_heads * kKeyChunk;
  float* z = task.z + head * task.latent_dim;
  AttendTotals totals;
  for (std::size_t begin = 0; begin < task.set.n; begin += kKeyChunk) {
    take_keys(task.set, begin, block, keys);
    dot_chunk(block, keys);
    softmax_chunk(block);
    float* sums = begin == 0 ? z : chunk_z;
    fill_zero(sums, n_heads * task.latent_dim);
    weigh_chunk(block, keys, sums);
    if (begin == 0) {
      for (std::size_t h = 0; h < n_heads; ++h) {
        totals.max[h] = block.max[h];
        totals.sum[h] = block.sum[h];
      }
    } else {
      merge_chunk(block, chunk_z, totals, z);
    }
  }
  for (std::size_t h = 0; h < n_heads; ++h) {
    scale_row(z + h * task.latent_dim, 1.0f / totals.sum[h], task.latent_dim);
  }
}

template <typename Key>
static inline void attend_all(const AttendTask& task) noexcept {
  // Per head: a chunk's weights, and its sums until they are merged.
  const std::size_t free = kScratchFloats - widened_floats<Key>(task.key_dim);
  const std::size_t fitting = free / (kKeyChunk + task.latent_dim);
  const std::size_t most = fitting < kHeadBlock ? fitting : kHeadBlock;
  for (std::size_t head = 0; head < task.n_heads; head += most) {
    const std::size_t left = task.n_heads - head;
    attend_heads<Key>(task, head, left < most ? left : most);
  }
}

// NOLINTNEXTLINE(misc-definitions-in-headers): one per instruction set
void attend(const AttendTask& task) noexcept {
  if (task.set.dtype == DType::kBF16) {
    attend_all<std::uint16_t>(task);
  } else {
    attend_all<float>(task);
  }
}

// NOLINTNEXTLINE(misc-definitions-in-headers): one per instruction set
void widen(const std::uint16_t* from, std::size_t n, float* to) noexcept {
  widen_elements(from, n, to);
}

}  // namespace ft::kernels::FT_ISA
