// What a model family gives the registry. One unit per family, listed in CMakeLists.txt.
#pragma once

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "models/model.h"

#include <memory>

namespace ft::models {

/// A unit named <model_type> defines `Family <model_type>_family()`.
struct Family {
  std::unique_ptr<Model> (*load)(checkpoint::Checkpoint checkpoint,
                                 kernels::Backend& backend,
                                 ThreadPool& pool,
                                 const LoadOptions& options);
  Inspection (*inspect)(const checkpoint::Checkpoint& checkpoint);
};

}  // namespace ft::models
