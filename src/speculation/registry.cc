// The list of draft sources is that of CMakeLists.txt; this file turns it into a table.
#include "base/error.h"
#include "speculation/draft_source.h"
#include "speculation/source_unit.h"

#include <array>
#include <string>

namespace ft::speculation {

#define DRAFT_SOURCE(unit) SourceUnit draft_source_##unit();
#include "draft_source.inc"
#undef DRAFT_SOURCE

namespace {

constexpr std::string_view kNone = "none";

#define DRAFT_SOURCE(unit) draft_source_##unit(),
auto all_units() {
  return std::array{
#include "draft_source.inc"
  };
}
#undef DRAFT_SOURCE

}  // namespace

std::unique_ptr<DraftProvider> make_draft_provider(std::string_view name,
                                                   const models::Model& model) {
  std::string known;
  for (const SourceUnit& unit : all_units()) {
    if (unit.name == name) {
      const std::string obstacle = unit.obstacle(model);
      if (!obstacle.empty()) fail("draft source '{}': {}", name, obstacle);
      return unit.make(model);
    }
    known += known.empty() ? "" : ", ";
    known += unit.name;
  }
  fail("draft source '{}' is unknown, expected one of: {}", name, known);
}

std::vector<std::string_view> available_sources(const models::Model& model) {
  std::vector<std::string_view> names;
  for (const SourceUnit& unit : all_units()) {
    if (unit.name != kNone && unit.obstacle(model).empty()) names.push_back(unit.name);
  }
  return names;
}

}  // namespace ft::speculation
