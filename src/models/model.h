// A loaded model: immutable, safe to share between threads that each bring a Workspace.
#pragma once

#include "base/thread_pool.h"
#include "base/types.h"
#include "cache/kv_cache.h"
#include "checkpoint/checkpoint.h"
#include "experts/expert_store.h"
#include "kernels/kernels.h"
#include "models/draft_head.h"
#include "models/workspace.h"
#include "tensor/formats/quantized_matrix.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace ft::models {

/// What the layers above need to know of any model.
struct ModelConfig {
  std::string family;        // "glm_moe_dsa"
  std::size_t n_layers = 0;  // decoder layers, the draft head's not counted
  std::size_t d_model = 0;
  std::size_t n_vocab = 0;
  std::size_t n_experts = 0;       // 0: dense
  std::size_t n_active = 0;        // routed experts of a row and layer
  std::size_t max_context = 0;     // positions the model was trained for
  std::vector<Token> eos_tokens;   // union of config.json and generation_config.json, never empty
  std::uint64_t n_parameters = 0;  // draft head included
  std::uint64_t dense_bytes = 0;   // weight bytes as stored: all but experts and draft head
  std::uint64_t expert_bytes = 0;
  std::uint64_t draft_head_bytes = 0;
  std::string weight_format;       // WeightPlan::format(): "fp8", "q4+q8"
  std::string draft_head_absence;  // why there is no draft head; empty if there is one
  std::string weights_hash;        // Checkpoint::fingerprint(); empty in inspect_model()
};

/// New tokens of one sequence, to be fed on top of its cache.
struct SequenceSlice {
  cache::KvCache* cache = nullptr;  // made by the same model's new_cache
  TokenSpan tokens;                 // at least one, ids < n_vocab
  std::size_t n_logits = 0;         // of the last rows of the slice; 0 … tokens.size()
};

/// Views into the workspace; they die at its next use.
struct ForwardOutput {
  ConstMatrix logits;             // [sum of n_logits, n_vocab] f32, slices in order
  std::vector<ConstMatrix> taps;  // per requested layer [sum of tokens, d_model] f32
};

/// Deviations that reproduce other engines for comparison; the defaults are the model as trained.
struct Compat {
  bool draft_starts_cold = false;  // the draft head never sees the prompt
  bool draft_chains_raw = false;   // chain the residual instead of the state after shared_head.norm
};

struct LoadOptions {
  Compat compat;
  /// Quantizes what the draft head reads as far as it is not: its layer, and a copy of the output
  /// head. Fewer bytes per draft, slightly different drafts, never a different text.
  std::optional<QuantFormat> draft_format = std::nullopt;
  /// Routed experts come from here, made with expert_extents(), and are not loaded. It must outlive
  /// the model. Null: all are resident.
  experts::ExpertStore* store = nullptr;
  /// Called with bytes done and bytes in total while weights are packed; may be empty.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const noexcept = 0;
  virtual std::unique_ptr<cache::KvCache> new_cache(const cache::CacheOptions& options) const = 0;
  virtual std::unique_ptr<Workspace> new_workspace() const = 0;

  /// Feeds every slice's tokens on top of its cache (a ragged batch). `taps`: layers whose hidden
  /// rows are returned: i < n_layers is the residual stream after layer i, n_layers the state after
  /// the final norm. A row's results do not depend on the other rows of the call. Throws
  /// InvalidInput if a cache is full or a token is out of range, Cancelled (seen between layers),
  /// Error if a value is no longer finite (names the layer); every cache is then at its old length.
  virtual const ForwardOutput& forward(std::span<const SequenceSlice> slices,
                                       std::span<const LayerIndex> taps,
                                       std::stop_token stop,
                                       Workspace& workspace) const = 0;

  /// The embedding rows of tokens, as forward() feeds them: [tokens.size(), d_model] f32, a view
  /// into the workspace that dies at its next forward or embed(). For draft sources, with a
  /// workspace of their own. At least one token; throws InvalidInput if one is out of range.
  virtual ConstMatrix embed(TokenSpan tokens, Workspace& workspace) const = 0;

  /// The output head on hidden rows [n, d_model] f32, n >= 1, as they are after a final norm:
  /// [n, n_vocab] f32, or of the head's rows `ids` alone, in their order, [n, ids.size()]. A view
  /// into the workspace that dies at its next forward or project(). Rows of tap n_layers give the
  /// bits that forward() gives. Values are not checked: rows that are not finite give logits that
  /// are not. Throws InvalidInput if an id is out of range, LogicError for another width. Costs the
  /// whole head whatever `ids`.
  virtual ConstMatrix project(ConstMatrix hidden, TokenSpan ids, Workspace& workspace) const = 0;

  /// The family's own next-token head, or nullptr if the checkpoint has none (or not all of it).
  virtual const DraftHead* draft_head() const noexcept = 0;
};

/// Builds the model of a checkpoint: picks the family by config.json's model_type, checks the
/// config, runs the census, maps and packs the weights. The model keeps `checkpoint`. `backend` and
/// `pool` must outlive it; `pool` packs in parallel. Throws InvalidInput with one line for an
/// unknown family, absurd config values, missing or wrong tensors.
std::unique_ptr<Model> load_model(checkpoint::Checkpoint checkpoint,
                                  kernels::Backend& backend,
                                  ThreadPool& pool,
                                  const LoadOptions& options);

/// The config alone, from headers: nothing is mapped. Problems that would stop a load are listed,
/// not thrown.
struct Inspection {
  ModelConfig config;
  bool has_draft_head = false;
  std::vector<std::string> problems;
};
Inspection inspect_model(const checkpoint::Checkpoint& checkpoint);

}  // namespace ft::models
