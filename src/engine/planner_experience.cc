#include "engine/planner_experience.h"

#include <utility>

namespace ft::engine {

const speculation::Experience* PlannerExperience::find(const Sources& sources,
                                                       Company company) const {
  const auto at = latest_.find({sources, company});
  return at != latest_.end() ? &at->second : nullptr;
}

void PlannerExperience::keep(const Sources& sources,
                             Company company,
                             speculation::Experience experience) {
  const std::pair key(sources, company);
  if (latest_.size() >= kMost && !latest_.contains(key)) latest_.erase(latest_.begin());
  latest_.insert_or_assign(key, std::move(experience));
}

}  // namespace ft::engine
