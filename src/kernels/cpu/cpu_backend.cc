#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cassert>

namespace ft::kernels {
namespace {

// Costs are counted in weight bytes streamed, about 0.1 ns each with both cores at it.

/// Below this a fork-join costs more than the second thread saves.
constexpr std::size_t kForkCost = std::size_t{6} * 1024;
/// Smallest share of work worth claiming on its own.
constexpr std::size_t kMinItemCost = std::size_t{4} * 1024;
/// Shares per thread of a large call: the last ones even out what the first ones did not.
constexpr std::size_t kItemsPerThread = 16;
/// Products planned per fork-join; further ones follow in another. The plan lives on the stack.
constexpr std::size_t kMaxOps = 64;
/// Input of a block of rows that stays in a core's L2 cache while all tiles pass over it.
constexpr std::size_t kBlockInputBytes = std::size_t{1} << 20;
constexpr std::size_t kMinBlockRows = 48;

std::size_t divide_up(std::size_t n, std::size_t d) noexcept {
  return (n + d - 1) / d;
}

/// How one product is cut: row blocks times runs of tiles, the latter fastest.
struct LinearPlan {
  std::size_t n_tiles = 0;
  std::size_t tile_cost = 0;  // one tile times one row block
  std::size_t rows_per_block = 0;
  std::size_t n_row_blocks = 0;
  std::size_t tiles_per_item = 1;
  std::size_t items_per_block = 0;
  std::size_t first_item = 0;
};

std::size_t op_units(const WeightFormat& format, const MatmulOp& op) noexcept {
  return count_units(format, op.weight->n_out, false);
}
std::size_t op_units(const WeightFormat& format, const SwigluOp& op) noexcept {
  return count_units(format, op.weight->n_out, true);
}
bool op_adds(const MatmulOp& op) noexcept {
  return op.store == MatmulOp::Store::kAdd;
}
bool op_adds(const SwigluOp& /*op*/) noexcept {
  return false;
}
/// A run of tiles must hold whole pairs of gate and up.
std::size_t tile_multiple(const WeightFormat& format, const MatmulOp& /*op*/) noexcept {
  return format.tile_units == 1 ? 1 : 2;
}
std::size_t tile_multiple(const WeightFormat& /*format*/, const SwigluOp& /*op*/) noexcept {
  return 2;
}

template <typename Op>
LinearPlan plan_shape(const WeightFormat& format, const Op& op) noexcept {
  assert(op.x.n_cols == op.weight->n_in);
  LinearPlan plan;
  plan.n_tiles = count_tiles(format, op_units(format, op));
  const std::size_t row_bytes = std::max<std::size_t>(1, op.x.n_cols * sizeof(float));
  const std::size_t cached_rows = std::max(kMinBlockRows, kBlockInputBytes / row_bytes);
  const std::size_t most = std::min(cached_rows, kMaxTaskRows);
  plan.n_row_blocks = divide_up(op.y.n_rows, most);
  plan.rows_per_block = plan.n_row_blocks == 0 ? 0 : divide_up(op.y.n_rows, plan.n_row_blocks);
  // Beyond a few rows arithmetic outweighs the stream: eight rows of f32 multiply-adds take about
  // as long as a byte.
  plan.tile_cost = tile_bytes(format, *op.weight) * (1 + plan.rows_per_block / 8);
  return plan;
}

}  // namespace

CpuBackend::CpuBackend(Isa isa, const CpuKernels& kernels, ThreadPool& pool)
    : isa_(isa),
      kernels_(kernels),
      pool_(pool),
      scratch_(pool.n_threads() * kScratchFloats * sizeof(float)) {}

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

template <typename Op>
void CpuBackend::run_linear(std::span<const Op> ops) noexcept {
  const WeightFormat& format = kernels_.weight_format;
  LinearPlan plans[kMaxOps];
  std::size_t total_cost = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    plans[i] = plan_shape(format, ops[i]);
    total_cost += plans[i].tile_cost * plans[i].n_tiles * plans[i].n_row_blocks;
  }
  const std::size_t item_cost =
      std::max(kMinItemCost, total_cost / (pool_.n_threads() * kItemsPerThread));
  std::size_t n_items = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    LinearPlan& plan = plans[i];
    const std::size_t multiple = tile_multiple(format, ops[i]);
    const std::size_t wanted = item_cost / std::max<std::size_t>(1, plan.tile_cost);
    plan.tiles_per_item = std::max<std::size_t>(1, wanted);
    if (plan.tiles_per_item > 1 || format.tile_units == 1) {
      plan.tiles_per_item = round_up(plan.tiles_per_item, multiple);
    }
    plan.items_per_block = divide_up(plan.n_tiles, plan.tiles_per_item);
    plan.first_item = n_items;
    n_items += plan.items_per_block * plan.n_row_blocks;
  }
  const auto run_items = [&](std::size_t begin, std::size_t end, std::size_t thread) {
    std::size_t i = 0;
    for (std::size_t item = begin; item < end; ++item) {
      while (i + 1 < ops.size() && plans[i + 1].first_item <= item) {
        ++i;
      }
      const Op& op = ops[i];
      const LinearPlan& plan = plans[i];
      const std::size_t index = item - plan.first_item;
      const std::size_t row = index / plan.items_per_block * plan.rows_per_block;
      const std::size_t tile = index % plan.items_per_block * plan.tiles_per_item;
      const LinearTask task = {
          .weight = op.weight,
          .x = op.x.data,
          .x_stride = op.x.stride,
          .x_rows = op.x_rows,
          .y = op.y.data,
          .y_stride = op.y.stride,
          .n_y = op.y.n_cols,
          .row_begin = row,
          .row_end = std::min(row + plan.rows_per_block, op.y.n_rows),
          .tile_begin = tile,
          .tile_end = std::min(tile + plan.tiles_per_item, plan.n_tiles),
          .adds = op_adds(op),
          .scratch = scratch(thread),
      };
      if constexpr (std::is_same_v<Op, MatmulOp>) {
        kernels_.matmul(task);
      } else {
        kernels_.swiglu(task);
      }
    }
  };
  if (total_cost < kForkCost) {
    run_items(0, n_items, 0);
  } else {
    pool_.parallel_for(n_items, 1, run_items);
  }
}

void CpuBackend::matmul(std::span<const MatmulOp> ops) noexcept {
  for (; !ops.empty(); ops = ops.subspan(std::min(kMaxOps, ops.size()))) {
    run_linear(ops.first(std::min(kMaxOps, ops.size())));
  }
}

void CpuBackend::swiglu(std::span<const SwigluOp> ops) noexcept {
  for (; !ops.empty(); ops = ops.subspan(std::min(kMaxOps, ops.size()))) {
    run_linear(ops.first(std::min(kMaxOps, ops.size())));
  }
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

/// A row's heads stay together if there are rows enough for all threads, because they share its
/// keys.
std::size_t heads_per_task(std::size_t n_heads,
                           std::size_t n_rows,
                           std::size_t n_threads) noexcept {
  constexpr std::size_t kBlockHeads = 4;  // what kernels hold in registers
  const std::size_t n_groups = std::min(n_heads, divide_up(n_threads * 2, n_rows));
  const std::size_t heads = divide_up(n_heads, std::max<std::size_t>(1, n_groups));
  const std::size_t whole = round_up(heads, kBlockHeads);
  return n_rows * divide_up(n_heads, whole) >= n_threads ? whole : heads;
}

}  // namespace

void CpuBackend::attend(const AttentionArgs& args) noexcept {
  assert(args.latent_dim <= args.key_dim && args.key_dim <= kScratchFloats / 2);
  const std::size_t n_rows = args.q.n_rows;
  const std::size_t heads =
      heads_per_task(args.n_heads, std::max<std::size_t>(1, n_rows), pool_.n_threads());
  const std::size_t groups = divide_up(args.n_heads, std::max<std::size_t>(1, heads));
  std::size_t n_keys = 0;
  for (const KeySet& set : args.sets) {
    n_keys += set.n;
  }
  const auto run = [&](std::size_t begin, std::size_t end, std::size_t thread) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t row = item / groups;
      const std::size_t head = item % groups * heads;
      kernels_.attend({.set = args.sets[row],
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

void CpuBackend::index_scores(const IndexScoreArgs& args) noexcept {
  constexpr std::size_t kKeysPerItem = 64;
  std::size_t most_keys = 0;
  std::size_t n_keys = 0;
  for (const KeySet& set : args.sets) {
    most_keys = std::max(most_keys, set.n);
    n_keys += set.n;
  }
  // Rows differ in length, so a short row's last items are empty.
  const std::size_t blocks = divide_up(most_keys, kKeysPerItem);
  const std::size_t n_rows = args.q.n_rows;
  const auto run = [&](std::size_t begin, std::size_t end, std::size_t thread) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t row = item / blocks;
      const std::size_t key = item % blocks * kKeysPerItem;
      const KeySet& set = args.sets[row];
      if (key < set.n) {
        kernels_.index_scores({.keys = set.keys + key * args.head_dim,
                               .q = args.q.data + row * args.q.stride,
                               .gates = args.gate.data + row * args.gate.stride,
                               .scores = args.scores.data + row * args.scores.stride + key,
                               .n_keys = std::min(kKeysPerItem, set.n - key),
                               .n_heads = args.n_heads,
                               .head_dim = args.head_dim,
                               .scale = args.scale,
                               .scratch = scratch(thread)});
      }
    }
  };
  if (n_keys * args.n_heads * args.head_dim < 2 * kForkCost) {
    run(0, n_rows * blocks, 0);
  } else {
    pool_.parallel_for(n_rows * blocks, n_rows > 4 * pool_.n_threads() ? blocks : 1, run);
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
