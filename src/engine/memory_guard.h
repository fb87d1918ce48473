// Keeps the process inside its memory plan while it works: when memory gets short, what is idle is
// dropped, then the pool of experts shrinks. It never grows again, and nothing is ever killed.
#pragma once

#include "base/clock.h"
#include "engine/memory_plan.h"
#include "experts/streaming_store.h"
#include "io/memory_limits.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ft::engine {

struct MemoryGuardDeps {
  const Clock& clock;  // outlives the guard
  std::function<std::uint64_t()> anonymous_bytes;
  std::function<io::MemoryLimits()> limits;
  /// Gives back what is kept without being in use; whether there was any. May be empty.
  std::function<bool()> drop_idle;
  std::function<void(experts::Tier, std::size_t n_slots)> shrink;
  std::function<void(std::string_view)> warn;  // once, with one line; may be empty
};

/// Not thread-safe.
class MemoryGuard {
 public:
  static constexpr std::int64_t kIntervalUs = 100'000;
  /// After memory was given back: what is in use goes later, and other processes react too.
  static constexpr std::int64_t kSettlingUs = 400'000;

  MemoryGuard(const MemoryPlan& plan, MemoryGuardDeps deps);

  /// Looks at most every kIntervalUs (about 0.3 ms); free otherwise.
  void check();

 private:
  struct Tier {
    experts::Tier tier = experts::Tier::kTrunk;
    SlotPlan slots;
  };

  std::uint64_t missing_bytes() const;
  std::uint64_t shrink(Tier& tier, std::uint64_t n_bytes);

  MemoryGuardDeps deps_;
  std::uint64_t budget_bytes_;
  std::uint64_t mapped_bytes_;
  Tier trunk_;
  Tier draft_;
  std::int64_t next_us_ = 0;
  bool has_warned_ = false;
};

}  // namespace ft::engine
