#include "experts/residency_policy.h"

#include "base/error.h"

#include <algorithm>

namespace ft::experts {
namespace {

/// The one used longest ago goes first.
class LruPolicy final : public ResidencyPolicy {
 public:
  std::string_view name() const noexcept override { return "lru"; }
  void rate(const ExpertUsage& usage,
            std::span<const ExpertId> residents,
            std::span<double> worth) const noexcept override {
    for (std::size_t i = 0; i < residents.size(); ++i) {
      if (residents[i] != kNoExpert) worth[i] = static_cast<double>(usage.last_tick(residents[i]));
    }
  }
};

/// The one used least over the long run goes first.
class HeatPolicy final : public ResidencyPolicy {
 public:
  std::string_view name() const noexcept override { return "heat"; }
  void rate(const ExpertUsage& usage,
            std::span<const ExpertId> residents,
            std::span<double> worth) const noexcept override {
    for (std::size_t i = 0; i < residents.size(); ++i) {
      if (residents[i] != kNoExpert) worth[i] = usage.heat(residents[i]);
    }
  }
};

/// The one least likely to be used in the next pass goes first.
class LikelihoodPolicy : public ResidencyPolicy {
 public:
  std::string_view name() const noexcept override { return "likelihood"; }
  void rate(const ExpertUsage& usage,
            std::span<const ExpertId> residents,
            std::span<double> worth) const noexcept override {
    for (std::size_t i = 0; i < residents.size(); ++i) {
      if (residents[i] != kNoExpert) worth[i] = likelihood(usage, residents[i]);
    }
  }

 protected:
  static double likelihood(const ExpertUsage& usage, ExpertId expert) noexcept {
    // So many imagined passes without a use keep the first real ones from counting as certainty.
    constexpr double kPriorPasses = 20;
    // How much a use in the last pass says about this one, beyond the long run; measured overlap of
    // consecutive tokens is 41 %.
    constexpr double kRecencyShare = 0.35;
    const double long_run = usage.heat(expert) / (usage.passes() + kPriorPasses);
    return long_run + kRecencyShare * usage.recency(expert);
  }
};

/// The one expected to be used last goes first: by likelihood, and by how far away its layer is.
class NextUsePolicy final : public LikelihoodPolicy {
 public:
  std::string_view name() const noexcept override { return "next-use"; }
  void rate(const ExpertUsage& usage,
            std::span<const ExpertId> residents,
            std::span<double> worth) const noexcept override {
    for (std::size_t i = 0; i < residents.size(); ++i) {
      if (residents[i] == kNoExpert) continue;
      // In passes: until its layer comes up, and those in which it is not chosen.
      const double chance = std::clamp(likelihood(usage, residents[i]), 1e-6, 1.0);
      worth[i] = -(usage.distance(residents[i]) + 1 / chance);
    }
  }
};

}  // namespace

std::unique_ptr<ResidencyPolicy> make_residency_policy(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kLru:
      return std::make_unique<LruPolicy>();
    case PolicyKind::kHeat:
      return std::make_unique<HeatPolicy>();
    case PolicyKind::kLikelihood:
      return std::make_unique<LikelihoodPolicy>();
    case PolicyKind::kNextUse:
      return std::make_unique<NextUsePolicy>();
  }
  throw LogicError("no such residency policy");
}

}  // namespace ft::experts
