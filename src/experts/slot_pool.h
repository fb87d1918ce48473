// The slots of one tier: memory for a number of experts of one size, who is in which slot, and who
// may not leave. No threads here: the store calls it under its lock.
//
//   empty --take()--> loading --loaded()--> ready --take() for another--> loading
//                        \---failed()--> empty        \--shrink()--> gone
#pragma once

#include "base/buffer.h"
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

class SlotPool {
 public:
  /// Slots for experts of [0, n_experts). Memory is committed slot by slot, at the first read.
  SlotPool(std::size_t n_slots, std::size_t slot_bytes, std::size_t n_experts);

  std::size_t n_slots() const noexcept { return limit_; }
  std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  std::span<std::byte> memory(std::uint32_t slot) noexcept {
    return memory_.as<std::byte>(memory_.size()).subspan(slot * slot_bytes_, slot_bytes_);
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

  /// From now on at most `n_slots` (at least 1); memory goes back to the system, at once or when
  /// its holders are done. Never grows again.
  void shrink(std::size_t n_slots) noexcept;

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

  std::size_t slot_bytes_;
  std::size_t limit_;
  Buffer memory_;
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
