#include "kernels/cpu/cpu_backend.h"

#include "kernels/cpu/linear_schedule.h"

#include <algorithm>
#include <cassert>

namespace ft::kernels {
namespace {

static_assert(Int8Inputs::kMax <= LinearSchedule::kMaxOps);

// Costs are counted in bytes of weights streamed for one row, about 0.05 ns each with both cores at
// it.

/// Below this a fork-join (about a microsecond) costs more than the second thread saves.
constexpr std::size_t kForkCost = std::size_t{24} * 1024;
/// Smallest share of work worth claiming on its own.
constexpr std::size_t kMinItemCost = std::size_t{32} * 1024;
/// Largest one: a thread that loses its processor keeps the others waiting for no more than this.
constexpr std::size_t kMaxItemCost = std::size_t{2} << 20;
/// Input of a block of rows that stays in a core's L2 cache while all tiles pass over it.
constexpr std::size_t kBlockInputBytes = std::size_t{1} << 20;
constexpr std::size_t kMinBlockRows = 48;
/// What counts of a row of 8-bit codes: they are multiplied in chunks of columns, so more rows pay
/// off than the cache holds whole.
constexpr std::size_t kInt8RowBytes = 4096;
/// From so many rows on, integer weights are multiplied four panels at a time: a step must hold
/// them.
constexpr std::size_t kManyRows = 17;
constexpr std::size_t kStepTiles = 4 / kTilePanels;
/// Int8 inputs of one call: a thousand rows of the widest layer of a large model.
constexpr std::size_t kInt8InputBytes = std::size_t{32} << 20;

std::size_t divide_up(std::size_t n, std::size_t d) noexcept {
  return (n + d - 1) / d;
}

/// How one product is cut: row blocks times steps of a tile or a few, the latter fastest.
struct LinearPlan {
  std::size_t n_tiles = 0;
  std::size_t tiles_per_step = 1;
  std::size_t steps_per_block = 0;
  std::size_t n_row_blocks = 0;
  std::size_t rows_per_block = 0;
  std::size_t step_cost = 0;
};

/// The tiles of a product's weight.
struct Tiles {
  std::size_t n = 0;
  std::size_t bytes = 0;     // of one
  std::size_t elements = 0;  // of one
  std::size_t per_step = 1;  // a step must hold whole pairs of gate and up
};

Tiles packed_tiles(const WeightFormat& format, const Weight& weight, bool is_gate_up) noexcept {
  return {.n = count_tiles(format, count_units(format, weight.n_out, is_gate_up)),
          .bytes = tile_bytes(format, weight),
          .elements = format.tile_units * format.unit_outputs * round_up(weight.n_in, kGroupCols),
          .per_step = is_gate_up && format.tile_units == 1 ? std::size_t{2} : std::size_t{1}};
}

Tiles panel_tiles(const QuantMatrix& matrix, std::size_t n_rows) noexcept {
  const std::size_t blocks = kTilePanels * matrix.n_blocks();
  return {.n = divide_up(matrix.n_panels(), kTilePanels),
          .bytes = blocks * block_code_bytes(matrix.format),
          .elements = blocks * kPanelRows * kQuantGroup,
          .per_step = n_rows >= kManyRows ? kStepTiles : std::size_t{1}};
}

/// What a row beside the first adds to a tile's cost. Four rows of multiply-adds take about as long
/// as a byte, sixteen if they are of integers.
std::size_t row_cost(const Weight& weight, const Tiles& tiles) noexcept {
  return tiles.elements / (weight.activation == Activation::kInt8 ? 16 : 4);
}

template <typename Op>
LinearPlan plan_shape(const WeightFormat& format, const Op& op, std::size_t n_threads) noexcept {
  const Weight& weight = *op.weight;
  assert(op.x.n_cols == weight.n_in);
  constexpr bool kIsGateUp = std::is_same_v<Op, SwigluOp>;
  assert(!kIsGateUp || weight.quant.n_rows % (2 * kPanelRows) == 0);
  const Tiles tiles = weight.quant.codes != nullptr ? panel_tiles(weight.quant, op.y.n_rows)
                                                    : packed_tiles(format, weight, kIsGateUp);
  LinearPlan plan;
  plan.n_tiles = tiles.n;
  plan.tiles_per_step = tiles.per_step;
  plan.steps_per_block = divide_up(plan.n_tiles, plan.tiles_per_step);
  if (op.y.n_rows == 0) {
    return plan;
  }
  const std::size_t row_bytes = weight.activation == Activation::kInt8
                                    ? std::min(op.x.n_cols, kInt8RowBytes)
                                    : op.x.n_cols * sizeof(float);
  const std::size_t cached_rows =
      std::max(kMinBlockRows, kBlockInputBytes / std::max<std::size_t>(1, row_bytes));
  const std::size_t wanted = divide_up(op.y.n_rows, std::min(cached_rows, kMaxTaskRows));
  // A narrow matrix needs more row blocks to occupy the threads.
  const std::size_t for_threads = divide_up(4 * n_threads, plan.steps_per_block);
  plan.n_row_blocks =
      std::max(wanted, std::min(for_threads, divide_up(op.y.n_rows, kMinBlockRows)));
  plan.rows_per_block = divide_up(op.y.n_rows, plan.n_row_blocks);
  plan.n_row_blocks = divide_up(op.y.n_rows, plan.rows_per_block);
  plan.step_cost =
      plan.tiles_per_step * (tiles.bytes + row_cost(weight, tiles) * (plan.rows_per_block - 1));
  return plan;
}

}  // namespace

CpuBackend::CpuBackend(Isa isa, const CpuKernels& kernels, ThreadPool& pool)
    : isa_(isa),
      kernels_(kernels),
      pool_(pool),
      scratch_(pool.n_threads() * kScratchFloats * sizeof(float)),
      int8_inputs_(kInt8InputBytes),
      wide_keys_(kernels, pool.n_threads()) {}

float* CpuBackend::scratch(std::size_t thread) noexcept {
  return scratch_.as<float>(kScratchFloats * (thread + 1)).data() + kScratchFloats * thread;
}

std::size_t CpuBackend::packed_bytes(std::span<const StoredMatrix> parts) const {
  return packed_weight_bytes(kernels_.weight_format, parts, false);
}

Weight CpuBackend::pack(std::span<const StoredMatrix> parts,
                        std::span<std::byte> destination) const {
  return pack_weight(kernels_.weight_format, parts, false, destination);
}

std::size_t CpuBackend::packed_gate_up_bytes(const StoredMatrix& gate,
                                             const StoredMatrix& up) const {
  const StoredMatrix parts[2] = {gate, up};
  return packed_weight_bytes(kernels_.weight_format, parts, true);
}

Weight CpuBackend::pack_gate_up(const StoredMatrix& gate,
                                const StoredMatrix& up,
                                std::span<std::byte> destination) const {
  const StoredMatrix parts[2] = {gate, up};
  return pack_weight(kernels_.weight_format, parts, true, destination);
}

Weight CpuBackend::view(const QuantMatrix& matrix, Activation activation) const noexcept {
  assert(reinterpret_cast<std::uintptr_t>(matrix.codes) % 64 == 0);
  Weight weight;
  weight.n_out = matrix.n_rows;
  weight.n_in = matrix.n_cols;
  weight.quant = matrix;
  weight.activation = activation;
  return weight;
}

template <typename Op>
void CpuBackend::run_linear(std::span<const Op> ops) noexcept {
  while (!ops.empty()) {
    const std::size_t n = int8_inputs_.lay_out(ops);
    if (n > 0) {
      run_planned(ops.first(n));
    } else {
      run_in_parts(ops[0]);
    }
    ops = ops.subspan(std::max<std::size_t>(1, n));
  }
}

template <typename Op>
void CpuBackend::run_in_parts(const Op& op) noexcept {
  const std::size_t most = int8_inputs_.most_rows(op.x.n_cols);
  for (std::size_t row = 0; row < op.y.n_rows; row += most) {
    Op part = op;
    part.y.data += row * op.y.stride;
    part.y.n_rows = std::min(most, op.y.n_rows - row);
    if (op.x_rows != nullptr) {
      part.x_rows += row;
    } else {
      part.x.data += row * op.x.stride;
      part.x.n_rows = part.y.n_rows;
    }
    int8_inputs_.lay_out(std::span<const Op>(&part, 1));
    run_planned(std::span<const Op>(&part, 1));
  }
}

void CpuBackend::quantize_inputs() noexcept {
  for (const Int8Inputs::Input& input : int8_inputs_.inputs()) {
    for_rows(input.n_rows, input.x.n_cols, [&](std::size_t row) {
      const std::size_t at = input.rows != nullptr ? input.rows[row] : row;
      kernels_.quantize_row(
          input.x.data + at * input.x.stride, input.x.n_cols, input.codes + row * input.row_bytes);
    });
  }
}

template <typename Op>
void CpuBackend::run_planned(std::span<const Op> ops) noexcept {
  quantize_inputs();
  const WeightFormat& format = kernels_.weight_format;
  LinearPlan plans[LinearSchedule::kMaxOps];
  LinearSchedule schedule;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    plans[i] = plan_shape(format, ops[i], pool_.n_threads());
    schedule.add(plans[i].n_row_blocks * plans[i].steps_per_block, plans[i].step_cost);
  }
  const auto run_items = [&](std::size_t begin, std::size_t end, std::size_t thread) {
    schedule.for_steps(begin, end, [&](std::size_t i, std::size_t step, std::size_t end_step) {
      const LinearPlan& plan = plans[i];
      while (step < end_step) {
        const std::size_t block = step / plan.steps_per_block;
        const std::size_t first = step - block * plan.steps_per_block;
        const std::size_t n = std::min(end_step - step, plan.steps_per_block - first);
        const std::size_t row = block * plan.rows_per_block;
        run_tiles(ops[i],
                  int8_inputs_.view(i),
                  {.row_begin = row,
                   .row_end = std::min(row + plan.rows_per_block, ops[i].y.n_rows),
                   .tile_begin = first * plan.tiles_per_step,
                   .tile_end = std::min((first + n) * plan.tiles_per_step, plan.n_tiles),
                   .scratch = scratch(thread)});
        step += n;
      }
    });
  };
  const bool is_small = schedule.total_cost() < kForkCost;
  schedule.cut(is_small ? 1 : pool_.n_threads(), kMinItemCost, kMaxItemCost);
  pool_.parallel_for(schedule.n_items(), 1, run_items);
}

template <typename Op>
void CpuBackend::run_tiles(const Op& op,
                           const Int8Inputs::View& int8,
                           LinearTask task) const noexcept {
  const bool is_int8 = int8.codes != nullptr;
  task.weight = op.weight;
  task.x = op.x.data;
  task.x_stride = op.x.stride;
  task.x_int8 = int8.codes;
  task.x_int8_stride = int8.stride;
  task.x_rows = is_int8 ? int8.rows : op.x_rows;
  task.y = op.y.data;
  task.y_stride = op.y.stride;
  task.n_y = op.y.n_cols;
  if constexpr (std::is_same_v<Op, MatmulOp>) {
    task.adds = op.store == MatmulOp::Store::kAdd;
    is_int8 ? kernels_.matmul_int8(task) : kernels_.matmul(task);
  } else {
    is_int8 ? kernels_.swiglu_int8(task) : kernels_.swiglu(task);
  }
}

void CpuBackend::matmul(std::span<const MatmulOp> ops) noexcept {
  run_linear(ops);
}

void CpuBackend::swiglu(std::span<const SwigluOp> ops) noexcept {
  run_linear(ops);
}

void CpuBackend::for_rows(std::size_t n_rows,
                          std::size_t row_cost,
                          FunctionRef<void(std::size_t)> body) noexcept {
  const auto run = [&](std::size_t begin, std::size_t end, std::size_t /*thread*/) {
    for (std::size_t row = begin; row < end; ++row) {
      body(row);
    }
  };
  if (n_rows * row_cost < kForkCost) {
    run(0, n_rows, 0);
  } else {
    const std::size_t shares = pool_.n_threads() * 4;
    const std::size_t grain =
        std::max(divide_up(n_rows, shares), kMinItemCost / std::max<std::size_t>(1, row_cost));
    pool_.parallel_for(n_rows, std::max<std::size_t>(1, grain), run);
  }
}

void CpuBackend::moe_combine(const MoeCombineArgs& args) noexcept {
  const std::size_t n_ranks = args.weights.n_cols;
  for_rows(args.x.n_rows, args.x.n_cols * (n_ranks + 1), [&](std::size_t row) {
    const bool has_shared = args.shared.data != nullptr;
    kernels_.moe_combine(
        {.expert_out = args.expert_out.data,
         .expert_stride = args.expert_out.stride,
         .slots = args.slots.data() + row * n_ranks,
         .weights = args.weights.data + row * args.weights.stride,
         .n_ranks = n_ranks,
         .shared = has_shared ? args.shared.data + row * args.shared.stride : nullptr,
         .x = args.x.data + row * args.x.stride,
         .n = args.x.n_cols});
  });
}

void CpuBackend::rms_norm(MutableMatrix y,
                          ConstMatrix x,
                          std::span<const float> weight,
                          float eps) noexcept {
  for_rows(x.n_rows, x.n_cols, [&](std::size_t row) {
    kernels_.rms_norm(
        {y.data + row * y.stride, x.data + row * x.stride, weight.data(), nullptr, x.n_cols, eps});
  });
}

void CpuBackend::layer_norm(MutableMatrix y,
                            ConstMatrix x,
                            std::span<const float> weight,
                            std::span<const float> bias,
                            float eps) noexcept {
  for_rows(x.n_rows, 2 * x.n_cols, [&](std::size_t row) {
    kernels_.layer_norm({y.data + row * y.stride,
                         x.data + row * x.stride,
                         weight.data(),
                         bias.data(),
                         x.n_cols,
                         eps});
  });
}

namespace {

/// A row's heads stay together if that makes min_tasks, because they share its keys.
std::size_t heads_per_task(std::size_t n_heads,
                           std::size_t n_rows,
                           std::size_t min_tasks,
                           std::size_t n_threads) noexcept {
  constexpr std::size_t kBlockHeads = 4;  // what kernels hold in registers
  const std::size_t n_groups = std::min(n_heads, divide_up(min_tasks, n_rows));
  const std::size_t heads = divide_up(n_heads, std::max<std::size_t>(1, n_groups));
  const std::size_t whole = round_up(heads, kBlockHeads);
  return n_rows * divide_up(n_heads, whole) >= n_threads ? whole : heads;
}

}  // namespace

void CpuBackend::attend(const AttentionArgs& args) noexcept {
  assert(args.latent_dim <= args.key_dim && args.key_dim <= kMaxKeyDim);
  const std::size_t n_rows = args.q.n_rows;
  const bool is_wide = wide_keys_.begin(args.sets, args.key_dim);
  // Small tasks leave less for the last one to run alone, but each of them widens its keys again.
  const std::size_t heads = heads_per_task(args.n_heads,
                                           std::max<std::size_t>(1, n_rows),
                                           pool_.n_threads() * (is_wide ? 4 : 2),
                                           pool_.n_threads());
  const std::size_t groups = divide_up(args.n_heads, std::max<std::size_t>(1, heads));
  std::size_t n_keys = 0;
  for (const KeySet& set : args.sets) {
    n_keys += set.n;
  }
  const auto run = [&](std::size_t begin, std::size_t end, std::size_t thread) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t row = item / groups;
      const KeySet& set = args.sets[row];
      const std::size_t head = item % groups * heads;
      kernels_.attend({.set = is_wide ? wide_keys_.on(set, thread) : set,
                       .q = args.q.data + row * args.q.stride + head * args.key_dim,
                       .z = args.z.data + row * args.z.stride + head * args.latent_dim,
                       .n_heads = std::min(heads, args.n_heads - head),
                       .key_dim = args.key_dim,
                       .latent_dim = args.latent_dim,
                       .scale = args.scale,
                       .scratch = scratch(thread)});
    }
  };
  if (n_keys * args.key_dim * args.n_heads < 2 * kForkCost) {
    run(0, n_rows * groups, 0);
  } else {
    pool_.parallel_for(n_rows * groups, 1, run);
  }
}

void CpuBackend::score_keys(const IndexScoreArgs& args, KeyItem item, std::size_t thread) noexcept {
  const KeySet& first = args.sets[item.row_begin];
  const std::size_t offset = item.key_begin * args.head_dim;
  const void* keys =
      static_cast<const std::byte*>(first.keys) + offset * element_bytes(first.dtype);
  DType dtype = first.dtype;
  const std::size_t n_elements = (item.key_end - item.key_begin) * args.head_dim;
  if (dtype == DType::kBF16 && item.row_end - item.row_begin > 1 &&
      n_elements <= WideKeys::kFloats) {
    keys = wide_keys_.widen(static_cast<const std::uint16_t*>(keys), n_elements, thread);
    dtype = DType::kF32;
  }
  for (std::size_t row = item.row_begin; row < item.row_end; ++row) {
    const std::size_t end = std::min(item.key_end, args.sets[row].n);
    if (item.key_begin >= end) {
      continue;
    }
    kernels_.index_scores({.keys = keys,
                           .dtype = dtype,
                           .q = args.q.data + row * args.q.stride,
                           .gates = args.gate.data + row * args.gate.stride,
                           .scores = args.scores.data + row * args.scores.stride + item.key_begin,
                           .n_keys = end - item.key_begin,
                           .n_heads = args.n_heads,
                           .head_dim = args.head_dim,
                           .scale = args.scale,
                           .scratch = scratch(thread)});
  }
}

void CpuBackend::index_scores(const IndexScoreArgs& args) noexcept {
  constexpr std::size_t kKeysPerItem = 64;
  constexpr std::size_t kMostSharingRows = 16;  // their queries stay in the L2 cache
  std::size_t most_keys = 0;
  std::size_t n_keys = 0;
  for (const KeySet& set : args.sets) {
    most_keys = std::max(most_keys, set.n);
    n_keys += set.n;
  }
  // Rows of one sequence pass a block of its keys together.
  const std::size_t n_rows = args.q.n_rows;
  const std::size_t rows_per_item =
      share_bf16_cache(args.sets) ? std::min(n_rows, kMostSharingRows) : 1;
  const std::size_t keys_per_item =
      rows_per_item > 1 && most_keys < kKeysPerItem * 4 * pool_.n_threads() ? kKeysPerItem / 2
                                                                            : kKeysPerItem;
  // Rows differ in length, so a short row's last items are empty.
  const std::size_t blocks = divide_up(most_keys, keys_per_item);
  const std::size_t row_blocks = divide_up(n_rows, std::max<std::size_t>(1, rows_per_item));
  const auto run = [&](std::size_t begin, std::size_t end, std::size_t thread) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t row = item / blocks * rows_per_item;
      const std::size_t key = item % blocks * keys_per_item;
      score_keys(args,
                 {.row_begin = row,
                  .row_end = std::min(row + rows_per_item, n_rows),
                  .key_begin = key,
                  .key_end = std::min(key + keys_per_item, most_keys)},
                 thread);
    }
  };
  if (n_keys * args.n_heads * args.head_dim < 2 * kForkCost) {
    run(0, row_blocks * blocks, 0);
  } else {
    pool_.parallel_for(row_blocks * blocks, row_blocks > 4 * pool_.n_threads() ? blocks : 1, run);
  }
}

void CpuBackend::top_k(const TopKArgs& args) noexcept {
  std::size_t most = 0;
  for (const std::size_t n : args.n) {
    most = std::max(most, n);
  }
  for_rows(args.scores.n_rows, most, [&](std::size_t row) {
    kernels_.top_k(args.scores.data + row * args.scores.stride,
                   args.n[row],
                   args.k,
                   args.positions + row * args.k);
  });
}

}  // namespace ft::kernels
