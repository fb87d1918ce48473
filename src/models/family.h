// What a model family gives the registry. One unit per family, listed in CMakeLists.txt.
#pragma once

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "models/memory_needs.h"
#include "models/model.h"
#include "models/weight_plan.h"

#include <memory>

namespace ft::models {

/// What a family needs of a checkpoint, after its census. Nothing is loaded; the plan's
/// destinations live as long as this.
struct DeclaredWeights {
  WeightPlan plan;
  std::shared_ptr<void> destinations;
};

/// A unit named <model_type> defines `Family <model_type>_family()`.
struct Family {
  std::unique_ptr<Model> (*load)(checkpoint::Checkpoint checkpoint,
                                 kernels::Backend& backend,
                                 ThreadPool& pool,
                                 const LoadOptions& options);
  Inspection (*inspect)(const checkpoint::Checkpoint& checkpoint);
  MemoryNeeds (*memory)(checkpoint::Checkpoint& checkpoint,
                        const kernels::Backend& backend,
                        const MemoryUse& use);
  /// Throws InvalidInput as load does.
  DeclaredWeights (*declare)(const checkpoint::Checkpoint& checkpoint);
};

/// The family of a checkpoint, by config.json's model_type. Throws InvalidInput naming the known
/// ones.
Family family_of(const checkpoint::Checkpoint& checkpoint);

}  // namespace ft::models
