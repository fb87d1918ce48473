// How a draft source enters the registry: each sources/<name>.cc defines draft_source_<name>().
#pragma once

#include "models/model.h"
#include "speculation/draft_source.h"

#include <memory>
#include <string>
#include <string_view>

namespace ft::speculation {

struct SourceUnit {
  std::string_view name;
  /// Why this model cannot feed the source, in words that end a sentence; empty if it can.
  std::string (*obstacle)(const models::Model& model);
  /// Only called if there is no obstacle. The provider keeps a reference to the model.
  std::unique_ptr<DraftProvider> (*make)(const models::Model& model);
};

}  // namespace ft::speculation
