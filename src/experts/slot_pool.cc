#include "experts/slot_pool.h"

#include <algorithm>

namespace ft::experts {

SlotPool::SlotPool(const SlotRow& row,
                   std::size_t n_slots,
                   std::size_t most_slots,
                   std::size_t n_experts)
    : row_(row),
      limit_(n_slots),
      end_(n_slots),
      slots_(most_slots),
      slot_of_(n_experts, kNoSlot),
      evictable_(most_slots, kNoExpert),
      worth_(most_slots) {
  empty_.reserve(most_slots);
  victims_.reserve(most_slots);
  for (std::size_t slot = n_slots; slot > 0; --slot) {
    empty_.push_back(static_cast<std::uint32_t>(slot - 1));
  }
  for (std::size_t slot = n_slots; slot < most_slots; ++slot) slots_[slot].state = State::kGone;
}

void SlotPool::take(std::size_t n,
                    const ResidencyPolicy& policy,
                    const ExpertUsage& usage,
                    std::vector<std::uint32_t>& taken) {
  for (; n > 0 && !empty_.empty(); --n) {
    taken.push_back(empty_.back());
    empty_.pop_back();
  }
  n = std::min(n, n_evictable_);
  if (n == 0) return;
  const bool has_choice = n < n_evictable_;
  if (has_choice) policy.rate(usage, evictable_, worth_);
  victims_.clear();
  for (std::uint32_t slot = 0; slot < evictable_.size(); ++slot) {
    if (evictable_[slot] != kNoExpert) victims_.push_back(slot);
  }
  if (has_choice) {
    const auto middle = victims_.begin() + static_cast<std::ptrdiff_t>(n);
    std::partial_sort(victims_.begin(), middle, victims_.end(), [this](auto a, auto b) {
      return worth_[a] != worth_[b] ? worth_[a] < worth_[b] : a < b;
    });
  }
  victims_.resize(n);
  for (const std::uint32_t slot : victims_) {
    ++n_evictions_;
    vacate(slot);
    taken.push_back(slot);
  }
}

void SlotPool::take_below(double worth,
                          const ResidencyPolicy& policy,
                          const ExpertUsage& usage,
                          std::vector<std::uint32_t>& taken) {
  if (empty_.empty()) {
    policy.rate(usage, evictable_, worth_);
    for (std::uint32_t slot = 0;; ++slot) {
      if (slot == evictable_.size()) return;
      if (evictable_[slot] != kNoExpert && worth_[slot] < worth) break;
    }
  }
  take(1, policy, usage, taken);
}

void SlotPool::start_loading(std::uint32_t slot, ExpertId expert, Guess guess) noexcept {
  slots_[slot].expert = expert;
  slots_[slot].state = State::kLoading;
  slots_[slot].guess = guess;
  slots_[slot].is_lapsed = false;
  n_ahead_ += guess != Guess::kNone ? 1 : 0;
  n_hinted_ += guess == Guess::kHint ? 1 : 0;
  slot_of_[expert] = slot;
}

void SlotPool::loaded(std::uint32_t slot, const Expert& view) noexcept {
  slots_[slot].view = view;
  slots_[slot].state = State::kReady;
  settle(slot);
}

void SlotPool::failed(std::uint32_t slot) noexcept {
  slots_[slot].n_holders = 0;
  vacate(slot);
  if (slot < limit_) {
    empty_.push_back(slot);
  } else {
    discard(slot);
  }
}

void SlotPool::hold(std::uint32_t slot) noexcept {
  ++slots_[slot].n_holders;
  settle(slot);
}

void SlotPool::release(std::uint32_t slot) noexcept {
  --slots_[slot].n_holders;
  settle(slot);
}

void SlotPool::clear_ahead(std::uint32_t slot) noexcept {
  lapse(slot);
  slots_[slot].guess = Guess::kNone;
}

void SlotPool::lapse(std::uint32_t slot) noexcept {
  if (slots_[slot].is_lapsed) return;
  n_ahead_ -= is_ahead(slot) ? 1 : 0;
  n_hinted_ -= guess(slot) == Guess::kHint ? 1 : 0;
  slots_[slot].is_lapsed = true;
}

void SlotPool::shrink(std::size_t n_slots) noexcept {
  n_slots = std::max<std::size_t>(n_slots, 1);
  if (n_slots >= limit_) return;
  limit_ = n_slots;
  std::erase_if(empty_, [this](std::uint32_t slot) { return slot >= limit_; });
  for (std::size_t i = end_; i > limit_; --i) {
    const auto slot = static_cast<std::uint32_t>(i - 1);
    if (slots_[slot].state == State::kEmpty) discard(slot);
    settle(slot);
  }
}

void SlotPool::grow(std::size_t n_slots) noexcept {
  for (; limit_ < n_slots; ++limit_) {
    const auto slot = static_cast<std::uint32_t>(limit_);
    if (slots_[slot].state != State::kGone) continue;
    slots_[slot].state = State::kEmpty;
    empty_.push_back(slot);
  }
  end_ = std::max(end_, limit_);
}

void SlotPool::vacate(std::uint32_t slot) noexcept {
  clear_ahead(slot);
  slot_of_[slots_[slot].expert] = kNoSlot;
  slots_[slot].expert = kNoExpert;
  slots_[slot].state = State::kEmpty;
  settle(slot);
}

void SlotPool::discard(std::uint32_t slot) noexcept {
  slots_[slot].state = State::kGone;
  while (end_ > limit_ && slots_[end_ - 1].state == State::kGone) --end_;
}

void SlotPool::settle(std::uint32_t slot) noexcept {
  const bool is_evictable = slots_[slot].state == State::kReady && slots_[slot].n_holders == 0;
  if (is_evictable && slot >= limit_) {
    ++n_evictions_;
    vacate(slot);
    discard(slot);
    return;
  }
  if (is_evictable == (evictable_[slot] != kNoExpert)) return;
  n_evictable_ += is_evictable ? 1 : std::size_t{0} - 1;
  evictable_[slot] = is_evictable ? slots_[slot].expert : kNoExpert;
}

}  // namespace ft::experts
