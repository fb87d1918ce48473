// The memory for the slots of both tiers, one block: the main model's slots lie from its front on,
// those of draft layers from its end back. While nobody drafts, all but a few of the draft tier's
// slots are lent: their memory is the main model's. No threads here: the store calls it under its
// lock.
#pragma once

#include "base/buffer.h"
#include "experts/slot_pool.h"
#include "experts/streaming_store.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ft::experts {

struct TierSize {
  std::size_t n_slots = 0;  // its own
  std::size_t slot_bytes = 0;
  std::size_t n_experts = 0;  // of its layers
};

/// Whatever is lent or shrinks, the slots that are not gone never take more than the own slots of
/// both tiers do: the one pool grows as far as the other has given up its slots.
class SlotTiers {
 public:
  /// Of the draft tier, never lent: a draft now and then is read into the one while the other
  /// computes. Its other experts would not be asked for again before they are old.
  static constexpr std::size_t kKeptSlots = 2;

  /// Memory is committed as slots are first filled.
  SlotTiers(const TierSize& trunk, const TierSize& draft);

  SlotPool& pool(Tier tier) noexcept { return pools_[static_cast<std::size_t>(tier)]; }
  std::size_t n_experts() const noexcept { return trunk_.n_experts + draft_.n_experts; }
  /// Slots that the main model can have at most.
  std::size_t most_trunk_slots() const noexcept { return most_trunk_slots_; }

  /// Whether the draft tier's memory is lent from now on: at once, but for what is in use.
  void set_lent(bool is_lent) noexcept;
  /// At most `n_slots` (at least 1) are the tier's own from now on. The memory of the others goes
  /// back to the system, at once or when what is in use is done with.
  void shrink(Tier tier, std::size_t n_slots) noexcept;
  /// Whenever slots may have been given up. Cheap if none are waited for.
  void settle() noexcept {
    if (is_moving_) move();
  }

 private:
  void move() noexcept;
  /// As far as `other` has given up its slots.
  void grow(SlotPool& pool, std::size_t n_slots, const SlotPool& other) const noexcept;
  void give_back() noexcept;

  TierSize trunk_;
  TierSize draft_;
  Buffer memory_;
  std::size_t most_trunk_slots_;
  std::array<SlotPool, 2> pools_;  // by Tier
  bool is_lent_ = false;
  bool is_moving_ = false;  // a pool has not come to its size yet
  bool is_short_ = false;   // a tier has shrunk
};

}  // namespace ft::experts
