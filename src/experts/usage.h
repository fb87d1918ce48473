// What is known about how experts are used: when each was last asked for, how often of late, how
// often over the long run. Residency policies read it; the heat file keeps its long-run counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft::experts {

/// One expert of a store: experts of all layers are numbered through, layer by layer.
using ExpertId = std::uint32_t;
inline constexpr ExpertId kNoExpert = ~ExpertId{0};

/// Not thread-safe; the store guards it.
class ExpertUsage {
 public:
  explicit ExpertUsage(std::size_t n_experts) : records_(n_experts) {}

  /// A lease asked for it.
  void used(ExpertId expert) noexcept;
  /// It was read on a guess: as recent as a used one, but no count.
  void guessed(ExpertId expert) noexcept { records_[expert].last_tick = ++tick_; }
  /// One forward has ended: counts made so far lose weight against what comes.
  void end_pass() noexcept;

  std::size_t n_experts() const noexcept { return records_.size(); }
  /// Larger is later; 0: never used.
  std::uint64_t last_tick(ExpertId expert) const noexcept { return records_[expert].last_tick; }
  /// Uses of late: every pass that has ended since takes most of a use away.
  double recency(ExpertId expert) const noexcept;
  /// Uses over the long run, the last pass's counting one, older ones less.
  double heat(ExpertId expert) const noexcept { return records_[expert].heat / weight_; }
  /// For a start with what an earlier run learned.
  void set_heat(ExpertId expert, double heat) noexcept { records_[expert].heat = heat * weight_; }

 private:
  struct Record {
    std::uint64_t last_tick = 0;
    std::uint64_t recent_pass = 0;  // the pass at whose time `recent` is
    double recent = 0;
    double heat = 0;  // in units of 1 / weight_
  };

  std::vector<Record> records_;
  std::uint64_t tick_ = 0;
  std::uint64_t pass_ = 0;
  double weight_ = 1;  // of a use now: grows instead of every count shrinking
};

}  // namespace ft::experts
