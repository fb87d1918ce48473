#include "speculation/forward_share.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace ft::speculation {
namespace {

// What a workspace is told for one forward; no later one sees it.
class ForwardScope {
 public:
  ForwardScope(models::Workspace& workspace, WorkMeter* meter, TokenSpan hints)
      : workspace_(workspace) {
    workspace_.set_meter(meter);
    workspace_.set_hints(hints);
  }
  ~ForwardScope() {
    workspace_.set_hints({});
    workspace_.set_meter(nullptr);
  }
  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;
  ForwardScope(ForwardScope&&) = delete;
  ForwardScope& operator=(ForwardScope&&) = delete;

 private:
  models::Workspace& workspace_;
};

std::vector<LayerIndex> union_of_layers(std::span<const ForwardPart> parts) {
  std::vector<LayerIndex> layers;
  for (const ForwardPart& part : parts) {
    layers.insert(layers.end(), part.layers.begin(), part.layers.end());
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

ConstMatrix rows_of(ConstMatrix matrix, std::size_t first, std::size_t n) {
  FT_CHECK(first + n <= matrix.n_rows);
  matrix.data += first * matrix.stride;
  matrix.n_rows = n;
  return matrix;
}

experts::ExpertStats expert_stats(const ForwardContext& context) {
  return context.store != nullptr ? context.store->stats() : experts::ExpertStats();
}

std::uint64_t missing_bytes(const experts::ExpertStats& before, const experts::ExpertStats& after) {
  const std::uint64_t n_missed = after.trunk.misses - before.trunk.misses;
  const std::uint64_t n_cached = after.trunk.from_page_cache - before.trunk.from_page_cache;
  return (n_missed - std::min(n_missed, n_cached)) * after.trunk.slot_bytes;
}

template <typename Number>
Number part_of(Number all, double part) {
  return static_cast<Number>(std::llround(static_cast<double>(all) * part));
}

}  // namespace

SharedForward::SharedForward(const ForwardContext& context,
                             std::span<const ForwardPart> parts,
                             const std::stop_token& stop)
    : layers_(union_of_layers(parts)) {
  FT_CHECK(!parts.empty());
  std::vector<models::SequenceSlice> slices;
  slices.reserve(parts.size());
  for (const ForwardPart& part : parts) slices.push_back(part.slice);
  shares_.resize(parts.size());
  for (ForwardShare& share : shares_) share.taps.resize(layers_.size());
  const ForwardScope scope(
      context.workspace, context.meter, parts.size() == 1 ? parts.front().hints : TokenSpan());
  const experts::ExpertStats before = expert_stats(context);

  const std::int64_t start_us = context.clock.now_us();
  const models::ForwardOutput& out =
      context.model.forward(slices, layers_, stop, context.workspace);
  forward_us_ = context.clock.now_us() - start_us;
  const experts::ExpertStats after = expert_stats(context);
  missing_bytes_ = missing_bytes(before, after);
  stall_us_ = after.stall_us - before.stall_us;
  share_out(out, parts);
  share_costs(context.costs, parts);
}

void SharedForward::share_out(const models::ForwardOutput& out,
                              std::span<const ForwardPart> parts) {
  std::size_t first_row = 0;
  std::size_t first_logit = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const models::SequenceSlice& slice = parts[i].slice;
    ForwardShare& share = shares_[i];
    share.layers = layers_;
    share.logits = rows_of(out.logits, first_logit, slice.n_logits);
    for (std::size_t tap = 0; tap < layers_.size(); ++tap) {
      share.taps[tap] = rows_of(out.taps[tap], first_row, slice.tokens.size());
    }
    first_row += slice.tokens.size();
    first_logit += slice.n_logits;
  }
}

void SharedForward::share_costs(ForwardCosts* costs, std::span<const ForwardPart> parts) {
  std::size_t n_all = 0;
  bool has_all_logits = true;
  for (const ForwardPart& part : parts) {
    n_all += part.slice.tokens.size();
    has_all_logits &= part.slice.n_logits == part.slice.tokens.size();
  }
  const double fixed = costs != nullptr ? costs->fixed_part(n_all) : 0;
  if (costs != nullptr && has_all_logits) costs->observe(n_all, static_cast<double>(forward_us_));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto n_rows = static_cast<double>(parts[i].slice.tokens.size());
    const double part = fixed / static_cast<double>(parts.size()) +
                        (1 - fixed) * n_rows / static_cast<double>(n_all);
    shares_[i].forward_us = part_of(forward_us_, part);
    shares_[i].stall_us = part_of(stall_us_, part);
    shares_[i].missing_bytes = part_of(missing_bytes_, part);
  }
}

}  // namespace ft::speculation
