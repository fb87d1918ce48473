#include "engine/open_engine.h"

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "engine/expert_streaming.h"
#include "engine/memory_plan.h"
#include "io/process_memory.h"
#include "models/memory_needs.h"
#include "speculation/draft_model.h"
#include "speculation/head_history.h"
#include "speculation/lookup_memory.h"
#include "speculation/round_planner.h"
#include "text/same_tokens.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ft::engine {
namespace {

constexpr std::size_t kDefaultContext = 8192;
// Of an engine that chooses by itself: more share a forward's weights no better.
constexpr std::size_t kMostSessions = 16;
constexpr std::size_t kPoolPart = 8;  // of a pool's slots, that further sessions may take
// Logits of a round: the pending token's, and one row per draft.
constexpr std::size_t kRoundRows = speculation::kMaxDraftTokens + 1;

std::unique_ptr<ThreadPool> make_pool(const foretoken::EngineOptions& options) {
  const std::size_t n_threads = compute_threads(options.n_threads);
  if (!options.pin_threads) return std::make_unique<ThreadPool>(n_threads);
  std::vector<std::int64_t> cpus = cpus_for_threads(n_threads);
  if (cpus.empty()) {
    fail(
        "pin_threads is set for {} threads, more than the processors or the CPU quota allowed to "
        "this process; use fewer threads, or do not pin them",
        n_threads);
  }
  return std::make_unique<ThreadPool>(n_threads, std::move(cpus));
}

kernels::Isa isa_of(const foretoken::EngineOptions& options) {
  const std::vector<kernels::Isa> usable = kernels::usable_isas();
  if (options.isa == "auto") return usable.front();
  const std::optional<kernels::Isa> isa = kernels::isa_from_name(options.isa);
  if (isa && std::find(usable.begin(), usable.end(), *isa) != usable.end()) return *isa;
  std::string names = "auto";
  for (const kernels::Isa known : usable) names.append(", ").append(kernels::isa_name(known));
  fail("isa is {}, this build and processor have: {}", in_quotes(options.isa), names);
}

std::size_t context_of(const foretoken::EngineOptions& options, const models::ModelConfig& config) {
  if (options.context == 0) return std::min(config.max_context, kDefaultContext);
  if (options.context > config.max_context) {
    fail("context is {}, the model was trained for {} positions; ask for at most that",
         options.context,
         config.max_context);
  }
  return options.context;
}

std::optional<QuantFormat> draft_format_of(const foretoken::EngineOptions& options) {
  if (options.draft_format == "stored") return std::nullopt;
  if (const auto format = quant_format_from_name(options.draft_format)) return format;
  fail("draft_format is {}, expected 'stored', 'q8' or 'q4'", in_quotes(options.draft_format));
}

DType kv_type_of(const foretoken::EngineOptions& options) {
  if (options.kv_type == "f32") return DType::kF32;
  if (options.kv_type == "bf16") return DType::kBF16;
  fail("kv_type is {}, expected 'f32' or 'bf16'", in_quotes(options.kv_type));
}

void check_options(const foretoken::EngineOptions& options) {
  if (options.prefill_chunk == 0) fail("prefill_chunk is 0, expected at least 1");
  static_cast<void>(expert_placement(options));
  static_cast<void>(expert_policy(options));
  static_cast<void>(lookahead(options));
}

models::MemoryUse use_of(const foretoken::EngineOptions& options, const EngineParts& parts) {
  models::MemoryUse use;
  use.n_rows = std::max(parts.prefill_chunk, kRoundRows);
  use.n_logits = std::min(parts.n_logit_rows, use.n_rows);
  use.context = parts.context;
  use.kv_type = parts.kv_type;
  use.drafts = options.plans_drafts;
  use.n_draft_rows = speculation::HeadHistory::kMaxRows;
  use.draft_format = draft_format_of(options);
  return use;
}

/// With caches for every session. Each feeds its own prompt to the draft head, on a workspace of
/// its own; several take its steps on a further one, which has the waiting rows of all.
models::MemoryNeeds for_sessions(models::MemoryNeeds needs, std::size_t n_sessions) {
  needs.kv_bytes *= n_sessions;
  needs.draft_kv_bytes *= n_sessions;
  if (n_sessions > 1) {
    needs.workspace_bytes += (2 * n_sessions - 1) * needs.draft_workspace_bytes;
  }
  return needs;
}

MemoryPlan plan_of(checkpoint::Checkpoint& checkpoint,
                   const foretoken::EngineOptions& options,
                   const EngineParts& parts,
                   std::size_t n_sessions) {
  MemoryPlanRequest request;
  request.needs_of = [&](const models::MemoryUse& other) {
    return for_sessions(models::memory_needs(checkpoint, *parts.backend, other), n_sessions);
  };
  std::optional<checkpoint::Checkpoint> draft;
  if (!options.draft_model.empty()) {
    draft.emplace(checkpoint::Checkpoint::open(options.draft_model));
    request.draft_model_needs_of = [&](const models::MemoryUse& other) {
      models::MemoryUse use = other;
      use.context = std::min(use.context, models::inspect_model(*draft).config.max_context);
      use.draft_format.reset();
      models::MemoryNeeds needs =
          for_sessions(models::memory_needs(*draft, *parts.backend, use), n_sessions);
      needs.workspace_bytes *= n_sessions;
      return needs;
    };
  }
  request.use = use_of(options, parts);
  request.lookup_bytes_of = [n_sessions](std::size_t context) {
    return n_sessions * speculation::lookup_bytes(context);
  };
  request.history_bytes = speculation::history_bytes(options.draft_history);
  request.prediction_bytes_of = [longest = options.max_prediction,
                                 n_sessions](std::size_t context) {
    return n_sessions *
           speculation::prediction_bytes(std::min(longest.value_or(context), context), context);
  };
  request.experts = expert_placement(options);
  request.budget_bytes = options.ram_budget_bytes;
  request.limits = io::memory_limits();
  request.held_bytes = io::process_memory().anonymous_bytes;
  return plan_memory(request);
}

/// The sessions asked for, or as many as cost nobody anything: experts stay where they would be
/// with one session, and a pool keeps most of its slots.
void plan_sessions(checkpoint::Checkpoint& checkpoint,
                   const foretoken::EngineOptions& options,
                   EngineParts& parts) {
  parts.max_sessions = std::max<std::size_t>(options.max_sessions, 1);
  parts.memory = plan_of(checkpoint, options, parts, parts.max_sessions);
  if (options.max_sessions > 0 || !parts.memory.refusal.empty()) return;
  const auto is_good = [&one = parts.memory](const MemoryPlan& plan) {
    const std::size_t least_slots = one.trunk.n_slots - one.trunk.n_slots / kPoolPart;
    return plan.refusal.empty() && plan.streams == one.streams && plan.trunk.n_slots >= least_slots;
  };
  for (std::size_t n = kMostSessions; n > 1; n /= 2) {
    MemoryPlan plan = plan_of(checkpoint, options, parts, n);
    if (!is_good(plan)) continue;
    parts.max_sessions = n;
    parts.memory = std::move(plan);
    return;
  }
}

void check_plan(const MemoryPlan& plan, const foretoken::EngineOptions& options) {
  if (!plan.refusal.empty()) fail("{}", plan.refusal);
  if (plan.cut_from_bytes > 0 && options.warn) {
    options.warn(
        fmt::format("memory: the budget of {} bytes is cut to {}: more is not left beside {} of "
                    "weights in the page cache",
                    plan.cut_from_bytes,
                    plan.budget_bytes,
                    plan.mapped_bytes));
  }
}

void set_sizes(const foretoken::EngineOptions& options,
               checkpoint::Checkpoint& checkpoint,
               EngineParts& parts) {
  const models::Inspection inspection = models::inspect_model(checkpoint);
  if (!inspection.problems.empty()) {
    static_cast<void>(models::memory_needs(checkpoint, *parts.backend, {}));  // says all of them
    fail("{}", inspection.problems.front());
  }
  parts.context = context_of(options, inspection.config);
  parts.prefill_chunk = std::min(options.prefill_chunk, parts.context);
  parts.n_logit_rows = std::max(options.n_logit_rows, kRoundRows);
}

/// Plans the memory, and opens the store if experts stream.
void place_experts(checkpoint::Checkpoint& checkpoint,
                   const foretoken::EngineOptions& options,
                   EngineParts& parts) {
  std::vector<experts::LayerExtents> layers;
  const bool must_stream = expert_placement(options) == ExpertPlacement::kStream;
  if (must_stream) layers = streamed_layers(checkpoint, options, *parts.backend);
  plan_sessions(checkpoint, options, parts);
  check_plan(parts.memory, options);
  if (!parts.memory.streams) {
    if (!options.mirrors.empty() && options.warn) {
      options.warn("experts are resident: mirrors are not read");
    }
    return;
  }
  if (!must_stream) layers = streamed_layers(checkpoint, options, *parts.backend);
  parts.store = open_store(
      std::move(layers), parts.memory, options, checkpoint.folder(), *parts.clock, *parts.pool);
  if (options.warn && !parts.store->heat_warning().empty()) {
    options.warn(parts.store->heat_warning());
  }
}

std::string folder_name(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(folder, error);
  return (error ? folder : real).filename().string();
}

/// Refuses a second model that speaks of other tokens.
void check_draft_model(const foretoken::EngineOptions& options, const EngineParts& parts) {
  const std::string& path = options.draft_model;
  for (const bool is_draft : {false, true}) {
    if (is_draft ? ModelText::exists(path) : parts.text != nullptr) continue;
    fail("draft_model is {}, and {} has no tokenizer.json to prove that both have the same tokens",
         in_quotes(path),
         is_draft ? "it" : "the model");
  }
  text::require_same_tokens(parts.text->tokenizer(),
                            ModelText::open(path, parts.clock).tokenizer());
}

/// What comes before a model can be planned for.
checkpoint::Checkpoint open_checkpoint(const foretoken::EngineOptions& options,
                                       EngineParts& parts) {
  parts.clock = std::make_shared<const SteadyClock>();
  check_options(options);
  parts.kv_type = kv_type_of(options);
  const kernels::Isa isa = isa_of(options);
  parts.pool = make_pool(options);
  parts.backend = kernels::make_cpu_backend(isa, *parts.pool);

  checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(options.model_path);
  const std::filesystem::path folder = checkpoint.folder();
  if (!options.mirrors.empty() && checkpoint.container() == nullptr) {
    fail("--mirror {} is given, and {} is no container: only containers have copies to read from",
         in_quotes(options.mirrors.front()),
         in_quotes(folder.native()));
  }
  parts.name = folder_name(folder);
  parts.sampling_defaults = sampling_defaults(checkpoint.generation_config());
  if (ModelText::exists(folder)) {
    parts.text = std::make_shared<const ModelText>(ModelText::open(folder, parts.clock));
  }
  set_sizes(options, checkpoint, parts);
  if (!options.draft_model.empty()) check_draft_model(options, parts);
  return checkpoint;
}

void load_draft_model(const foretoken::EngineOptions& options, EngineParts& parts) {
  std::unique_ptr<models::Model> draft = models::load_model(
      checkpoint::Checkpoint::open(options.draft_model), *parts.backend, *parts.pool, {});
  const std::size_t here = parts.model->config().n_vocab;
  const std::size_t there = draft->config().n_vocab;
  if (here != there && options.warn) {
    options.warn(fmt::format(
        "the draft model has {} ids, the model {}: those that only one has are not drafted",
        there,
        here));
  }
  parts.providers.emplace(
      speculation::kDraftModelSource,
      speculation::make_draft_model_provider(std::move(draft), {.chunk = parts.prefill_chunk}));
}

}  // namespace

ModelPlan plan_model(const foretoken::EngineOptions& options) {
  ModelPlan out;
  checkpoint::Checkpoint checkpoint = open_checkpoint(options, out.parts);
  if (expert_placement(options) == ExpertPlacement::kStream) {
    out.layers = streamed_layers(checkpoint, options, *out.parts.backend);
  }
  plan_sessions(checkpoint, options, out.parts);
  const models::MemoryUse use = use_of(options, out.parts);
  out.needs = models::memory_needs(checkpoint, *out.parts.backend, use);
  if (out.parts.memory.streams && out.layers.empty()) {
    out.layers = streamed_layers(checkpoint, options, *out.parts.backend);
  }
  return out;
}

EngineParts open_parts(const foretoken::EngineOptions& options) {
  const SteadyClock clock;
  const std::int64_t start_us = clock.now_us();
  EngineParts parts;
  checkpoint::Checkpoint checkpoint = open_checkpoint(options, parts);
  place_experts(checkpoint, options, parts);
  parts.model =
      models::load_model(std::move(checkpoint),
                         *parts.backend,
                         *parts.pool,
                         {.compat = {.draft_starts_cold = options.compat.draft_starts_cold,
                                     .draft_chains_raw = options.compat.draft_chains_raw},
                          .draft_format = draft_format_of(options),
                          .store = parts.store.get(),
                          .progress = options.load_progress});
  if (!options.draft_model.empty()) load_draft_model(options, parts);
  parts.draw_seed = draw_seed;
  parts.warn = options.warn;
  parts.history_tokens = options.draft_history;
  parts.max_prediction = options.max_prediction;
  parts.max_queued = options.max_queued;
  parts.reuses_prefixes = options.reuses_prefixes;
  parts.has_budget = parts.store != nullptr || options.ram_budget_bytes > 0;
  parts.saves_expert_usage = options.expert_usage == foretoken::ExpertUsageFile::kUpdate;
  parts.load_ms = static_cast<double>(clock.now_us() - start_us) / 1000;
  return parts;
}

}  // namespace ft::engine
