// The two-model source: an ordinary smaller model with the same tokens drafts. Source `draft`.
#pragma once

#include "models/model.h"
#include "speculation/draft_source.h"

#include <memory>
#include <string_view>

namespace ft::speculation {

inline constexpr std::string_view kDraftModelSource = "draft";

/// Both models must outlive the provider. That their tokens are the same is for the caller to
/// prove. Vocabularies may be padded to different sizes: ids that the target lacks are never
/// drafted, and behind an id that the draft model lacks nothing is.
std::unique_ptr<DraftProvider> make_draft_model_provider(const models::Model& draft,
                                                         const models::Model& target);

}  // namespace ft::speculation
