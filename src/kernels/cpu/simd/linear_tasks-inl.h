// Tasks of matmul and swiglu cut into the loops of linear-inl.h. Included by an instruction set's
// linear.cc, which defines before how much its registers hold:
//   kRegisters     vector registers
//   kMaxPairRows   rows that two tiles at once have accumulators for
//   kMaxTileRows   the same for one tile; more rows go through decoded blocks
//   kBlockRows, kBlockVecs   rows and vectors of outputs of one pass over a decoded block
#pragma once

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

template <typename F, std::size_t N, std::size_t... M>
constexpr ByRows<DirectFunction, sizeof...(M)> make_direct(std::index_sequence<M...>) noexcept {
  return {{nullptr, run_direct<F, M + 1, N>...}};
}
template <std::size_t V, std::size_t S, std::size_t... M>
constexpr ByRows<BlockFunction, sizeof...(M)> make_block(std::index_sequence<M...>) noexcept {
  return {{nullptr, run_block<M + 1, V, S>...}};
}

template <typename F>
inline constexpr auto kDirectPair =
    make_direct<F, 2 * kTileUnits>(std::make_index_sequence<kMaxPairRows>());
template <typename F>
inline constexpr auto kDirectTile =
    make_direct<F, kTileUnits>(std::make_index_sequence<kMaxTileRows>());
template <typename F>
inline constexpr auto kDirectUnit = make_direct<F, 1>(std::make_index_sequence<kMaxTileRows>());

template <std::size_t U>
inline constexpr std::size_t kBlockWidth = U* kUnitVecs < kBlockVecs ? U* kUnitVecs : kBlockVecs;
template <std::size_t U>
inline constexpr auto kBlock =
    make_block<kBlockWidth<U>, U * kUnitOutputs>(std::make_index_sequence<kBlockRows>());

/// One task's constants.
struct Job {
  const LinearTask* task;
  const float* x[kMaxTaskRows];
  std::size_t n_rows;
  std::size_t n_units;     // of the weight
  std::size_t unit_bytes;  // all columns
  Finish finish;
};

/// Units [unit, unit + n) of the weight, up to a tile or two.
static Run run_of(const Job& job, std::size_t unit, std::size_t n, float* out) noexcept {
  const LinearTask& task = *job.task;
  const std::byte* data = task.weight->quant.codes;
  const bool is_last = unit + n >= smaller(job.n_units, task.tile_end * kTileUnits);
  return {.weight = task.weight,
          .units = (data != nullptr ? data : task.weight->data) + unit * job.unit_bytes,
          .unit_bytes = job.unit_bytes,
          .first = unit * kUnitOutputs,
          .n_outputs = job.n_units * kUnitOutputs,
          .x = job.x,
          .n_rows = job.n_rows,
          .out = out,
          .next_bytes = is_last ? 0 : n * job.unit_bytes};
}

template <typename F>
static void run_few_rows(const Job& job) noexcept {
  const LinearTask& task = *job.task;
  const std::size_t end = smaller(job.n_units, task.tile_end * kTileUnits);
  for (std::size_t unit = task.tile_begin * kTileUnits; unit < end;) {
    const std::size_t left = end - unit;
    const bool is_pair = job.n_rows <= kMaxPairRows && left >= 2 * kTileUnits;
    const std::size_t n = is_pair ? 2 * kTileUnits : smaller(left, kTileUnits);
    const Run run = run_of(job, unit, n, task.scratch);
    if (is_pair) {
      kDirectPair<F>.of[job.n_rows](run);
    } else if (n == kTileUnits) {
      kDirectTile<F>.of[job.n_rows](run);
    } else {
      kDirectUnit<F>.of[job.n_rows](run);
    }
    job.finish(task, {task.scratch, n * kUnitOutputs, n * kUnitOutputs}, run.first);
    unit += n;
  }
}

/// All rows of the task times one tile of N units; sums go to step.total.
template <typename F, std::size_t N>
static void run_tile(const Run& run, BlockStep& step, float* decoded) noexcept {
  constexpr std::size_t kOutputs = N * kUnitOutputs;
  const Weight& weight = *run.weight;
  const std::size_t n_chunks = (run.n_rows + kBlockRows - 1) / kBlockRows;
  for (std::size_t k = 0, segment = 0; k < weight.n_in; ++segment) {
    const std::size_t segment_start = k;
    const std::size_t segment_stop = F::segment_end(weight, k);
    float buffer[kOutputs];
    step.scales = F::scales(run, segment, kOutputs, buffer);
    while (k < segment_stop) {
      const std::size_t stop = smaller(segment_stop, k + kBlockCols);
      decode_block<F, N>(run, k, stop, decoded);
      step.n_cols = stop - k;
      step.x_begin = k;
      step.opens = k == segment_start;
      step.closes = stop == segment_stop;
      step.is_first = segment == 0;
      for (std::size_t chunk = 0, row = 0; chunk < n_chunks; ++chunk) {
        const std::size_t next = (chunk + 1) * run.n_rows / n_chunks;
        for (std::size_t column = 0; column < kOutputs; column += kBlockWidth<N> * kLanes) {
          kBlock<N>.of[next - row](step, row, column);
        }
        row = next;
      }
      k = stop;
    }
  }
}

template <typename F>
static void run_many_rows(const Job& job) noexcept {
  const LinearTask& task = *job.task;
  float* decoded = task.scratch;
  float* total = decoded + kBlockCols * kTileOutputs;
  BlockStep step = {};
  step.w = decoded;
  step.x = job.x;
  step.total = total;
  step.part = total + kMaxTaskRows * kTileOutputs;
  const std::size_t end = smaller(job.n_units, task.tile_end * kTileUnits);
  for (std::size_t unit = task.tile_begin * kTileUnits; unit < end; unit += kTileUnits) {
    const std::size_t n = smaller(end - unit, kTileUnits);
    const Run run = run_of(job, unit, n, total);
    if (n == kTileUnits) {
      run_tile<F, kTileUnits>(run, step, decoded);
    } else {
      run_tile<F, 1>(run, step, decoded);
    }
    job.finish(task, {total, n * kUnitOutputs, n * kUnitOutputs}, run.first);
  }
}

template <typename F>
static void run_job(Job& job) noexcept {
  constexpr std::size_t kLineCols = F::kLineGroups * kGroupCols;
  // Panels are whole blocks, tiles whole groups.
  constexpr std::size_t kPadCols = F::kStreamUnits == 1 ? kQuantGroup : kLineCols;
  const std::size_t n_in = (job.task->weight->n_in + kPadCols - 1) / kPadCols * kPadCols;
  job.unit_bytes = n_in / kLineCols * F::kLineBytes;
  if (job.n_rows <= kMaxTileRows) {
    run_few_rows<F>(job);
  } else {
    run_many_rows<F>(job);
  }
}

static void run_packed(Job& job) noexcept {
  switch (job.task->weight->dtype) {
    case DType::kF32:
      return run_job<Packed<DType::kF32>>(job);
    case DType::kBF16:
      return run_job<Packed<DType::kBF16>>(job);
    case DType::kF16:
      return run_job<Packed<DType::kF16>>(job);
    case DType::kF8E4M3:
      return run_job<Packed<DType::kF8E4M3>>(job);
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
  job.n_units = n_units;
  job.finish = finish;
  if (task.weight->quant.codes == nullptr) {
    run_packed(job);
  } else if (task.weight->quant.format == QuantFormat::kQ8) {
    run_job<Panels<QuantFormat::kQ8>>(job);
  } else {
    run_job<Panels<QuantFormat::kQ4>>(job);
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
