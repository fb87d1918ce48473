// Products of integer weights with int8 inputs, for any vector width. Included by an instruction
// set's int8.cc after its panels.h and int8.h, which defines
//   IntVec, Input    32-bit sums of kLanes outputs; four input codes for all of them
//   Dot<format>      codes of kLanes outputs times four columns, and their dot with an Input
//   unpack_codes     4-bit codes to bytes with the offset of q8
// Before it int8.cc says how much its registers hold:
//   kFewRows                 rows that a panel meets while it streams from memory
//   kPassRows, kPassPanels   rows that some panels meet while they lie in the cache
//
// Numbers: per output and group of kQuantGroup columns in order, total = fma(float(dot), weight's
// scale * input's scale, total) from 0. The dot is an exact integer of less than 2^24 whatever the
// order of its sum, so results are equal bit for bit on all instruction sets.
//
// Few rows: each panel is one sequential stream. Many rows: kRunPanels panels at a time, in chunks
// of kChunkBlocks blocks that stay in L2 while all rows pass; 4-bit codes are first unpacked to
// bytes there.
#pragma once

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/simd/finish-inl.h"
#include "kernels/cpu/simd/unroll.h"

#include <utility>

namespace ft::kernels::FT_ISA {

inline constexpr std::size_t kPanelVecs = kPanelRows / kLanes;
inline constexpr std::size_t kVecBytes = kLanes * kQuantStep;
inline constexpr std::size_t kLineBytes = kPanelRows * kQuantStep;
inline constexpr std::size_t kPairOutputs = kTilePanels * kPanelRows;
/// 1024 columns: 64 KiB of codes for four panels beside the rows' inputs.
inline constexpr std::size_t kChunkBlocks = 16;
inline constexpr std::size_t kByteBlock = kPanelRows * kQuantGroup;
/// Panels whose sums are finished together: pairs of gate and up stay whole.
inline constexpr std::size_t kRunPanels = kPassPanels < kTilePanels ? kTilePanels : kPassPanels;
static_assert(kRunPanels % kTilePanels == 0);
inline constexpr std::size_t kRunOutputs = kRunPanels * kPanelRows;
/// How far ahead a panel's stream is fetched.
inline constexpr std::size_t kAheadBytes = 2048;

/// One task's constants.
struct Int8Job {
  const LinearTask* task;
  std::size_t n_rows;
  std::size_t n_blocks;     // of a panel
  std::size_t block_bytes;  // of codes
  std::size_t panel_begin;
  std::size_t panel_end;
  const std::int8_t* x[kMaxTaskRows];
  Finish finish;
};

template <std::size_t M, std::size_t V>
struct IntSums {
  IntVec of[M][V];
};

/// The groups of a row follow its codes.
FT_INLINE const Int8Group& group_of(const std::int8_t* row,
                                    std::size_t n_blocks,
                                    std::size_t block) noexcept {
  return reinterpret_cast<const Int8Group*>(row + n_blocks * kQuantGroup)[block];
}

/// Sums that start with what the codes' offset is going to add, negated.
template <QuantFormat Q, std::size_t M, std::size_t V>
FT_INLINE void start_sums(IntSums<M, V>& sums,
                          const std::int8_t* const (&x)[M],
                          std::size_t n_blocks,
                          std::size_t block) noexcept {
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    const IntVec first = Dot<Q>::start(group_of(x[m], n_blocks, block).minus_sum);
    FT_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
      sums.of[m][v] = first;
    }
  }
}

/// total[m][v] = fma(sum, weight's scale * input's scale, total).
template <std::size_t Stride, std::size_t M, std::size_t V>
FT_INLINE void add_scaled(const IntSums<M, V>& sums,
                          const Vec (&scales)[V],
                          const std::int8_t* const (&x)[M],
                          std::size_t n_blocks,
                          std::size_t block,
                          float* total) noexcept {
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    const Vec input_scale = broadcast(group_of(x[m], n_blocks, block).scale);
    FT_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
      float* to = total + m * Stride + v * kLanes;
      store(to, fma(to_float(sums.of[m][v]), mul(scales[v], input_scale), load(to)));
    }
  }
}

static void clear_floats(float* to, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; i += kLanes) {
    store(to + i, zero());
  }
}

// --- few rows ---

/// out[m][o] = row m times output o of one panel; rows of `out` are kPairOutputs apart.
template <QuantFormat Q, std::size_t M>
static void dot_panel(const Int8Job& job, std::size_t panel, float* out) noexcept {
  constexpr std::size_t kSteps = Dot<Q>::kSteps;
  constexpr std::size_t kLines = kQuantGroup / kQuantStep / kSteps;
  const QuantMatrix& matrix = job.task->weight->quant;
  const std::size_t n_blocks = job.n_blocks;
  const std::byte* line = matrix.codes + panel * n_blocks * job.block_bytes;
  const std::int8_t* x[M];
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    x[m] = job.x[m];
    clear_floats(out + m * kPairOutputs, kPanelRows);
  }
  for (std::size_t block = 0; block < n_blocks; ++block) {
    IntSums<M, kPanelVecs> sums;
    start_sums<Q>(sums, x, n_blocks, block);
    FT_UNROLL
    for (std::size_t i = 0; i < kLines; ++i) {
      const std::size_t k = block * kQuantGroup + i * kSteps * kQuantStep;
      __builtin_prefetch(line + kAheadBytes, 0, 2);
      FT_UNROLL
      for (std::size_t step = 0; step < kSteps; ++step) {
        FT_UNROLL
        for (std::size_t v = 0; v < kPanelVecs; ++v) {
          const auto codes = Dot<Q>::load_codes(line + v * kVecBytes, step);
          FT_UNROLL
          for (std::size_t m = 0; m < M; ++m) {
            const Input input = load_input(x[m] + k + step * kQuantStep);
            sums.of[m][v] = Dot<Q>::add(sums.of[m][v], codes, input);
          }
        }
      }
      line += kLineBytes;
    }
    Vec scales[kPanelVecs];
    FT_UNROLL
    for (std::size_t v = 0; v < kPanelVecs; ++v) {
      scales[v] = load_scales(matrix, (panel * n_blocks + block) * kPanelRows + v * kLanes);
    }
    add_scaled<kPairOutputs>(sums, scales, x, n_blocks, block, out);
  }
}

// --- many rows ---

/// Some blocks of up to kRunPanels panels, as bytes.
struct Int8Chunk {
  const std::byte* codes;
  std::size_t panel_bytes;  // from panel to panel
  const float* scales;      // [panel, kChunkBlocks, kPanelRows]
  std::size_t first_block;
  std::size_t n_blocks;
  float* total;  // [rows, kRunOutputs]
};

/// Rows [row, row + M) times panels [panel, panel + P) of the chunk.
template <std::size_t M, std::size_t P>
static void dot_chunk(const Int8Job& job,
                      const Int8Chunk& chunk,
                      std::size_t row,
                      std::size_t panel) noexcept {
  using Bytes = Dot<QuantFormat::kQ8>;
  constexpr std::size_t V = P * kPanelVecs;
  const std::byte* line = chunk.codes + panel * chunk.panel_bytes;
  const std::size_t panel_bytes = chunk.panel_bytes;
  const float* at_scales = chunk.scales + panel * kChunkBlocks * kPanelRows;
  float* total = chunk.total + row * kRunOutputs + panel * kPanelRows;
  const std::int8_t* x[M];
  FT_UNROLL
  for (std::size_t m = 0; m < M; ++m) {
    x[m] = job.x[row + m];
  }
  const std::size_t end_block = chunk.first_block + chunk.n_blocks;
  for (std::size_t block = chunk.first_block; block < end_block; ++block) {
    IntSums<M, V> sums;
    start_sums<QuantFormat::kQ8>(sums, x, job.n_blocks, block);
    FT_UNROLL
    for (std::size_t step = 0; step < kQuantGroup / kQuantStep; ++step) {
      const std::size_t k = block * kQuantGroup + step * kQuantStep;
      typename Bytes::Codes codes[V];
      FT_UNROLL
      for (std::size_t v = 0; v < V; ++v) {
        codes[v] =
            Bytes::load_codes(line + v / kPanelVecs * panel_bytes + v % kPanelVecs * kVecBytes, 0);
      }
      FT_UNROLL
      for (std::size_t m = 0; m < M; ++m) {
        const Input input = load_input(x[m] + k);
        FT_UNROLL
        for (std::size_t v = 0; v < V; ++v) {
          sums.of[m][v] = Bytes::add(sums.of[m][v], codes[v], input);
        }
      }
      line += kLineBytes;
    }
    Vec scales[V];
    FT_UNROLL
    for (std::size_t v = 0; v < V; ++v) {
      const std::size_t at = v / kPanelVecs * kChunkBlocks * kPanelRows;
      scales[v] = load(at_scales + at + v % kPanelVecs * kLanes);
    }
    at_scales += kPanelRows;
    add_scaled<kRunOutputs>(sums, scales, x, job.n_blocks, block, total);
  }
}

/// Scales of blocks [begin, begin + n) of panels [panel, panel + n_panels) as f32.
static void copy_scales(const Int8Job& job,
                        std::size_t panel,
                        std::size_t n_panels,
                        std::size_t begin,
                        std::size_t n,
                        float* to) noexcept {
  for (std::size_t p = 0; p < n_panels; ++p) {
    const std::size_t first = ((panel + p) * job.n_blocks + begin) * kPanelRows;
    for (std::size_t i = 0; i < n * kPanelRows; i += kLanes) {
      store(to + p * kChunkBlocks * kPanelRows + i,
            load_scales(job.task->weight->quant, first + i));
    }
  }
}

/// n blocks of 4-bit codes to blocks of bytes.
static void unpack_blocks(const std::byte* from, std::size_t n, std::byte* to) noexcept {
  constexpr std::size_t kSteps = Dot<QuantFormat::kQ4>::kSteps;
  for (std::size_t line = 0; line < n * kByteBlock / kLineBytes; line += kSteps) {
    for (std::size_t v = 0; v < kPanelVecs; ++v) {
      for (std::size_t step = 0; step < kSteps; ++step) {
        unpack_codes(from + v * kVecBytes, step, to + step * kLineBytes + v * kVecBytes);
      }
    }
    from += kLineBytes;
    to += kSteps * kLineBytes;
  }
}

// --- tasks ---

using PanelFunction = void (*)(const Int8Job&, std::size_t, float*) noexcept;
using ChunkFunction = void (*)(const Int8Job&, const Int8Chunk&, std::size_t, std::size_t) noexcept;

template <QuantFormat Q, std::size_t... M>
static PanelFunction panel_function(std::size_t n_rows, std::index_sequence<M...>) noexcept {
  static constexpr PanelFunction kOf[] = {nullptr, dot_panel<Q, M + 1>...};
  return kOf[n_rows];
}
template <std::size_t P, std::size_t... M>
static ChunkFunction chunk_function(std::size_t n_rows, std::index_sequence<M...>) noexcept {
  static constexpr ChunkFunction kOf[] = {nullptr, dot_chunk<M + 1, P>...};
  return kOf[n_rows];
}

template <QuantFormat Q>
static void run_few_int8_rows(const Int8Job& job) noexcept {
  const LinearTask& task = *job.task;
  const PanelFunction dot = panel_function<Q>(job.n_rows, std::make_index_sequence<kFewRows>());
  for (std::size_t panel = job.panel_begin; panel < job.panel_end; panel += kTilePanels) {
    const std::size_t n = smaller(kTilePanels, job.panel_end - panel);
    for (std::size_t p = 0; p < n; ++p) {
      dot(job, panel + p, task.scratch + p * kPanelRows);
    }
    job.finish(task, {task.scratch, kPairOutputs, n * kPanelRows}, panel * kPanelRows);
  }
}

/// All rows times the first n panels of the chunk.
static void run_chunk(const Int8Job& job, const Int8Chunk& chunk, std::size_t n) noexcept {
  constexpr auto kRows = std::make_index_sequence<kPassRows>();
  const std::size_t n_passes = (job.n_rows + kPassRows - 1) / kPassRows;
  for (std::size_t pass = 0, row = 0; pass < n_passes; ++pass) {
    const std::size_t next = (pass + 1) * job.n_rows / n_passes;
    std::size_t panel = 0;
    for (; panel + kPassPanels <= n; panel += kPassPanels) {
      chunk_function<kPassPanels>(next - row, kRows)(job, chunk, row, panel);
    }
    for (; panel < n; ++panel) {
      chunk_function<1>(next - row, kRows)(job, chunk, row, panel);
    }
    row = next;
  }
}

static void run_many_int8_rows(const Int8Job& job) noexcept {
  const LinearTask& task = *job.task;
  const QuantMatrix& matrix = task.weight->quant;
  float* total = task.scratch;
  float* scales = total + kMaxTaskRows * kRunPanels * kPanelRows;
  auto* bytes = reinterpret_cast<std::byte*>(scales + kRunPanels * kChunkBlocks * kPanelRows);
  static_assert((kMaxTaskRows + kChunkBlocks) * kRunPanels * kPanelRows +
                    kRunPanels * kChunkBlocks * kByteBlock / sizeof(float) <=
                kScratchFloats);
  for (std::size_t panel = job.panel_begin; panel < job.panel_end; panel += kRunPanels) {
    const std::size_t n_panels = smaller(kRunPanels, job.panel_end - panel);
    clear_floats(total, job.n_rows * kRunOutputs);
    for (std::size_t block = 0; block < job.n_blocks; block += kChunkBlocks) {
      const std::size_t n = smaller(kChunkBlocks, job.n_blocks - block);
      const std::byte* codes = matrix.codes + (panel * job.n_blocks + block) * job.block_bytes;
      Int8Chunk chunk = {.codes = codes,
                         .panel_bytes = job.n_blocks * job.block_bytes,
                         .scales = scales,
                         .first_block = block,
                         .n_blocks = n,
                         .total = total};
      if (matrix.format == QuantFormat::kQ4) {
        for (std::size_t p = 0; p < n_panels; ++p) {
          unpack_blocks(codes + p * chunk.panel_bytes, n, bytes + p * kChunkBlocks * kByteBlock);
        }
        chunk.codes = bytes;
        chunk.panel_bytes = kChunkBlocks * kByteBlock;
      }
      copy_scales(job, panel, n_panels, block, n, scales);
      run_chunk(job, chunk, n_panels);
    }
    job.finish(task, {total, kRunOutputs, n_panels * kPanelRows}, panel * kPanelRows);
  }
}

static void run_int8_task(const LinearTask& task, Finish finish) noexcept {
  const QuantMatrix& matrix = task.weight->quant;
  Int8Job job;
  job.task = &task;
  job.n_rows = task.row_end - task.row_begin;
  job.n_blocks = (matrix.n_cols + kQuantGroup - 1) / kQuantGroup;
  job.block_bytes = matrix.format == QuantFormat::kQ8 ? kByteBlock : kByteBlock / 2;
  job.panel_begin = task.tile_begin * kTilePanels;
  job.panel_end =
      smaller(task.tile_end * kTilePanels, (matrix.n_rows + kPanelRows - 1) / kPanelRows);
  job.finish = finish;
  for (std::size_t i = 0; i < job.n_rows; ++i) {
    const std::size_t row = task.row_begin + i;
    const std::size_t at = task.x_rows != nullptr ? task.x_rows[row] : row;
    job.x[i] = reinterpret_cast<const std::int8_t*>(task.x_int8 + at * task.x_int8_stride);
  }
  if (job.n_rows > kFewRows) {
    run_many_int8_rows(job);
  } else if (matrix.format == QuantFormat::kQ8) {
    run_few_int8_rows<QuantFormat::kQ8>(job);
  } else {
    run_few_int8_rows<QuantFormat::kQ4>(job);
  }
}

}  // namespace ft::kernels::FT_ISA
