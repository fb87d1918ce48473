// What the planners of earlier requests learned, for those of later ones. Engine thread.
#pragma once

#include "speculation/experience.h"

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

/// That of the latest planner for each list of sources, with and without company: costs differ.
class PlannerExperience {
 public:
  using Sources = std::vector<std::string>;

  /// Null: there was none.
  const speculation::Experience* find(const Sources& sources, Company company) const;
  void keep(const Sources& sources, Company company, speculation::Experience experience);

 private:
  static constexpr std::size_t kMost = 32;  // clients choose the lists

  std::map<std::pair<Sources, Company>, speculation::Experience> latest_;
};

}  // namespace ft::engine
