#include "nn/feed_forward.h"

#include "base/error.h"

#include <algorithm>
#include <array>

namespace ft::nn {
namespace {

/// Rows per routing task: 16 rows of 256 experts take about 10 us.
constexpr std::size_t kRowsPerTask = 16;

std::size_t width_of(const Expert& expert) {
  return expert.down.n_in;
}

kernels::SwigluOp swiglu(MutableMatrix y, ConstMatrix x, const Expert& expert) {
  // Integer weights fill up their last panels.
  const bool is_whole = expert.gate_up.quant.codes != nullptr;
  const std::size_t unit = is_whole ? kPanelRows : 1;
  FT_CHECK(x.n_cols == expert.gate_up.n_in);
  FT_CHECK(2 * ((y.n_cols + unit - 1) / unit) * unit == expert.gate_up.n_out);
  return {.y = y, .x = x, .weight = &expert.gate_up, .x_rows = nullptr};
}

void route_rows(Compute compute, const MoeWeights& w, ConstMatrix u, FeedForwardScratch& s) {
  const std::size_t n_active = w.shape.n_active;
  const MutableMatrix logits = s.logits.shape(u.n_rows, w.shape.n_experts);
  const MutableMatrix weights = s.weights.shape(u.n_rows, n_active);
  const kernels::MatmulOp op = linear(logits, u, w.router);
  compute.matmul({&op, 1});
  s.experts.resize(u.n_rows * n_active);
  const auto body = [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::span<std::uint32_t> experts{s.experts.data() + r * n_active, n_active};
      route(logits.row(r), w.bias, w.shape, experts, weights.row(r));
    }
  };
  compute.pool.parallel_for(u.n_rows, kRowsPerTask, body);
}

/// Slots are ordered by expert, then by row: counting sort.
void assign_slots(std::size_t n_experts, std::size_t n_active, FeedForwardScratch& s) {
  const std::size_t n_slots = s.experts.size();
  s.first_slots.assign(n_experts + 1, 0);
  for (const std::uint32_t e : s.experts) ++s.first_slots[e + 1];
  for (std::size_t e = 0; e < n_experts; ++e) s.first_slots[e + 1] += s.first_slots[e];
  s.slots.resize(n_slots);
  s.slot_rows.resize(n_slots);
  for (std::size_t i = 0; i < n_slots; ++i) {
    const std::uint32_t slot = s.first_slots[s.experts[i]]++;
    s.slots[i] = slot;
    s.slot_rows[slot] = static_cast<std::uint32_t>(i / n_active);
  }
  // Each entry now is its expert's end, that is the next one's begin.
  std::move_backward(s.first_slots.begin(), s.first_slots.end() - 1, s.first_slots.end());
  s.first_slots[0] = 0;
  s.chosen.clear();
  for (std::uint32_t e = 0; e < n_experts; ++e) {
    if (s.first_slots[e + 1] > s.first_slots[e]) s.chosen.push_back(e);
  }
}

/// Adds the shared expert to the operations; its outputs, or data == nullptr.
ConstMatrix add_shared(const MoeWeights& weights, ConstMatrix u, FeedForwardScratch& s) {
  if (!weights.shared) return {};
  const MutableMatrix rows = s.shared_hidden.shape(u.n_rows, width_of(*weights.shared));
  const MutableMatrix output = s.shared_output.shape(u.n_rows, u.n_cols);
  s.swiglu_ops.push_back(swiglu(rows, u, *weights.shared));
  s.down_ops.push_back(linear(output, rows, weights.shared->down));
  return output;
}

/// Runs the operations gathered so far.
void run_ops(Compute compute, FeedForwardScratch& s) {
  compute.swiglu(s.swiglu_ops);
  compute.matmul(s.down_ops);
  s.swiglu_ops.clear();
  s.down_ops.clear();
}

}  // namespace

void prefetch(Compute compute,
              const RouterPreview& next,
              ConstMatrix x,
              FeedForwardScratch& scratch) {
  if (next.moe == nullptr) return;
  FeedForwardScratch& s = scratch;
  const MoeWeights& moe = *next.moe;
  const std::size_t n_active = moe.shape.n_active;
  const MutableMatrix normed = s.preview_normed.shape(x.n_rows, x.n_cols);
  compute.backend.rms_norm(normed, x, next.norm, next.norm_eps);
  const MutableMatrix logits = s.preview_logits.shape(x.n_rows, moe.shape.n_experts);
  const kernels::MatmulOp op = linear(logits, normed, moe.router);
  compute.matmul({&op, 1});
  s.preview.resize(x.n_rows * n_active);
  std::array<std::uint32_t, kMaxActiveExperts> experts{};
  std::array<float, kMaxActiveExperts> weights{};
  for (std::size_t r = 0; r < x.n_rows; ++r) {
    route(logits.row(r),
          moe.bias,
          moe.shape,
          std::span(experts).first(n_active),
          std::span(weights).first(n_active));
    for (std::size_t i = 0; i < n_active; ++i) s.preview[i * x.n_rows + r] = experts[i];
  }
  moe.store->prefetch(moe.layer, s.preview);
}

void dense_feed_forward(Compute compute,
                        const Expert& weights,
                        ConstMatrix u,
                        MutableMatrix x,
                        FeedForwardScratch& scratch) {
  const StageScope stage(compute.meter, Stage::kDense);
  const MutableMatrix hidden = scratch.hidden.shape(u.n_rows, width_of(weights));
  const kernels::SwigluOp up = swiglu(hidden, u, weights);
  compute.swiglu({&up, 1});
  const kernels::MatmulOp down = linear(x, hidden, weights.down, kernels::MatmulOp::Store::kAdd);
  compute.matmul({&down, 1});
}

void moe_feed_forward(Compute compute,
                      const MoeWeights& weights,
                      ConstMatrix u,
                      MutableMatrix x,
                      const RouterPreview& next,
                      FeedForwardScratch& scratch) {
  const StageScope stage(compute.meter, Stage::kExperts);
  FeedForwardScratch& s = scratch;
  s.swiglu_ops.clear();  // an exception may have left some
  s.down_ops.clear();
  const std::size_t n_active = weights.shape.n_active;
  route_rows(compute, weights, u, s);
  assign_slots(weights.shape.n_experts, n_active, s);
  experts::ExpertLease lease = weights.store->acquire(weights.layer, s.chosen);
  prefetch(compute, next, x, s);

  const MutableMatrix hidden = s.hidden.shape(s.slots.size(), weights.expert_width);
  const MutableMatrix outputs = s.outputs.shape(s.slots.size(), x.n_cols);
  const ConstMatrix shared_output = add_shared(weights, u, s);
  const std::stop_token stop = compute.stop != nullptr ? *compute.stop : std::stop_token();
  if (lease.would_wait()) run_ops(compute, s);
  for (;;) {
    const std::span<const std::uint32_t> ready = lease.next(stop);
    if (ready.empty()) break;
    for (const std::uint32_t i : ready) {
      const Expert& expert = lease.expert(i);
      const std::size_t begin = s.first_slots[s.chosen[i]];
      const std::size_t n = s.first_slots[s.chosen[i] + 1] - begin;
      const MutableMatrix rows = rows_of(hidden, begin, n);
      s.swiglu_ops.push_back(swiglu(rows, u, expert));
      s.swiglu_ops.back().x_rows = s.slot_rows.data() + begin;
      s.down_ops.push_back(linear(rows_of(outputs, begin, n), rows, expert.down));
    }
    run_ops(compute, s);
  }
  compute.backend.moe_combine({.expert_out = outputs,
                               .slots = s.slots,
                               .weights = s.weights.shape(u.n_rows, n_active),
                               .shared = shared_output,
                               .x = x});
}

}  // namespace ft::nn
