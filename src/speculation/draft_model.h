// Source `draft`: a second, smaller model of the same vocabulary that decodes ahead.
#pragma once

#include "models/model.h"
#include "speculation/draft_source.h"

#include <cstddef>
#include <memory>
#include <string_view>

namespace ft::speculation {

inline constexpr std::string_view kDraftModelSource = "draft";

struct DraftModelOptions {
  std::size_t chunk = 512;  // tokens per forward, at least 1
};

/// The provider owns the draft model; each of its sources has a cache and a workspace of its own.
/// Who calls has made sure that both models mean the same by an id. Ids beyond the target's
/// vocabulary are never drafted; a session with an id beyond the draft model's gets no drafts.
std::unique_ptr<DraftProvider> make_draft_model_provider(std::unique_ptr<const models::Model> model,
                                                         const DraftModelOptions& options);

}  // namespace ft::speculation
