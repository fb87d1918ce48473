// What a model will need of memory, told before anything is loaded.
#pragma once

#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"
#include "tensor/formats/quantized_matrix.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ft::models {

/// How the model will be used.
struct MemoryUse {
  std::size_t n_rows = 0;    // of the largest forward
  std::size_t n_logits = 0;  // rows of it with logits, at most
  std::size_t context = 0;   // positions per cache
  DType kv_type = DType::kF32;
  bool drafts = true;                       // with the model's own draft head
  std::size_t n_draft_rows = 1;             // of its largest call
  std::optional<QuantFormat> draft_format;  // LoadOptions::draft_format
};

/// Routed experts of the trunk or of the draft head.
struct ExpertNeeds {
  std::size_t n_layers = 0;
  std::size_t n_experts = 0;       // per layer
  std::size_t n_active = 0;        // per row and layer
  std::uint64_t stored_bytes = 0;  // of all
  std::uint64_t packed_bytes = 0;  // anonymous memory of all when resident; 0 if used where mapped
  std::uint64_t slot_bytes = 0;    // of one in a streaming pool; 0: it cannot stream
};

/// Bytes.
struct MemoryNeeds {
  std::uint64_t packed_bytes = 0;  // anonymous: weights, but routed experts
  std::uint64_t mapped_bytes = 0;  // of files, used where they are mapped; but routed experts
  ExpertNeeds trunk;
  ExpertNeeds draft;
  std::uint64_t kv_bytes = 0;  // of one cache full of `context` positions
  std::uint64_t draft_kv_bytes = 0;
  std::uint64_t routing_bytes = 0;          // of a RoutingMemory, for experts that stream
  std::uint64_t workspace_bytes = 0;        // of a forward, with the kernels' scratch
  std::uint64_t draft_workspace_bytes = 0;  // in it; of the draft head, on a workspace of its own
};

/// Maps the checkpoint. Throws InvalidInput as load_model() does for what headers show.
MemoryNeeds memory_needs(checkpoint::Checkpoint& checkpoint,
                         const kernels::Backend& backend,
                         const MemoryUse& use);

}  // namespace ft::models
