// What the jobs of the engine thread run on.
#pragma once

#include "base/clock.h"
#include "base/thread_pool.h"
#include "cache/kv_cache.h"
#include "engine/memory_guard.h"
#include "engine/memory_plan.h"
#include "engine/model_text.h"
#include "engine/planner_experience.h"
#include "engine/prefix_pool.h"
#include "engine/sampling_defaults.h"
#include "experts/routing_memory.h"
#include "experts/streaming_store.h"
#include "kernels/kernels.h"
#include "models/model.h"
#include "speculation/draft_source.h"
#include "tensor/dtype.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::engine {

/// A loaded model and how to use it. Members die in reverse order: the model before what it
/// borrows.
struct EngineParts {
  std::shared_ptr<const Clock> clock;  // shared: streams outlive the engine
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<experts::StreamingStore> store;  // null: experts are resident
  std::unique_ptr<models::Model> model;
  std::shared_ptr<const ModelText> text;  // null: the model folder has no tokenizer
  std::function<std::uint64_t()> draw_seed;
  /// Draft sources besides those that speculation knows, by name; a name here wins. Filled further
  /// as requests name sources.
  std::map<std::string, std::unique_ptr<speculation::DraftProvider>, std::less<>> providers;
  std::string name;
  SamplingDefaults sampling_defaults;
  std::size_t context = 0;                    // positions of a session's caches
  std::optional<std::size_t> max_prediction;  // tokens; unset: as many as the context
  DType kv_type = DType::kF32;                // of their rows: kF32 or kBF16
  std::size_t prefill_chunk = 0;              // prompt tokens per forward
  std::size_t max_sessions = 1;               // requests that go on together
  std::size_t max_queued = 256;               // that wait for a session, at most
  bool reuses_prefixes = false;               // of the prompts of earlier sessions
  std::size_t history_tokens = 0;             // of earlier sessions, for draft sources
  std::size_t n_logit_rows = 0;               // of a forward, at most; 0: any number
  MemoryPlan memory;
  bool has_budget = false;                     // memory.budget_bytes is a promise
  std::function<void(std::string_view)> warn;  // may be empty
  bool saves_expert_usage = false;             // when the engine closes
  double load_ms = 0;

  cache::CacheOptions cache_options() const noexcept {
    return {.max_tokens = context, .dtype = kv_type};
  }
};

/// The draft sources that requests may name, in the order the planner should prefer on ties.
std::vector<std::string> source_names(const EngineParts& parts);

/// The parts, and what the engine thread alone touches.
class EngineCore {
 public:
  /// Throws LogicError if a part is missing; `pool` and `backend` may be null for models that need
  /// none.
  explicit EngineCore(EngineParts parts);
  /// Writes what was learned about the use of experts.
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;
  EngineCore(EngineCore&&) = delete;
  EngineCore& operator=(EngineCore&&) = delete;

  const EngineParts& parts() const noexcept { return parts_; }
  const models::Model& model() const noexcept { return *parts_.model; }

  // --- engine thread ---
  models::Workspace& workspace() noexcept { return *workspace_; }
  /// For the draft head's steps of several sessions. A model without a head has none: null.
  models::Workspace* draft_workspace() noexcept { return draft_workspace_.get(); }
  PlannerExperience& experience() noexcept { return experience_; }
  /// The provider of a source, made at its first use and kept. Throws what make_draft_provider
  /// throws.
  const speculation::DraftProvider& provider(std::string_view name);
  /// Looks at the process now; the largest of all looks. The kernel keeps no peak of anonymous
  /// pages alone.
  std::uint64_t sample_peak_anonymous_bytes() noexcept;
  /// The same look; what the process has now.
  std::uint64_t sample_anonymous_bytes() noexcept;
  PrefixPool& prefixes() noexcept { return prefixes_; }
  /// Between rounds, chunks and layers: gives memory back if it is short.
  void check_memory() {
    if (guard_) guard_->check();
  }
  experts::ExpertStats expert_stats() const {
    return parts_.store ? parts_.store->stats() : experts::ExpertStats();
  }

 private:
  EngineParts parts_;
  std::optional<experts::RoutingMemory> routing_;  // if experts stream
  PlannerExperience experience_;
  std::unique_ptr<models::Workspace> workspace_;
  std::unique_ptr<models::Workspace> draft_workspace_;
  PrefixPool prefixes_;
  std::uint64_t peak_anonymous_bytes_ = 0;
  std::optional<MemoryGuard> guard_;  // if experts stream
};

}  // namespace ft::engine
