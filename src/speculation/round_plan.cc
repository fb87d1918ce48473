#include "speculation/round_plan.h"

namespace ft::speculation {

std::string_view to_string(PlanReason reason) noexcept {
  switch (reason) {
    case PlanReason::kNoSource:
      return "no source";
    case PlanReason::kNoRoom:
      return "no room";
    case PlanReason::kFixed:
      return "fixed";
    case PlanReason::kBaseline:
      return "baseline";
    case PlanReason::kBest:
      return "best";
    case PlanReason::kHeld:
      return "held";
    case PlanReason::kProbe:
      return "probe";
  }
  return "unknown";
}

}  // namespace ft::speculation
