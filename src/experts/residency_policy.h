// Which resident experts to keep when room is needed. A policy is a number per expert; slots, pins
// and reads are the store's.
#pragma once

#include "experts/usage.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace ft::experts {

class ResidencyPolicy {
 public:
  virtual ~ResidencyPolicy() = default;
  virtual std::string_view name() const noexcept = 0;
  /// worth[i]: how much residents[i] is worth keeping; the lowest lose their slots first. Entries
  /// kNoExpert may get any number.
  virtual void rate(const ExpertUsage& usage,
                    std::span<const ExpertId> residents,
                    std::span<double> worth) const noexcept = 0;
};

/// Measured on made-up routing in docs/streaming.md.
enum class PolicyKind : std::uint8_t {
  kLru,         // the baseline
  kLikelihood,  // by what was used of late and over the long run
};

std::unique_ptr<ResidencyPolicy> make_residency_policy(PolicyKind kind);

}  // namespace ft::experts
