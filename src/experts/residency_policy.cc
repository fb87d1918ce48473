#include "experts/residency_policy.h"

#include "base/error.h"

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

/// The one least likely to be chosen when its layer has its next turn goes first.
class LikelihoodPolicy final : public ResidencyPolicy {
 public:
  std::string_view name() const noexcept override { return "likelihood"; }
  void rate(const ExpertUsage& usage,
            std::span<const ExpertId> residents,
            std::span<double> worth) const noexcept override {
    // So many imagined passes without a use keep the first real ones from counting as certainty.
    constexpr double kPriorPasses = 20;
    // What a use in the last turn adds to the long run's share of passes: consecutive tokens of
    // GLM-5.2 share about 41 % of their experts.
    constexpr double kRecencyShare = 0.35;
    const double per_use = 1 / (usage.passes() + kPriorPasses);
    for (std::size_t i = 0; i < residents.size(); ++i) {
      if (residents[i] == kNoExpert) continue;
      worth[i] = usage.heat(residents[i]) * per_use + kRecencyShare * usage.recency(residents[i]);
    }
  }
};

}  // namespace

std::unique_ptr<ResidencyPolicy> make_residency_policy(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kLru:
      return std::make_unique<LruPolicy>();
    case PolicyKind::kLikelihood:
      return std::make_unique<LikelihoodPolicy>();
  }
  throw LogicError("no such residency policy");
}

}  // namespace ft::experts
