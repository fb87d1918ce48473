// Whether the draft tier's memory serves the main model. Pure: it is told of every pass.
//
// A planner that has given up drafting still probes, at most every 16 rounds: that must not call
// the memory back. One that drafts does so round after round. At first the memory is lent: it is
// empty, so that calling it back for the fourth pass with drafts costs nothing.
#pragma once

#include <bit>
#include <cstdint>

namespace ft::experts {

/// Not thread-safe.
class DraftLending {
 public:
  static constexpr int kWindowPasses = 32;
  /// Lent when no more passes than this of the last kWindowPasses had drafts: two probes.
  static constexpr int kLentUpTo = 2;
  /// Called back when so many had. Between the two nothing changes: what moves evicts experts.
  static constexpr int kRecalledFrom = 4;

  /// A draft layer asked for experts.
  void asked() noexcept { passes_ |= 1; }
  /// A pass of the main model ends, with the drafts before it.
  void end_pass() noexcept {
    const int n_drafting = std::popcount(passes_);
    is_lent_ = n_drafting <= (is_lent_ ? kRecalledFrom - 1 : kLentUpTo);
    passes_ <<= 1;
  }
  bool is_lent() const noexcept { return is_lent_; }

 private:
  std::uint32_t passes_ = 0;  // the latest in bit 0
  bool is_lent_ = true;
};

}  // namespace ft::experts
