#include "kernels/cpu/linear_schedule.h"

#include <algorithm>
#include <cassert>

namespace ft::kernels {

void LinearSchedule::add(std::size_t n_steps, std::size_t step_cost) noexcept {
  assert(n_ops_ < kMaxOps);
  first_cost_[n_ops_] = total_cost_;
  step_cost_[n_ops_] = std::max<std::size_t>(1, step_cost);
  n_steps_[n_ops_] = n_steps;
  total_cost_ += n_steps * step_cost_[n_ops_];
  ++n_ops_;
}

void LinearSchedule::cut(std::size_t n_threads,
                         std::size_t min_item_cost,
                         std::size_t max_item_cost) noexcept {
  if (n_threads == 1) {
    min_item_cost = max_item_cost = std::max<std::size_t>(1, total_cost_);
  }
  // The caller takes the first item and its one worker the second, so in the next call of the same
  // products each finds its half of the weights in its own cache.
  if (n_threads == 2 && total_cost_ <= max_item_cost / 4 * 3) {
    min_item_cost = max_item_cost = std::max<std::size_t>(1, (total_cost_ + 1) / 2);
  }
  // Each item takes two thirds of a thread's fair share of what is left, so a thread that comes
  // late by a third of the whole still finishes in time.
  const std::size_t shares = n_threads + n_threads / 2;
  const std::size_t tail_cost = std::min(total_cost_, max_item_cost * shares);
  even_cost_ = max_item_cost;
  n_even_ = (total_cost_ - tail_cost + max_item_cost - 1) / max_item_cost;
  tail_[0] = n_even_ * even_cost_;
  std::size_t n_tail = 0;
  while (tail_[n_tail] < total_cost_) {
    const std::size_t left = total_cost_ - tail_[n_tail];
    std::size_t cost = std::max(min_item_cost, left / shares);
    if (left - std::min(left, cost) < min_item_cost / 2 || n_tail + 1 == kMaxTail) {
      cost = left;
    }
    tail_[n_tail + 1] = tail_[n_tail] + std::min(cost, left);
    ++n_tail;
  }
  n_items_ = n_even_ + n_tail;
}

std::size_t LinearSchedule::steps_before(std::size_t op, std::size_t cost) const noexcept {
  if (cost <= first_cost_[op]) {
    return 0;
  }
  const std::size_t steps = (cost - first_cost_[op] + step_cost_[op] - 1) / step_cost_[op];
  return std::min(steps, n_steps_[op]);
}

}  // namespace ft::kernels
