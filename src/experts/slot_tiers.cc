#include "experts/slot_tiers.h"

#include <algorithm>
#include <sys/mman.h>

namespace ft::experts {
namespace {

std::size_t bytes_of(const TierSize& tier) {
  return tier.n_slots * tier.slot_bytes;
}

/// Of the main model's slots, how many the draft tier's memory can be.
std::size_t n_lendable(const TierSize& trunk, const TierSize& draft) {
  if (trunk.n_slots == 0 || draft.n_slots <= SlotTiers::kKeptSlots) return 0;
  const std::size_t lent_bytes = (draft.n_slots - SlotTiers::kKeptSlots) * draft.slot_bytes;
  const std::size_t n_without = trunk.n_experts - std::min(trunk.n_experts, trunk.n_slots);
  return std::min(lent_bytes / trunk.slot_bytes, n_without);
}

SlotRow forwards(Buffer& memory, std::size_t slot_bytes) {
  return {memory.data(), static_cast<std::ptrdiff_t>(slot_bytes), slot_bytes};
}

SlotRow backwards(Buffer& memory, std::size_t slot_bytes) {
  return {memory.data() + (memory.size() - slot_bytes),
          -static_cast<std::ptrdiff_t>(slot_bytes),
          slot_bytes};
}

}  // namespace

SlotTiers::SlotTiers(const TierSize& trunk, const TierSize& draft)
    : trunk_(trunk),
      draft_(draft),
      memory_(bytes_of(trunk) + bytes_of(draft)),
      most_trunk_slots_(trunk.n_slots + n_lendable(trunk, draft)),
      pools_{
          SlotPool(
              forwards(memory_, trunk.slot_bytes), trunk.n_slots, most_trunk_slots_, n_experts()),
          SlotPool(
              backwards(memory_, draft.slot_bytes), draft.n_slots, draft.n_slots, n_experts())} {}

void SlotTiers::set_lent(bool is_lent) noexcept {
  if (is_lent == is_lent_) return;
  is_lent_ = is_lent;
  move();
}

void SlotTiers::shrink(Tier tier, std::size_t n_slots) noexcept {
  TierSize& size = tier == Tier::kTrunk ? trunk_ : draft_;
  n_slots = std::max<std::size_t>(n_slots, 1);
  if (n_slots >= size.n_slots) return;
  size.n_slots = n_slots;
  is_short_ = true;
  move();
}

void SlotTiers::move() noexcept {
  SlotPool& trunk = pool(Tier::kTrunk);
  SlotPool& draft = pool(Tier::kDraft);
  const std::size_t n_lent = is_lent_ ? n_lendable(trunk_, draft_) : 0;
  const std::size_t trunk_slots = trunk_.n_slots + n_lent;
  std::size_t draft_slots = draft_.n_slots;
  if (n_lent > 0) {
    draft_slots -= (n_lent * trunk_.slot_bytes + draft_.slot_bytes - 1) / draft_.slot_bytes;
  }
  trunk.shrink(trunk_slots);
  draft.shrink(draft_slots);
  grow(trunk, trunk_slots, draft);
  grow(draft, draft_slots, trunk);
  is_moving_ = trunk.end() > trunk_slots || draft.end() > draft_slots ||
               trunk.n_slots() < trunk_slots || draft.n_slots() < draft_slots;
  if (is_short_) give_back();
}

void SlotTiers::grow(SlotPool& pool, std::size_t n_slots, const SlotPool& other) const noexcept {
  if (n_slots <= pool.n_slots()) return;
  const std::size_t bytes = bytes_of(trunk_) + bytes_of(draft_);
  const std::size_t taken = other.end() * other.slot_bytes();
  pool.grow(std::min(n_slots, (bytes - std::min(bytes, taken)) / pool.slot_bytes()));
}

void SlotTiers::give_back() noexcept {
  const SlotPool& trunk = pool(Tier::kTrunk);
  const SlotPool& draft = pool(Tier::kDraft);
  const std::size_t begin = trunk.end() * trunk.slot_bytes();
  const std::size_t end = memory_.size() - draft.end() * draft.slot_bytes();
  // Fails only for locked memory, which then stays ours: nothing to do about it here.
  madvise(memory_.data() + begin, end - begin, MADV_DONTNEED);
}

}  // namespace ft::experts
