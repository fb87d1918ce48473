#include "engine/memory_guard.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ft::engine {

MemoryGuard::MemoryGuard(const MemoryPlan& plan, MemoryGuardDeps deps)
    : deps_(std::move(deps)),
      budget_bytes_(plan.budget_bytes),
      mapped_bytes_(plan.mapped_bytes),
      trunk_{experts::Tier::kTrunk, plan.trunk},
      draft_{experts::Tier::kDraft, plan.draft} {}

void MemoryGuard::check() {
  const std::int64_t now_us = deps_.clock.now_us();
  if (now_us < next_us_) return;
  next_us_ = now_us + kIntervalUs;
  const std::uint64_t missing = missing_bytes();
  if (missing == 0) return;
  if (deps_.drop_idle && deps_.drop_idle()) {
    next_us_ = now_us + kSettlingUs;
    return;
  }
  std::uint64_t freed = shrink(trunk_, missing);
  if (freed < missing) freed += shrink(draft_, missing - freed);
  if (freed == 0) return;  // at the least already
  next_us_ = now_us + kSettlingUs;
  if (has_warned_ || !deps_.warn) return;
  has_warned_ = true;
  deps_.warn(fmt::format(
      "memory is short by {:.1f} MB: the pool of experts shrinks to {} slots; a smaller "
      "--ram-budget would leave more to others",
      static_cast<double>(missing) * 1e-6,
      trunk_.slots.n_slots + draft_.slots.n_slots));
}

/// How far the process is over its budget, or the machine under what the plan left to others: half
/// of that is the alarm.
std::uint64_t MemoryGuard::missing_bytes() const {
  std::uint64_t missing = 0;
  if (budget_bytes_ > 0) {
    const std::uint64_t held = deps_.anonymous_bytes();
    missing = held - std::min(held, budget_bytes_);
  }
  const io::MemoryLimits limits = deps_.limits();
  if (const auto free = limits.allocatable_bytes()) {
    const std::uint64_t least = mapped_bytes_ + system_reserve_bytes(limits) / 2;
    missing = std::max(missing, least - std::min(least, *free));
  }
  return missing;
}

/// Returns the bytes of the slots that go.
std::uint64_t MemoryGuard::shrink(Tier& tier, std::uint64_t n_bytes) {
  SlotPlan& slots = tier.slots;
  if (slots.slot_bytes == 0 || slots.n_slots <= slots.least_slots) return 0;
  const std::uint64_t wanted = (n_bytes + slots.slot_bytes - 1) / slots.slot_bytes;
  const std::uint64_t n = std::min<std::uint64_t>(wanted, slots.n_slots - slots.least_slots);
  slots.n_slots -= n;
  deps_.shrink(tier.tier, slots.n_slots);
  return n * slots.slot_bytes;
}

}  // namespace ft::engine
