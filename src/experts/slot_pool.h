// The slots of one tier: memory for a number of experts of one size, who is in which slot, and who
// may not leave. No threads here: the store calls it under its lock.
//
//   empty --take()--> loading --loaded()--> ready --take() for another--> loading
//                        \---failed()--> empty        \--shrink()--> gone --grow()--> empty
#pragma once

#include "experts/expert_store.h"
#include "experts/residency_policy.h"
#include "experts/usage.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft::experts {

/// On whose word an expert is read before a lease asks for it.
enum class Guess : std::uint8_t {
  kNone,    // a lease wants it
  kRouter,  // for its layer's turn in this pass
  kHint,    // for its layer's turn in the next pass
};

inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

/// Where slots lie. Borrowed memory.
struct SlotRow {
  std::byte* first = nullptr;
  std::ptrdiff_t step = 0;  // from a slot to the next; may be negative
  std::size_t slot_bytes = 0;
};

class SlotPool {
 public:
  /// `n_slots` slots of at most `most_slots`, for experts of [0, n_experts).
  SlotPool(const SlotRow& row, std::size_t n_slots, std::size_t most_slots, std::size_t n_experts);

  std::size_t n_slots() const noexcept { return limit_; }
  /// Slots from here on are gone: whatever is in their memory, this pool does not touch it.
  std::size_t end() const noexcept { return end_; }
  std::size_t slot_bytes() const noexcept { return row_.slot_bytes; }
  std::span<std::byte> memory(std::uint32_t slot) noexcept {
    return {row_.first + row_.step * static_cast<std::ptrdiff_t>(slot), row_.slot_bytes};
  }

  /// kNoSlot if the expert is neither here nor being read.
  std::uint32_t slot_of(ExpertId expert) const noexcept { return slot_of_[expert]; }
  ExpertId expert_in(std::uint32_t slot) const noexcept { return slots_[slot].expert; }
  bool is_ready(std::uint32_t slot) const noexcept { return slots_[slot].state == State::kReady; }
  bool is_held(std::uint32_t slot) const noexcept { return slots_[slot].n_holders > 0; }
  const Expert& view(std::uint32_t slot) const noexcept { return slots_[slot].view; }

  /// Makes up to `n` slots free of others: empty ones first, then those of experts that nobody
  /// holds and that the policy rates lowest. The slots are appended to `taken`; give each to
  /// start_loading() before the next call.
  void take(std::size_t n,
            const ResidencyPolicy& policy,
            const ExpertUsage& usage,
            std::vector<std::uint32_t>& taken);
  /// One slot as take(), but never one of an expert that the policy rates as high as `worth`.
  void take_below(double worth,
                  const ResidencyPolicy& policy,
                  const ExpertUsage& usage,
                  std::vector<std::uint32_t>& taken);
  void start_loading(std::uint32_t slot, ExpertId expert, Guess guess) noexcept;
  /// The bytes have arrived.
  void loaded(std::uint32_t slot, const Expert& view) noexcept;
  /// They will not: the slot is empty, nobody holds it.
  void failed(std::uint32_t slot) noexcept;

  /// A holder keeps a slot's expert where it is.
  void hold(std::uint32_t slot) noexcept;
  void release(std::uint32_t slot) noexcept;

  /// Slots of guesses still to prove right or wrong.
  std::size_t n_ahead() const noexcept { return n_ahead_; }
  /// Those of n_ahead() that are hints.
  std::size_t n_hinted() const noexcept { return n_hinted_; }
  /// Whether no lease has asked for it since it was guessed.
  bool is_ahead(std::uint32_t slot) const noexcept { return guess(slot) != Guess::kNone; }
  Guess guess(std::uint32_t slot) const noexcept { return slots_[slot].guess; }
  void clear_ahead(std::uint32_t slot) noexcept;
  /// The layer had its turn and did not ask for it: no longer one of n_ahead().
  void lapse(std::uint32_t slot) noexcept;

  /// From now on at most `n_slots` (at least 1). The others go at once, or when their holders are
  /// done and their reads have ended.
  void shrink(std::size_t n_slots) noexcept;
  /// From now on `n_slots`, at most `most_slots` of the constructor; those that come are empty.
  void grow(std::size_t n_slots) noexcept;

  std::uint64_t n_evictions() const noexcept { return n_evictions_; }

 private:
  enum class State : std::uint8_t { kEmpty, kLoading, kReady, kGone };
  struct Slot {
    ExpertId expert = kNoExpert;
    std::uint32_t n_holders = 0;
    State state = State::kEmpty;
    Guess guess = Guess::kNone;
    bool is_lapsed = false;
    Expert view;
  };

  void vacate(std::uint32_t slot) noexcept;
  void discard(std::uint32_t slot) noexcept;
  /// After every change of state or holders.
  void settle(std::uint32_t slot) noexcept;

  SlotRow row_;
  std::size_t limit_;
  std::size_t end_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> slot_of_;  // by expert
  std::vector<std::uint32_t> empty_;    // capacity for all, so that nothing here allocates
  std::vector<ExpertId> evictable_;     // by slot: its expert, if that may be evicted
  std::vector<double> worth_;           // scratch of take()
  std::vector<std::uint32_t> victims_;  // scratch of take()
  std::size_t n_evictable_ = 0;
  std::size_t n_ahead_ = 0;
  std::size_t n_hinted_ = 0;
  std::uint64_t n_evictions_ = 0;
};

}  // namespace ft::experts
