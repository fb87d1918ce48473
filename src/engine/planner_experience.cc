#include "engine/planner_experience.h"

namespace ft::engine {

const speculation::RoundPlanner* PlannerExperience::find(const Sources& sources,
                                                         Company company) const {
  const auto at = planners_.find({sources, company});
  return at != planners_.end() ? &at->second : nullptr;
}

void PlannerExperience::keep(const Sources& sources,
                             Company company,
                             const speculation::RoundPlanner& planner) {
  const std::pair key(sources, company);
  if (planners_.size() >= kMost && !planners_.contains(key)) planners_.erase(planners_.begin());
  planners_.insert_or_assign(key, planner);
}

}  // namespace ft::engine
