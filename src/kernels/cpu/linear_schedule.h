// Divides the steps of one call's products among threads. Steps are the smallest pieces a product
// is cut into; the steps of all products stand in one line, and an item is a stretch of it, to be
// claimed by whichever thread is free.
//
// Items shrink towards the end of the line: long ones first, because a stretch streams better than
// pieces and every claim costs, then short ones, so that threads finish together even if one
// started late. A short line for two threads is cut in halves. Lives on the stack, allocates
// nothing.
#pragma once

#include <cstddef>

namespace ft::kernels {

class LinearSchedule {
 public:
  /// Products of one call at most.
  static constexpr std::size_t kMaxOps = 64;

  /// Appends a product of n_steps equal steps. Costs are in any unit; see kMinItemCost.
  void add(std::size_t n_steps, std::size_t step_cost) noexcept;
  /// Cuts the line into items. Called once, after the last add().
  void cut(std::size_t n_threads, std::size_t min_item_cost, std::size_t max_item_cost) noexcept;

  std::size_t total_cost() const noexcept { return total_cost_; }
  std::size_t n_items() const noexcept { return n_items_; }

  /// Calls run(op, first_step, end_step) for every product that items [begin, end) touch, in order.
  template <typename Run>
  void for_steps(std::size_t begin, std::size_t end, const Run& run) const {
    const std::size_t from = boundary(begin);
    const std::size_t to = boundary(end);
    for (std::size_t op = 0; op < n_ops_ && first_cost_[op] < to; ++op) {
      const std::size_t first = steps_before(op, from);
      const std::size_t last = steps_before(op, to);
      if (first < last) {
        run(op, first, last);
      }
    }
  }

 private:
  /// Short items at the end, and how many items of the largest size can precede them.
  static constexpr std::size_t kMaxTail = 48;

  /// Cost of the line before an item.
  std::size_t boundary(std::size_t item) const noexcept {
    return item <= n_even_ ? item * even_cost_ : tail_[item - n_even_];
  }
  /// Steps of a product that begin before a point of the line.
  std::size_t steps_before(std::size_t op, std::size_t cost) const noexcept;

  std::size_t n_ops_ = 0;
  std::size_t total_cost_ = 0;
  std::size_t first_cost_[kMaxOps];
  std::size_t step_cost_[kMaxOps];
  std::size_t n_steps_[kMaxOps];

  std::size_t n_items_ = 0;
  std::size_t n_even_ = 0;  // items of equal cost at the front
  std::size_t even_cost_ = 0;
  std::size_t tail_[kMaxTail + 1];  // ends of the items after them; [0] is their start
};

}  // namespace ft::kernels
