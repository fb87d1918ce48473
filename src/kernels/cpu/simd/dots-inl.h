// Dot products of query heads with keys. Included by an instruction set's files after its vec.h and
// keys-inl.h.
//
// A dot has one order whatever is computed next to it: each lane sums every kLanes-th column,
// columns ascending, then sum_lanes() adds the lanes in its fixed tree. So blocks may take any
// shape. A block has kDotSums dots in registers: 4 keys or fewer per head for the usual 4 heads,
// more for fewer heads.

#pragma once

#include "kernels/cpu/simd/unroll.h"

#include <cstddef>

namespace ft::kernels::FT_ISA {

/// dots[h * stride + j] = q_h . keys[j] for kHeads heads and kDotSums / kHeads keys; q_h = q + h *
/// dim.
template <std::size_t kHeads>
FT_INLINE void dot_block(const float* q,
                         const float* const* keys,
                         std::size_t dim,
                         float* dots,
                         std::size_t stride) noexcept {
  constexpr std::size_t kKeys = kDotSums / kHeads;
  Vec sums[kDotSums];
  FT_UNROLL
  for (std::size_t i = 0; i < kDotSums; ++i) {
    sums[i] = zero();
  }
  const std::size_t whole = dim / kLanes * kLanes;
  for (std::size_t c = 0; c < whole; c += kLanes) {
    Vec key[kKeys];
    FT_UNROLL
    for (std::size_t j = 0; j < kKeys; ++j) {
      key[j] = load(keys[j] + c);
    }
    FT_UNROLL
    for (std::size_t h = 0; h < kHeads; ++h) {
      const Vec query = load(q + h * dim + c);
      FT_UNROLL
      for (std::size_t j = 0; j < kKeys; ++j) {
        sums[h * kKeys + j] = fma(query, key[j], sums[h * kKeys + j]);
      }
    }
  }
  if (whole != dim) {
    FT_UNROLL
    for (std::size_t h = 0; h < kHeads; ++h) {
      const Vec query = load_partial(q + h * dim + whole, dim - whole);
      FT_UNROLL
      for (std::size_t j = 0; j < kKeys; ++j) {
        const Vec key = load_partial(keys[j] + whole, dim - whole);
        sums[h * kKeys + j] = fma(query, key, sums[h * kKeys + j]);
      }
    }
  }
  alignas(64) float block[kDotSums];
  FT_UNROLL
  for (std::size_t i = 0; i < kDotSums; i += kLanes) {
    store(block + i, sum_each(sums + i));
  }
  FT_UNROLL
  for (std::size_t h = 0; h < kHeads; ++h) {
    __builtin_memcpy(dots + h * stride, block + h * kKeys, kKeys * sizeof(float));
  }
}

/// The same for the first n keys of a tile, rounded up to whole blocks: entries from n on are of no
/// meaning. keys holds kKeyTile readable rows.
template <std::size_t kHeads>
FT_INLINE void dot_heads(const float* q,
                         const float* const* keys,
                         std::size_t n,
                         std::size_t dim,
                         float* dots,
                         std::size_t stride) noexcept {
  for (std::size_t j = 0; j < n; j += kDotSums / kHeads) {
    dot_block<kHeads>(q, keys + j, dim, dots + j, stride);
  }
}

/// dots[h * stride + j] for all heads and the first n keys of a tile.
static inline void dot_tile(const float* q,
                            std::size_t n_heads,
                            const float* const* keys,
                            std::size_t n,
                            std::size_t dim,
                            float* dots,
                            std::size_t stride) noexcept {
  std::size_t h = 0;
  for (; h + 4 <= n_heads; h += 4) {
    dot_heads<4>(q + h * dim, keys, n, dim, dots + h * stride, stride);
  }
  if (h + 2 <= n_heads) {
    dot_heads<2>(q + h * dim, keys, n, dim, dots + h * stride, stride);
    h += 2;
  }
  if (h < n_heads) {
    dot_heads<1>(q + h * dim, keys, n, dim, dots + h * stride, stride);
  }
}

}  // namespace ft::kernels::FT_ISA
