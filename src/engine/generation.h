// One generation request as a member of the engine's batch: prefill, rounds, and what of them the
// caller sees.
#pragma once

#include "engine/batch.h"
#include "engine/engine_core.h"
#include "engine/event_channel.h"
#include "foretoken/request.h"

#include <cstdint>
#include <memory>

namespace ft::engine {

/// Throws InvalidInput for what can be seen without the model's work: empty prompt, prompt longer
/// than the context, ids outside the vocabulary, lengths and names that cannot be. Thread-safe.
void check_request(const foretoken::GenerationRequest& request, const EngineParts& parts);

/// The prompt's part of it.
void check_prompt(TokenSpan prompt, const EngineParts& parts);

/// `submitted_us`: when the caller handed the request over, on the engine's clock. `core` must
/// outlive the member.
std::unique_ptr<Member> make_generation(EngineCore& core,
                                        foretoken::GenerationRequest request,
                                        std::shared_ptr<EventChannel> channel,
                                        std::int64_t submitted_us);

}  // namespace ft::engine
