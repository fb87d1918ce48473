// From options to a loaded model.
#pragma once

#include "engine/engine_core.h"
#include "foretoken/foretoken.h"

namespace ft::engine {

/// Checks the options, reads the model and packs its weights. Throws InvalidInput naming the option
/// and its value, ResourceExhausted, IoError.
EngineParts open_parts(const foretoken::EngineOptions& options);

}  // namespace ft::engine
