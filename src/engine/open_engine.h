// From options to a loaded model.
#pragma once

#include "engine/engine_core.h"
#include "experts/streaming_store.h"
#include "foretoken/foretoken.h"
#include "models/memory_needs.h"

#include <vector>

namespace ft::engine {

/// Checks the options, reads the model and packs its weights. Throws InvalidInput naming the option
/// and its value, ResourceExhausted, IoError.
EngineParts open_parts(const foretoken::EngineOptions& options);

/// What open_parts() would do, told from headers.
struct ModelPlan {
  EngineParts parts;  // without model and store
  models::MemoryNeeds needs;
  std::vector<experts::LayerExtents> layers;  // empty unless experts would stream
};
/// A plan that does not fit is no error: parts.memory.refusal says why. Throws InvalidInput as
/// open_parts() does for what headers show, IoError.
ModelPlan plan_model(const foretoken::EngineOptions& options);

}  // namespace ft::engine
