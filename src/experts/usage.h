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

/// A pass is one forward: layer by layer has its turn and asks for some of its experts. Not
/// thread-safe; the store guards it.
class ExpertUsage {
 public:
  explicit ExpertUsage(std::size_t n_experts) : records_(n_experts) {}

  /// A lease asked for it.
  void used(ExpertId expert) noexcept;
  /// It is being read on a guess that its layer's next turn will ask for it.
  void guessed(ExpertId expert) noexcept;
  /// As guessed(), for the turn in the next pass; that of this pass is over.
  void hinted(ExpertId expert) noexcept;
  /// The layer before this expert has its turn.
  void reached(ExpertId first_of_next_layer) noexcept { next_ = first_of_next_layer; }
  /// What is counted so far loses weight against what comes.
  void end_pass() noexcept;

  /// Larger is later; 0: never used.
  std::uint64_t last_tick(ExpertId expert) const noexcept { return records_[expert].last_tick; }
  /// Uses of late: every turn of its layer since takes most of a use away.
  double recency(ExpertId expert) const noexcept;
  /// recency() and heat() of recent.size() experts from `first` on.
  void read(ExpertId first, std::span<float> recent, std::span<float> heat) const noexcept;
  /// Uses in passes() passes, older ones counting less.
  double heat(ExpertId expert) const noexcept { return records_[expert].heat / weight_; }
  double passes() const noexcept { return passes_; }

  // For a start with what an earlier run learned; before the first use.
  void set_heat(ExpertId expert, double heat) noexcept { records_[expert].heat = heat * weight_; }
  void set_passes(double passes) noexcept { passes_ = passes; }

 private:
  struct Record {
    std::uint64_t last_tick = 0;
    std::uint64_t recent_pass = 0;  // of the last use
    double recent = 0;              // recency() right after it
    double heat = 0;                // in units of 1 / weight_
  };

  std::vector<Record> records_;
  std::uint64_t tick_ = 0;
  std::uint64_t pass_ = 1;
  double passes_ = 0;
  double weight_ = 1;  // of a use now: grows instead of every count shrinking
  ExpertId next_ = 0;  // experts from here on are still to have their turn in this pass
};

}  // namespace ft::experts
