// What goes where in memory, decided before anything is loaded. Pure: what the model needs, what
// the machine has and what the process already holds are given.
//
// The budget bounds anonymous memory. Weights used where their files are mapped are page cache, not
// ours to count, but they must fit beside the budget or every token reads them again.
#pragma once

#include "io/memory_limits.h"
#include "models/memory_needs.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::engine {

enum class ExpertPlacement : std::uint8_t { kAuto, kResident, kStream };

struct MemoryPlanRequest {
  /// Asked again for smaller uses when this one does not fit.
  std::function<models::MemoryNeeds(const models::MemoryUse&)> needs_of;
  /// Of a second model that drafts, its experts resident; empty if there is none.
  std::function<models::MemoryNeeds(const models::MemoryUse&)> draft_model_needs_of;
  models::MemoryUse use;
  /// What draft sources that look things up hold, at most, with caches of so many positions; may be
  /// empty. Counts where drafts are planned, as does
  std::function<std::uint64_t(std::size_t context)> lookup_bytes_of;
  std::uint64_t history_bytes = 0;  // what they keep of earlier requests, and
  std::function<std::uint64_t(std::size_t context)> prediction_bytes_of;  // a predicted output
  ExpertPlacement experts = ExpertPlacement::kAuto;
  std::uint64_t budget_bytes = 0;  // 0: what the limits leave
  std::uint64_t held_bytes = 0;    // anonymous memory of the process now
  io::MemoryLimits limits;
};

struct MemoryTerm {
  std::string_view name;  // "packed weights"
  std::uint64_t bytes = 0;
};

/// Slots of one tier of a streaming pool.
struct SlotPlan {
  std::size_t n_slots = 0;
  std::size_t least_slots = 0;  // one row's experts of one layer
  std::size_t n_experts = 0;    // of all layers
  std::uint64_t slot_bytes = 0;

  std::uint64_t bytes() const noexcept { return n_slots * slot_bytes; }
  /// Of its experts, how many have a slot.
  double resident_share() const noexcept {
    return n_experts == 0 ? 1 : static_cast<double>(n_slots) / static_cast<double>(n_experts);
  }
};

struct MemoryPlan {
  bool streams = false;
  /// What anonymous memory may come to; 0: no bound is known.
  std::uint64_t budget_bytes = 0;
  /// The budget that was asked for, if it is more than the limits leave beside mapped weights.
  std::uint64_t cut_from_bytes = 0;
  std::vector<MemoryTerm> terms;   // of anonymous memory
  std::uint64_t mapped_bytes = 0;  // page cache of the weights that every token reads
  SlotPlan trunk;                  // both empty unless experts stream
  SlotPlan draft;
  /// The smallest budget that these options can do with.
  std::uint64_t least_budget_bytes = 0;
  /// One line: why it does not fit, the largest term, the smallest changes that would make it fit,
  /// and what leaving out options that decoding can do without would save. Empty: it fits.
  std::string refusal;

  std::uint64_t planned_bytes() const noexcept;
};

/// Part of a machine's or a group's memory that is left to others.
std::uint64_t system_reserve_bytes(const io::MemoryLimits& limits) noexcept;

MemoryPlan plan_memory(const MemoryPlanRequest& request);

}  // namespace ft::engine
