// The inner loops of matrix products, for any vector width. Included by an instruction set's
// linear.cc after its decode.h and panels.h, which define Decoder<dtype> and PanelDecoder<format>:
// one group of a unit to kGroupCols vectors for each kLanes outputs.
//
// Numbers: every output is acc = fma(w, x, acc) over ascending columns from 0; sums of weights with
// scales (fp8, integers) are kept per segment of equal scale and joined by total = fma(acc, scale,
// total) in order. Tile shapes, row counts and the two algorithms below decide only which outputs
// are computed together.
//
// Few rows: weights stream once from memory; each decoded vector meets all rows in registers
// (direct). Many rows: blocks of kBlockCols columns of a tile are decoded to f32 in L1 and
// multiplied by kBlockRows rows at a time, accumulators resting in L2 between column blocks
// (blocked).
#pragma once

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/simd/finish-inl.h"
#include "kernels/cpu/simd/unroll.h"

namespace ft::kernels::FT_ISA {

static_assert(kUnitOutputs == kPanelRows, "gate and up alternate alike in both layouts");
inline constexpr std::size_t kUnitVecs = kUnitOutputs / kLanes;
inline constexpr std::size_t kTileUnits = 2;
inline constexpr std::size_t kTileOutputs = kTileUnits * kUnitOutputs;
inline constexpr std::size_t kGroupSize = kUnitOutputs * kGroupCols;
/// Columns decoded at a time: 128 x 32 f32 are 16 KiB of L1, with room for the rows' inputs. The
/// usual fp8 block.
inline constexpr std::size_t kBlockCols = 128;
static_assert(kMarkedCols % kBlockCols == 0);

/// A run of units, wide in registers: one or two full tiles, or the last tile's single unit.
struct Run {
  const Weight* weight;
  const std::byte* units;  // the first unit
  std::size_t unit_bytes;  // all columns of one
  std::size_t first;       // its first output
  std::size_t n_outputs;   // of the weight, padded
  const float* const* x;   // input rows
  std::size_t n_rows;
  float* out;              // [n_rows, outputs of the run]
  std::size_t next_bytes;  // from each unit to its counterpart in the next run of the task, or 0
};

// --- how weights lie: what the loops ask of a stored type ---

/// Made by pack(): the groups of a tile's units alternate, so a tile is one stream.
template <DType D>
struct Packed {
  using Decode = Decoder<D>;
  static constexpr std::size_t kStreamUnits = kTileUnits;
  static constexpr std::size_t kLineBytes = kGroupSize * (D == DType::kF32      ? 4
                                                          : D == DType::kF8E4M3 ? 1
                                                                                : 2);
  /// Groups whose bytes a line holds.
  static constexpr std::size_t kLineGroups = 1;
  static constexpr bool kHasScales = D == DType::kF8E4M3;
  static constexpr bool kHasMarks = requires(const Decode decoder) {
    decoder.unmarked(nullptr, 0);
  };

  FT_INLINE_MEMBER static Decoded decode(const Decode& decoder,
                                         const std::byte* line,
                                         std::size_t sub,
                                         std::size_t /*group*/) noexcept {
    return decoder(line, sub);
  }
  /// The same, of a line whose groups have no mark.
  FT_INLINE_MEMBER static Decoded decode_unmarked(const Decode& decoder,
                                                  const std::byte* line,
                                                  std::size_t sub,
                                                  std::size_t group) noexcept {
    if constexpr (kHasMarks) {
      return decoder.unmarked(line, sub);
    } else {
      return decode(decoder, line, sub, group);
    }
  }
  /// Marks of n units' groups from column k on, up to the border of kMarkedCols.
  static std::uint32_t marks(const Run& run, std::size_t n, std::size_t k) noexcept {
    std::uint32_t marks = 0;
    if constexpr (kHasMarks) {
      const std::size_t n_words = (run.weight->n_in + kMarkedCols - 1) / kMarkedCols;
      const std::size_t first = run.first / kUnitOutputs * n_words + k / kMarkedCols;
      for (std::size_t unit = 0; unit < n; ++unit) {
        marks |= run.weight->tiny_marks[first + unit * n_words];
      }
    }
    return marks >> (k % kMarkedCols / kGroupCols);
  }
  /// Where the columns that share column k's scale end.
  static std::size_t segment_end(const Weight& weight, std::size_t k) noexcept {
    if (!kHasScales) {
      return weight.n_in;
    }
    if (k < weight.first_segment) {
      return weight.first_segment;
    }
    const std::size_t passed = (k - weight.first_segment) / weight.block_cols + 1;
    return smaller(weight.n_in, weight.first_segment + passed * weight.block_cols);
  }
  /// Scales of the run's outputs in a segment; `buffer` holds as many floats.
  static const float* scales(const Run& run,
                             std::size_t segment,
                             std::size_t /*n*/,
                             float* /*buffer*/) noexcept {
    return kHasScales ? run.weight->scales + segment * run.n_outputs + run.first : nullptr;
  }
};

/// Panels of integers: each unit is a stream of its own.
template <QuantFormat Q>
struct Panels {
  using Decode = PanelDecoder<Q>;
  static constexpr std::size_t kStreamUnits = 1;
  static constexpr std::size_t kLineBytes = 64;
  static constexpr std::size_t kLineGroups = Q == QuantFormat::kQ8 ? 1 : 2;
  static constexpr bool kHasScales = true;

  FT_INLINE_MEMBER static Decoded decode(const Decode& decoder,
                                         const std::byte* line,
                                         std::size_t sub,
                                         std::size_t group) noexcept {
    return decoder(line, sub, group);
  }
  FT_INLINE_MEMBER static Decoded decode_unmarked(const Decode& decoder,
                                                  const std::byte* line,
                                                  std::size_t sub,
                                                  std::size_t group) noexcept {
    return decode(decoder, line, sub, group);
  }
  static std::uint32_t marks(const Run& /*run*/, std::size_t /*n*/, std::size_t /*k*/) noexcept {
    return 0;
  }
  static std::size_t segment_end(const Weight& weight, std::size_t k) noexcept {
    return smaller(weight.n_in, (k / kQuantGroup + 1) * kQuantGroup);
  }
  static const float* scales(const Run& run,
                             std::size_t segment,
                             std::size_t n,
                             float* buffer) noexcept {
    const QuantMatrix& quant = run.weight->quant;
    const std::size_t n_blocks = (quant.n_cols + kQuantGroup - 1) / kQuantGroup;
    for (std::size_t o = 0; o < n; o += kLanes) {
      const std::size_t panel = (run.first + o) / kPanelRows;
      const std::size_t at = (panel * n_blocks + segment) * kPanelRows + o % kPanelRows;
      store(buffer + o, load_scales(quant, at));
    }
    return buffer;
  }
};

/// Bytes of column k's line of one unit among U of a stream.
template <typename F, std::size_t U>
FT_INLINE const std::byte* line_at(const std::byte* stream,
                                   std::size_t unit,
                                   std::size_t k) noexcept {
  return stream + (k / (F::kLineGroups * kGroupCols) * U + unit) * F::kLineBytes;
}
template <typename F>
FT_INLINE std::size_t group_in_line(std::size_t k) noexcept {
  return k / kGroupCols % F::kLineGroups;
}
/// Units that alternate in a stream, of a run of N.
template <typename F, std::size_t N>
inline constexpr std::size_t kAlternating = N < F::kStreamUnits ? N : F::kStreamUnits;

/// acc[row][output] += columns [begin, end) of one group, less than a whole group. Slow; for ragged
/// borders only.
template <typename F, std::size_t N>
static void add_ragged(const Run& run, std::size_t begin, std::size_t end, float* acc) noexcept {
  constexpr std::size_t U = kAlternating<F, N>;
  constexpr std::size_t kOutputs = N * kUnitOutputs;
  const typename F::Decode decoder;
  float weights[kGroupCols][kOutputs];
  for (std::size_t u = 0; u < N; ++u) {
    const std::byte* stream = run.units + u / U * U * run.unit_bytes;
    const std::byte* line = line_at<F, U>(stream, u % U, begin);
    for (std::size_t sub = 0; sub < kUnitVecs; ++sub) {
      const Decoded decoded = F::decode(decoder, line, sub, group_in_line<F>(begin));
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

/// Sums in registers: M rows times V vectors of outputs.
template <std::size_t M, std::size_t V>
struct Sums {
  Vec of[M][V];
};

template <std::size_t M, std::size_t V>
FT_INLINE void clear(Sums<M, V>& sums) noexcept {
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    FT_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
      sums.of[m][v] = zero();
    }
  }
}

/// Row m is at from + m * stride.
template <std::size_t M, std::size_t V>
FT_INLINE void load_sums(Sums<M, V>& sums, const float* from, std::size_t stride) noexcept {
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    FT_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
      sums.of[m][v] = load(from + m * stride + v * kLanes);
    }
  }
}

template <std::size_t M, std::size_t V>
FT_INLINE void store_sums(const Sums<M, V>& sums, float* to, std::size_t stride) noexcept {
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    FT_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
      store(to + m * stride + v * kLanes, sums.of[m][v]);
    }
  }
}

/// total = fma(sum, scale, total), where the first segment's total is 0.
template <std::size_t M, std::size_t V>
FT_INLINE void store_scaled(const Sums<M, V>& sums,
                            const float* scales,
                            bool is_first,
                            float* total,
                            std::size_t stride) noexcept {
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    FT_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
      float* to = total + m * stride + v * kLanes;
      const Vec before = is_first ? zero() : load(to);
      store(to, fma(sums.of[m][v], load(scales + v * kLanes), before));
    }
  }
}

// --- few rows ---

/// The same number, but the compiler cannot know: what is loaded at it is not kept in a register
/// for the next use.
FT_INLINE std::size_t hidden(std::size_t n) noexcept {
  asm volatile("" : "+r"(n));
  return n;
}

/// One line of N units times M rows, at column k.
template <typename F, std::size_t M, std::size_t N, bool IsMarked>
FT_INLINE void add_line(const typename F::Decode& decoder,
                        const std::byte* const* streams,
                        std::size_t ahead,
                        const float* const* x,
                        std::size_t k,
                        Sums<M, N * kUnitVecs>& sums) noexcept {
  constexpr std::size_t U = kAlternating<F, N>;
  // Inputs serve every vector of outputs. Kept in registers they leave too few for sums unless rows
  // are few.
  constexpr std::size_t kLineCols = F::kLineGroups * kGroupCols;
  constexpr bool kKeepsInputs = M * (N * kUnitVecs + kLineCols) + 10 <= kRegisters;
  FT_UNROLL
  for (std::size_t v = 0; v < N * kUnitVecs; ++v) {
    const std::size_t unit = v / kUnitVecs;
    const std::byte* line = streams[unit / U] + unit % U * F::kLineBytes;
    FT_UNROLL
    for (std::size_t group = 0; group < F::kLineGroups; ++group) {
      const Decoded w = IsMarked ? F::decode(decoder, line, v % kUnitVecs, group)
                                 : F::decode_unmarked(decoder, line, v % kUnitVecs, group);
      const std::size_t at_k = (kKeepsInputs ? k : hidden(k)) + group * kGroupCols;
      if (v % kUnitVecs == 0 && group == 0) {
        FT_UNROLL
        for (std::size_t at = 0; at < F::kLineBytes; at += 64) {
          __builtin_prefetch(line + ahead + at, 0, 2);
        }
      }
      FT_UNROLL
      for (std::size_t m = 0; m < M; ++m) {
        FT_UNROLL
        for (std::size_t i = 0; i < kGroupCols; ++i) {
          sums.of[m][v] = fma(w.k[i], broadcast(x[m][at_k + i]), sums.of[m][v]);
        }
      }
    }
  }
}

/// Columns [begin, end), whole lines of one block of kBlockCols, of M rows times N units.
template <typename F, std::size_t M, std::size_t N>
FT_INLINE void add_lines(const Run& run,
                         const typename F::Decode& decoder,
                         std::size_t begin,
                         std::size_t end,
                         Sums<M, N * kUnitVecs>& sums) noexcept {
  constexpr std::size_t U = kAlternating<F, N>;
  constexpr std::size_t kStreams = N / U;
  constexpr std::size_t kStep = U * F::kLineBytes;
  constexpr std::size_t kLineCols = F::kLineGroups * kGroupCols;
  const std::size_t ahead = prefetch_distance(run, begin, kStep / kLineCols);
  const std::byte* streams[kStreams];
  FT_UNROLL
  for (std::size_t t = 0; t < kStreams; ++t) {
    streams[t] = line_at<F, U>(run.units + t * U * run.unit_bytes, 0, begin);
  }
  const float* x[M];
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    x[m] = run.x[m];
  }
  std::uint32_t marks = F::marks(run, N, begin);
  for (std::size_t k = begin; k < end; k += kLineCols, marks >>= F::kLineGroups) {
    if (__builtin_expect(marks & 1, 0) != 0) {
      add_line<F, M, N, true>(decoder, streams, ahead, x, k, sums);
    } else {
      add_line<F, M, N, false>(decoder, streams, ahead, x, k, sums);
    }
    FT_UNROLL
    for (std::size_t t = 0; t < kStreams; ++t) {
      streams[t] += kStep;
    }
  }
}

/// M rows times N units.
template <typename F, std::size_t M, std::size_t N>
static void run_direct(const Run& run) noexcept {
  constexpr std::size_t kOutputs = N * kUnitOutputs;
  constexpr std::size_t kLineCols = F::kLineGroups * kGroupCols;
  const typename F::Decode decoder;
  const std::size_t n_in = run.weight->n_in;
  for (std::size_t k = 0, segment = 0; k < n_in; ++segment) {
    const std::size_t end = F::segment_end(*run.weight, k);
    Sums<M, N * kUnitVecs> sums;
    clear(sums);
    while (k < end) {
      std::size_t stop = smaller(end, (k / kBlockCols + 1) * kBlockCols);
      if (k % kLineCols == 0 && stop - k >= kLineCols) {
        stop -= (stop - k) % kLineCols;
        add_lines<F, M, N>(run, decoder, k, stop, sums);
      } else {
        stop = smaller(stop, k / kGroupCols * kGroupCols + kGroupCols);
        float ragged[M * kOutputs];
        store_sums(sums, ragged, kOutputs);
        add_ragged<F, N>(run, k, stop, ragged);
        load_sums(sums, ragged, kOutputs);
      }
      k = stop;
    }
    if constexpr (F::kHasScales) {
      float buffer[kOutputs];
      store_scaled(
          sums, F::scales(run, segment, kOutputs, buffer), segment == 0, run.out, kOutputs);
    } else {
      store_sums(sums, run.out, kOutputs);
    }
  }
}

// --- many rows ---

/// Columns [begin, end) of the run's N units to w[column][output].
template <typename F, std::size_t N>
static void decode_block(const Run& run, std::size_t begin, std::size_t end, float* w) noexcept {
  constexpr std::size_t U = kAlternating<F, N>;
  constexpr std::size_t kOutputs = N * kUnitOutputs;
  constexpr std::size_t kLineCols = F::kLineGroups * kGroupCols;
  const typename F::Decode decoder;
  const std::size_t ahead = prefetch_distance(run, begin, U * F::kLineBytes / kLineCols);
  for (std::size_t k = begin / kGroupCols * kGroupCols; k < end; k += kGroupCols) {
    FT_UNROLL
    for (std::size_t v = 0; v < N * kUnitVecs; ++v) {
      const std::size_t unit = v / kUnitVecs;
      const std::byte* stream = run.units + unit / U * U * run.unit_bytes;
      const std::byte* line = line_at<F, U>(stream, unit % U, k);
      if (v % kUnitVecs == 0 && group_in_line<F>(k) == 0) {
        FT_UNROLL
        for (std::size_t at = 0; at < F::kLineBytes; at += 64) {
          __builtin_prefetch(line + ahead + at, 0, 2);
        }
      }
      const Decoded decoded = F::decode(decoder, line, v % kUnitVecs, group_in_line<F>(k));
      FT_UNROLL
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
  float* part = step.part + row * S + column;
  Sums<M, V> sums;
  if (step.opens) {
    clear(sums);
  } else {
    load_sums(sums, part, S);
  }
  const float* x[M];
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    x[m] = step.x[row + m] + step.x_begin;
  }
  const float* w = step.w + column;
  for (std::size_t k = 0; k < step.n_cols; ++k, w += S) {
    Vec wk[V];
    FT_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
      wk[v] = load(w + v * kLanes);
    }
    FT_UNROLL
    for (std::size_t m = 0; m < M; ++m) {
      const Vec xk = broadcast(x[m][k]);
      FT_UNROLL
      for (std::size_t v = 0; v < V; ++v) {
        sums.of[m][v] = fma(wk[v], xk, sums.of[m][v]);
      }
    }
  }
  float* total = step.total + row * S + column;
  if (!step.closes) {
    store_sums(sums, part, S);
  } else if (step.scales == nullptr) {
    store_sums(sums, total, S);
  } else {
    store_scaled(sums, step.scales + column, step.is_first, total, S);
  }
}

}  // namespace ft::kernels::FT_ISA
