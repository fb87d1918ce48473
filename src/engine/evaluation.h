// Raw logits of a prompt and of the draft head's greedy chain behind it.
#pragma once

#include "engine/engine_core.h"
#include "foretoken/request.h"
#include "foretoken/result.h"

#include <stop_token>

namespace ft::engine {

/// Engine thread. The request passed check_prompt(). Throws InvalidInput if drafts are asked of a
/// model without a draft head or do not fit into the context, Cancelled.
foretoken::Evaluation evaluate(EngineCore& core,
                               const foretoken::EvaluationRequest& request,
                               const std::stop_token& stop);

}  // namespace ft::engine
