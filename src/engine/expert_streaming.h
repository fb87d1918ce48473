// From engine options to a store that streams experts, and the file that remembers their use.
#pragma once

#include "base/clock.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "engine/memory_plan.h"
#include "experts/streaming_store.h"
#include "foretoken/foretoken.h"
#include "kernels/kernels.h"

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace ft::engine {

/// Beside a container's index.
inline constexpr std::string_view kExpertUsageFile = "experts.usage";

/// The words of EngineOptions. Throw InvalidInput naming the option.
ExpertPlacement expert_placement(const foretoken::EngineOptions& options);
experts::PolicyKind expert_policy(const foretoken::EngineOptions& options);
experts::StreamingOptions::Lookahead lookahead(const foretoken::EngineOptions& options);

/// Throws InvalidInput if the checkpoint's experts cannot stream or a mirror is no copy. `backend`
/// must outlive the result.
std::vector<experts::LayerExtents> streamed_layers(const checkpoint::Checkpoint& checkpoint,
                                                   const foretoken::EngineOptions& options,
                                                   const kernels::Backend& backend);

/// A store with the slots of the plan. `clock` and `pool`, which the engine thread uses, must
/// outlive it. Throws as StreamingStore does.
std::unique_ptr<experts::StreamingStore> open_store(std::vector<experts::LayerExtents> layers,
                                                    const MemoryPlan& plan,
                                                    const foretoken::EngineOptions& options,
                                                    const std::filesystem::path& folder,
                                                    const Clock& clock,
                                                    ThreadPool& pool);

}  // namespace ft::engine
