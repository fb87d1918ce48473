// What the planners of earlier requests learned, for those of later ones. Engine thread.
#pragma once

#include "speculation/round_planner.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ft::engine {

/// Whether a round has the machine for itself. In company nothing is read ahead on a session's own
/// guesses, and what its forwards take is its part of shared ones.
enum class Company : std::uint8_t { kAlone, kShared };

/// The latest planner for each list of sources, with and without company: costs differ.
class PlannerExperience {
 public:
  using Sources = std::vector<std::string>;

  /// Null: there was none.
  const speculation::RoundPlanner* find(const Sources& sources, Company company) const;
  void keep(const Sources& sources, Company company, const speculation::RoundPlanner& planner);

 private:
  static constexpr std::size_t kMost = 32;  // clients choose the lists

  std::map<std::pair<Sources, Company>, speculation::RoundPlanner> planners_;
};

}  // namespace ft::engine
