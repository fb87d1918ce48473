// The inner loops of matrix products, for any vector width. Included by an instruction set's
// linear.cc after its decode.h, which defines Decoder<dtype>: one group of a unit to kGroupCols
// vectors for each kLanes outputs.
//
// Numbers: every output is acc = fma(w, x, acc) over ascending columns from 0; fp8 sums are kept
// per segment of equal scale and joined by total = fma(acc, scale, total) in order. Tile shapes,
// row counts and the two algorithms below decide only which outputs are computed together.
//
// Few rows: weights stream once from memory; each decoded vector meets all rows in registers
// (direct). Many rows: blocks of kBlockCols columns of a tile are decoded to f32 in L1 and
// multiplied by kBlockRows rows at a time, accumulators resting in L2 between column blocks
// (blocked).
#pragma once

#include "kernels/cpu/cpu_kernels.h"

namespace ft::kernels::FT_ISA {

inline constexpr std::size_t kUnitVecs = kUnitOutputs / kLanes;
inline constexpr std::size_t kTileUnits = 2;
inline constexpr std::size_t kTileOutputs = kTileUnits * kUnitOutputs;
inline constexpr std::size_t kGroupSize = kUnitOutputs * kGroupCols;
/// Columns decoded at a time: 128 x 32 f32 are 16 KiB of L1, with room for the rows' inputs. The
/// usual fp8 block.
inline constexpr std::size_t kBlockCols = 128;

template <DType D>
inline constexpr std::size_t kElementBytes = D == DType::kF32      ? 4
                                             : D == DType::kF8E4M3 ? 1
                                                                   : 2;

static inline std::size_t smaller(std::size_t a, std::size_t b) noexcept {
  return a < b ? a : b;
}

/// Where the columns that share column k's scale end.
static inline std::size_t segment_end(const Weight& weight, std::size_t k) noexcept {
  if (weight.scales == nullptr) {
    return weight.n_in;
  }
  if (k < weight.first_segment) {
    return weight.first_segment;
  }
  const std::size_t passed = (k - weight.first_segment) / weight.block_cols + 1;
  return smaller(weight.n_in, weight.first_segment + passed * weight.block_cols);
}

/// A run of units, wide in registers: one or two full tiles, or the last tile's single unit.
struct Run {
  const Weight* weight;
  const std::byte* tiles[2];  // first group of each tile
  const float* scales;        // of the first output in the first segment; null unless fp8
  std::size_t scale_stride;   // floats from segment to segment
  const float* const* x;      // input rows
  std::size_t n_rows;
  float* out;              // [n_rows, outputs of the run]
  std::size_t next_bytes;  // from each tile to its counterpart in the next run of the task, or 0
};

/// acc[row][output] += columns [begin, end) of one group, less than a whole group. Slow; for ragged
/// borders only.
template <DType D, std::size_t T, std::size_t U>
static void add_ragged(const Run& run, std::size_t begin, std::size_t end, float* acc) noexcept {
  constexpr std::size_t kOutputs = T * U * kUnitOutputs;
  const Decoder<D> decode;
  const std::size_t group = begin / kGroupCols;
  float weights[kGroupCols][kOutputs];
  for (std::size_t u = 0; u < T * U; ++u) {
    const std::byte* from = run.tiles[u / U] + (group * U + u % U) * kGroupSize * kElementBytes<D>;
    for (std::size_t sub = 0; sub < kUnitVecs; ++sub) {
      const Decoded decoded = decode(from, sub);
      for (std::size_t k = 0; k < kGroupCols; ++k) {
        store(&weights[k][u * kUnitOutputs + sub * kLanes], decoded.k[k]);
      }
    }
  }
  for (std::size_t m = 0; m < run.n_rows; ++m) {
    for (std::size_t k = begin; k < end; ++k) {
      for (std::size_t o = 0; o < kOutputs; o += kLanes) {
        float* to = acc + m * kOutputs + o;
        store(to, fma(load(&weights[k % kGroupCols][o]), broadcast(run.x[m][k]), load(to)));
      }
    }
  }
}

/// How far ahead of column k a tile is fetched: one block of columns, which in the last block is
/// the first block of the next run of this task, or nothing. Hardware alone does not overlap fp8
/// decoding with the stream (measured: 9.7 against 13 GB/s), and knows nothing of the next tile.
static inline std::size_t prefetch_distance(const Run& run,
                                            std::size_t k,
                                            std::size_t col_bytes) noexcept {
  const std::size_t n_in = (run.weight->n_in + kGroupCols - 1) / kGroupCols * kGroupCols;
  const std::size_t block = kBlockCols * col_bytes;
  if (k + kBlockCols < n_in) {
    return block;
  }
  const std::size_t position = k / kBlockCols * block;
  return run.next_bytes == 0 ? 0 : run.next_bytes - position;
}

/// M rows times T tiles of U units each.
template <DType D, std::size_t M, std::size_t T, std::size_t U>
static void run_direct(const Run& run) noexcept {
  constexpr std::size_t kOutputs = T * U * kUnitOutputs;
  constexpr std::size_t kVecs = T * U * kUnitVecs;
  constexpr std::size_t kStep = U * kGroupSize * kElementBytes<D>;
  constexpr bool kIsScaled = D == DType::kF8E4M3;
  const Decoder<D> decode;
  const float* x[M];
#pragma GCC unroll 16
  for (std::size_t m = 0; m < M; ++m) {
    x[m] = run.x[m];
  }
  const std::byte* tile0 = run.tiles[0];
  const std::byte* tile1 = run.tiles[T - 1];
  const float* scales = run.scales;
  const std::size_t n_in = run.weight->n_in;
  for (std::size_t k = 0; k < n_in;) {
    const bool is_first = k == 0;
    const std::size_t end = kIsScaled ? segment_end(*run.weight, k) : n_in;
    Vec acc[M][kVecs];
#pragma GCC unroll 16
    for (std::size_t m = 0; m < M; ++m) {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVecs; ++v) {
        acc[m][v] = zero();
      }
    }
    while (k < end) {
      if (k % kGroupCols != 0 || end - k < kGroupCols) {
        const std::size_t stop = smaller(end, k / kGroupCols * kGroupCols + kGroupCols);
        float ragged[M * kOutputs];
#pragma GCC unroll 16
        for (std::size_t m = 0; m < M; ++m) {
#pragma GCC unroll 16
          for (std::size_t v = 0; v < kVecs; ++v) {
            store(ragged + m * kOutputs + v * kLanes, acc[m][v]);
          }
        }
        add_ragged<D, T, U>(run, k, stop, ragged);
#pragma GCC unroll 16
        for (std::size_t m = 0; m < M; ++m) {
#pragma GCC unroll 16
          for (std::size_t v = 0; v < kVecs; ++v) {
            acc[m][v] = load(ragged + m * kOutputs + v * kLanes);
          }
        }
        k = stop;
        continue;
      }
      const std::size_t stop = smaller(end, (k / kBlockCols + 1) * kBlockCols);
      const std::size_t ahead = prefetch_distance(run, k, kStep / kGroupCols);
      const std::byte* at0 = tile0 + k / kGroupCols * kStep;
      const std::byte* at1 = tile1 + k / kGroupCols * kStep;
      for (; stop - k >= kGroupCols; k += kGroupCols, at0 += kStep, at1 += kStep) {
#pragma GCC unroll 16
        for (std::size_t v = 0; v < kVecs; ++v) {
          const std::size_t unit = v / kUnitVecs;
          const std::byte* at = (unit / U == 0 ? at0 : at1) + unit % U * (kStep / U);
          const Decoded w = decode(at, v % kUnitVecs);
          if (v % kUnitVecs == 0) {
#pragma GCC unroll 4
            for (std::size_t line = 0; line < kStep / U; line += 64) {
              __builtin_prefetch(at + ahead + line, 0, 2);
            }
          }
#pragma GCC unroll 16
          for (std::size_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
            for (std::size_t i = 0; i < kGroupCols; ++i) {
              acc[m][v] = fma(w.k[i], broadcast(x[m][k + i]), acc[m][v]);
            }
          }
        }
      }
    }
#pragma GCC unroll 16
    for (std::size_t m = 0; m < M; ++m) {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVecs; ++v) {
        float* to = run.out + m * kOutputs + v * kLanes;
        if constexpr (kIsScaled) {
          const Vec before = is_first ? zero() : load(to);
          store(to, fma(acc[m][v], load(scales + v * kLanes), before));
        } else {
          store(to, acc[m][v]);
        }
      }
    }
    scales += run.scale_stride;
  }
}

// --- many rows ---

/// Columns [begin, end) of one tile of U units to w[column][output].
template <DType D, std::size_t U>
static void decode_block(const std::byte* tile,
                         std::size_t begin,
                         std::size_t end,
                         float* w) noexcept {
  constexpr std::size_t kOutputs = U * kUnitOutputs;
  constexpr std::size_t kUnitStep = kGroupSize * kElementBytes<D>;
  const Decoder<D> decode;
  for (std::size_t k = begin / kGroupCols * kGroupCols; k < end; k += kGroupCols) {
    const std::byte* at = tile + k / kGroupCols * U * kUnitStep;
#pragma GCC unroll 8
    for (std::size_t v = 0; v < U * kUnitVecs; ++v) {
      const Decoded decoded = decode(at + v / kUnitVecs * kUnitStep, v % kUnitVecs);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kGroupCols; ++i) {
        if (k + i >= begin && k + i < end) {
          store(w + (k + i - begin) * kOutputs + v * kLanes, decoded.k[i]);
        }
      }
    }
  }
}

/// One block of columns of some rows.
struct BlockStep {
  const float* w;  // [n_cols, outputs]
  std::size_t n_cols;
  const float* const* x;
  std::size_t x_begin;  // first column
  float* part;          // [rows, outputs]: sum of the segment so far
  float* total;         // [rows, outputs]: sum of finished segments
  const float* scales;  // of the finished segment, or nullptr: the sum itself is the total
  bool opens;           // first block of a segment
  bool closes;          // last block of a segment
  bool is_first;        // of the first segment
};

/// Rows [row, row + M), V vectors of outputs from `column` on; S outputs in a row of the block.
template <std::size_t M, std::size_t V, std::size_t S>
static void run_block(const BlockStep& step, std::size_t row, std::size_t column) noexcept {
  constexpr std::size_t stride = S;
  Vec acc[M][V];
  const float* x[M];
  float* part = step.part + row * stride + column;
#pragma GCC unroll 16
  for (std::size_t m = 0; m < M; ++m) {
    x[m] = step.x[row + m] + step.x_begin;
#pragma GCC unroll 16
    for (std::size_t v = 0; v < V; ++v) {
      acc[m][v] = step.opens ? zero() : load(part + m * stride + v * kLanes);
    }
  }
  const float* w = step.w + column;
  for (std::size_t k = 0; k < step.n_cols; ++k, w += stride) {
    Vec wk[V];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < V; ++v) {
      wk[v] = load(w + v * kLanes);
    }
#pragma GCC unroll 16
    for (std::size_t m = 0; m < M; ++m) {
      const Vec xk = broadcast(x[m][k]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < V; ++v) {
        acc[m][v] = fma(wk[v], xk, acc[m][v]);
      }
    }
  }
  float* total = step.total + row * stride + column;
#pragma GCC unroll 16
  for (std::size_t m = 0; m < M; ++m) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < V; ++v) {
      const std::size_t at = m * stride + v * kLanes;
      if (!step.closes) {
        store(part + at, acc[m][v]);
      } else if (step.scales == nullptr) {
        store(total + at, acc[m][v]);
      } else {
        const Vec before = step.is_first ? zero() : load(total + at);
        store(total + at, fma(acc[m][v], load(step.scales + column + v * kLanes), before));
      }
    }
  }
}

}  // namespace ft::kernels::FT_ISA
