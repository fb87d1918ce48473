// Tasks of matmul and swiglu cut into the loops of linear-inl.h. Included by an instruction set's
// linear.cc, which defines before how much its registers hold:
//   kRegisters     vector registers
//   kMaxPairRows   rows that two tiles at once have accumulators for
//   kMaxTileRows   the same for one tile; more rows go through decoded blocks
//   kBlockRows, kBlockVecs   rows and vectors of outputs of one pass over a decoded block
#pragma once

#include "kernels/cpu/simd/exp-inl.h"
#include "kernels/cpu/simd/linear-inl.h"

#include <utility>

namespace ft::kernels::FT_ISA {

using DirectFunction = void (*)(const Run&) noexcept;
using BlockFunction = void (*)(const BlockStep&, std::size_t, std::size_t) noexcept;

/// Functions for 1 … N rows.
template <typename Function, std::size_t N>
struct ByRows {
  Function of[N + 1];
};

template <DType D, std::size_t T, std::size_t U, std::size_t... M>
constexpr ByRows<DirectFunction, sizeof...(M)> make_direct(std::index_sequence<M...>) noexcept {
  return {{nullptr, run_direct<D, M + 1, T, U>...}};
}
template <std::size_t V, std::size_t S, std::size_t... M>
constexpr ByRows<BlockFunction, sizeof...(M)> make_block(std::index_sequence<M...>) noexcept {
  return {{nullptr, run_block<M + 1, V, S>...}};
}

template <DType D>
inline constexpr auto kDirectPair =
    make_direct<D, 2, kTileUnits>(std::make_index_sequence<kMaxPairRows>());
template <DType D>
inline constexpr auto kDirectTile =
    make_direct<D, 1, kTileUnits>(std::make_index_sequence<kMaxTileRows>());
template <DType D>
inline constexpr auto kDirectUnit = make_direct<D, 1, 1>(std::make_index_sequence<kMaxTileRows>());

template <std::size_t U>
inline constexpr std::size_t kBlockWidth = U* kUnitVecs < kBlockVecs ? U* kUnitVecs : kBlockVecs;
template <std::size_t U>
inline constexpr auto kBlock =
    make_block<kBlockWidth<U>, U * kUnitOutputs>(std::make_index_sequence<kBlockRows>());

/// What happens to finished sums [n_rows, n_sums] that start at output `first`.
using Finish = void (*)(const LinearTask& task,
                        const float* sums,
                        std::size_t n_sums,
                        std::size_t first) noexcept;

static void finish_matmul(const LinearTask& task,
                          const float* sums,
                          std::size_t n_sums,
                          std::size_t first) noexcept {
  const std::size_t n = smaller(n_sums, task.n_y - first);
  for (std::size_t row = task.row_begin; row < task.row_end; ++row, sums += n_sums) {
    float* y = task.y + row * task.y_stride + first;
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Vec v = load(sums + i);
      store(y + i, task.adds ? add(load(y + i), v) : v);
    }
    if (i < n) {
      const Vec v = load(sums + i);
      store_partial(y + i, task.adds ? add(load_partial(y + i, n - i), v) : v, n - i);
    }
  }
}

/// Units alternate between gate and up.
static void finish_swiglu(const LinearTask& task,
                          const float* sums,
                          std::size_t n_sums,
                          std::size_t first) noexcept {
  for (std::size_t row = task.row_begin; row < task.row_end; ++row, sums += n_sums) {
    for (std::size_t unit = 0; unit < n_sums; unit += 2 * kUnitOutputs) {
      const std::size_t out = (first + unit) / 2;
      float* y = task.y + row * task.y_stride + out;
      const std::size_t n = smaller(kUnitOutputs, task.n_y - out);
      for (std::size_t i = 0; i < n; i += kLanes) {
        const Vec value = mul(silu(load(sums + unit + i)), load(sums + unit + kUnitOutputs + i));
        if (i + kLanes <= n) {
          store(y + i, value);
        } else {
          store_partial(y + i, value, n - i);
        }
      }
    }
  }
}

/// One task's constants.
struct Job {
  const LinearTask* task;
  const float* x[kMaxTaskRows];
  std::size_t n_rows;
  std::size_t n_units;     // of the weight
  std::size_t unit_bytes;  // all columns
  Finish finish;
};

template <DType D>
static void run_few_rows(const Job& job) noexcept {
  const LinearTask& task = *job.task;
  const std::size_t full_tiles = job.n_units / kTileUnits;
  std::size_t tile = task.tile_begin;
  while (tile < task.tile_end) {
    const bool is_pair =
        job.n_rows <= kMaxPairRows && tile + 1 < task.tile_end && tile + 1 < full_tiles;
    const std::size_t n_tiles = is_pair ? 2 : 1;
    const std::size_t tile_bytes = kTileUnits * job.unit_bytes;
    const std::byte* at = task.weight->data + tile * tile_bytes;
    const std::size_t first = tile * kTileOutputs;
    const Run run = {task.weight,
                     {at, at + tile_bytes},
                     task.weight->scales == nullptr ? nullptr : task.weight->scales + first,
                     job.n_units * kUnitOutputs,
                     job.x,
                     job.n_rows,
                     task.scratch,
                     tile + n_tiles < task.tile_end ? n_tiles * tile_bytes : 0};
    if (is_pair) {
      kDirectPair<D>.of[job.n_rows](run);
      job.finish(task, task.scratch, 2 * kTileOutputs, first);
    } else if (tile < full_tiles) {
      kDirectTile<D>.of[job.n_rows](run);
      job.finish(task, task.scratch, kTileOutputs, first);
    } else {
      kDirectUnit<D>.of[job.n_rows](run);
      job.finish(task, task.scratch, kUnitOutputs, first);
    }
    tile += n_tiles;
  }
}

/// All rows of the task times one tile of U units; sums go to step.total.
template <DType D, std::size_t U>
static void run_tile(const Job& job,
                     const std::byte* tile,
                     const float* scales,
                     BlockStep& step,
                     float* decoded) noexcept {
  constexpr std::size_t kOutputs = U * kUnitOutputs;
  const Weight& weight = *job.task->weight;
  const std::size_t n_chunks = (job.n_rows + kBlockRows - 1) / kBlockRows;
  for (std::size_t k = 0; k < weight.n_in;) {
    const std::size_t segment_start = k;
    const std::size_t segment_stop = segment_end(weight, k);
    while (k < segment_stop) {
      const std::size_t stop = smaller(segment_stop, k + kBlockCols);
      decode_block<D, U>(tile, k, stop, decoded);
      step.n_cols = stop - k;
      step.x_begin = k;
      step.scales = scales;
      step.opens = k == segment_start;
      step.closes = stop == segment_stop;
      step.is_first = segment_start == 0;
      for (std::size_t chunk = 0, row = 0; chunk < n_chunks; ++chunk) {
        const std::size_t next = (chunk + 1) * job.n_rows / n_chunks;
        for (std::size_t column = 0; column < kOutputs; column += kBlockWidth<U> * kLanes) {
          kBlock<U>.of[next - row](step, row, column);
        }
        row = next;
      }
      k = stop;
    }
    scales = scales == nullptr ? nullptr : scales + job.n_units * kUnitOutputs;
  }
}

template <DType D>
static void run_many_rows(const Job& job) noexcept {
  const LinearTask& task = *job.task;
  float* decoded = task.scratch;
  float* total = decoded + kBlockCols * kTileOutputs;
  BlockStep step = {};
  step.w = decoded;
  step.x = job.x;
  step.total = total;
  step.part = total + kMaxTaskRows * kTileOutputs;
  for (std::size_t tile = task.tile_begin; tile < task.tile_end; ++tile) {
    const std::byte* at = task.weight->data + tile * kTileUnits * job.unit_bytes;
    const std::size_t first = tile * kTileOutputs;
    const float* scales = task.weight->scales == nullptr ? nullptr : task.weight->scales + first;
    if (tile < job.n_units / kTileUnits) {
      run_tile<D, kTileUnits>(job, at, scales, step, decoded);
      job.finish(task, total, kTileOutputs, first);
    } else {
      run_tile<D, 1>(job, at, scales, step, decoded);
      job.finish(task, total, kUnitOutputs, first);
    }
  }
}

template <DType D>
static void run_job(const Job& job) noexcept {
  if (job.n_rows <= kMaxTileRows) {
    run_few_rows<D>(job);
  } else {
    run_many_rows<D>(job);
  }
}

static void run_task(const LinearTask& task, std::size_t n_units, Finish finish) noexcept {
  Job job;
  job.task = &task;
  job.n_rows = task.row_end - task.row_begin;
  for (std::size_t i = 0; i < job.n_rows; ++i) {
    const std::size_t row = task.row_begin + i;
    job.x[i] = task.x + (task.x_rows != nullptr ? task.x_rows[row] : row) * task.x_stride;
  }
  const DType dtype = task.weight->dtype;
  const std::size_t width = dtype == DType::kF32 ? 4 : dtype == DType::kF8E4M3 ? 1 : 2;
  job.n_units = n_units;
  job.unit_bytes = (task.weight->n_in + kGroupCols - 1) / kGroupCols * kGroupSize * width;
  job.finish = finish;
  switch (dtype) {
    case DType::kF32:
      return run_job<DType::kF32>(job);
    case DType::kBF16:
      return run_job<DType::kBF16>(job);
    case DType::kF16:
      return run_job<DType::kF16>(job);
    case DType::kF8E4M3:
      return run_job<DType::kF8E4M3>(job);
  }
}

// Included once per instruction set, so each namespace gets one definition.
// NOLINTNEXTLINE(misc-definitions-in-headers): see above
void matmul(const LinearTask& task) noexcept {
  run_task(task, (task.weight->n_out + kUnitOutputs - 1) / kUnitOutputs, finish_matmul);
}

// NOLINTNEXTLINE(misc-definitions-in-headers): as matmul()
void swiglu(const LinearTask& task) noexcept {
  const std::size_t n_hidden = task.weight->n_out / 2;
  run_task(task, (n_hidden + kUnitOutputs - 1) / kUnitOutputs * 2, finish_swiglu);
}

}  // namespace ft::kernels::FT_ISA
