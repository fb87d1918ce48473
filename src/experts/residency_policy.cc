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

}  // namespace

std::unique_ptr<ResidencyPolicy> make_residency_policy(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kLru:
      return std::make_unique<LruPolicy>();
  }
  throw LogicError("unknown residency policy");
}

}  // namespace ft::experts
