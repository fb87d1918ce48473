// Where a container keeps its routed experts, as a StreamingStore wants to know it.
#pragma once

#include "checkpoint/checkpoint.h"
#include "experts/streaming_store.h"
#include "kernels/kernels.h"

#include <filesystem>
#include <span>
#include <vector>

namespace ft::models {

/// The layers with routed experts in ascending order, those of the next-token layer in the draft
/// tier. `mirrors`: further folders of the same container. `checkpoint` needs no map(); `backend`
/// must outlive the result. Throws InvalidInput if the checkpoint is no container, if experts are
/// not stored in panels, or if a mirror's index differs.
std::vector<experts::LayerExtents> expert_extents(const checkpoint::Checkpoint& checkpoint,
                                                  std::span<const std::filesystem::path> mirrors,
                                                  const kernels::Backend& backend);

}  // namespace ft::models
