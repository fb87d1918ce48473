// GLM-5, 5.1, 5.2 and 5.3 (model_type glm_moe_dsa): absorbed latent attention over keys that a
// lightning indexer chooses, choices shared between layers, routed experts with a shared one, and a
// next-token layer behind the trunk (glm_mtp.h). docs/model.md has the mathematics and the sources.
#include "base/error.h"
#include "cache/latent_cache.h"
#include "experts/resident_store.h"
#include "models/family.h"
#include "models/glm_config.h"
#include "models/glm_layer.h"
#include "models/glm_mtp.h"
#include "models/glm_weights.h"
#include "models/model.h"
#include "nn/compute.h"
#include "nn/embedding.h"
#include "nn/rope.h"
#include "nn/selection.h"
#include "tensor/formats/quantized_copy.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ft::models {
namespace {

struct GlmWorkspace final : Workspace {
  std::vector<cache::LatentCache*> caches;  // one per slice
  std::vector<nn::Run> runs;                // one per slice
  std::vector<Token> tokens;                // one per row
  std::vector<std::uint32_t> foretold;      // experts of hinted tokens
  nn::Rows rows;
  std::vector<nn::LatentKeys> keys;        // one per slice, of the running layer
  std::vector<std::uint32_t> logits_rows;  // rows whose logits are wanted
  nn::Selection selection;
  nn::ScratchMatrix x;
  nn::ScratchMatrix normed;
  nn::ScratchMatrix logits;
  nn::ScratchMatrix embedded;   // of embed()
  nn::ScratchMatrix projected;  // of project()
  nn::ScratchMatrix chosen;     // columns of it
  std::vector<nn::ScratchMatrix> taps;
  GlmLayerScratch layer;
  bool previews = false;
  ForwardOutput output;
};

/// One forward, as the store of the experts sees it.
class ExpertPass {
 public:
  ExpertPass(experts::ExpertStore& store, std::size_t n_rows) noexcept
      : store_(store), wants_prefetch_(store.begin_pass(n_rows)) {}
  ~ExpertPass() { store_.end_pass(); }
  ExpertPass(const ExpertPass&) = delete;
  ExpertPass& operator=(const ExpertPass&) = delete;
  ExpertPass(ExpertPass&&) = delete;
  ExpertPass& operator=(ExpertPass&&) = delete;
  bool wants_prefetch() const noexcept { return wants_prefetch_; }

 private:
  experts::ExpertStore& store_;
  bool wants_prefetch_;
};

class GlmModel final : public Model {
 public:
  GlmModel(checkpoint::Checkpoint checkpoint, GlmConfig config, nn::Compute compute)
      : checkpoint_(std::move(checkpoint)),
        config_(std::move(config)),
        compute_(compute),
        layout_(glm_cache_layout(config_, config_.has_indexer)),
        rotary_(config_.rope_theta, config_.attention.rope_dim) {}

  /// Census, mapping, packing. Called once, before anything else.
  void load(const LoadOptions& options) {
    GlmInventory inventory = take_inventory(config_, checkpoint_, weights_);
    inventory.plan.census();
    checkpoint_.map();
    if (options.draft_format) inventory.plan.quantize(WeightPart::kMtp, *options.draft_format);
    if (options.store != nullptr) inventory.plan.leave_experts();
    weights_.packed = inventory.plan.load(compute_.backend, compute_.pool, options.progress);
    connect_experts(options.store);
    description_ = std::move(inventory.description);
    description_.weights_hash = checkpoint_.fingerprint();
    if (weights_.draft) {
      choose_draft_output(inventory, options.draft_format);
      draft_head_.emplace(config_, weights_, rotary_, compute_, options.compat);
    }
  }

  const ModelConfig& config() const noexcept override { return description_; }
  const DraftHead* draft_head() const noexcept override {
    return draft_head_ ? &*draft_head_ : nullptr;
  }
  std::unique_ptr<cache::KvCache> new_cache(const cache::CacheOptions& options) const override {
    return new_glm_cache(config_, config_.has_indexer, options);
  }
  std::unique_ptr<Workspace> new_workspace() const override {
    return std::make_unique<GlmWorkspace>();
  }

  const ForwardOutput& forward(std::span<const SequenceSlice> slices,
                               std::span<const LayerIndex> taps,
                               std::stop_token stop,
                               Workspace& workspace) const override {
    auto& w = dynamic_cast<GlmWorkspace&>(workspace);
    begin(slices, taps, w);
    w.set_stop(stop);
    const ExpertPass pass(*store_, w.rows.size());
    w.previews = pass.wants_prefetch();
    const MutableMatrix x = w.x.shape(w.rows.size(), config_.d_model);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      nn::embed(weights_.embedding,
                slices[i].tokens,
                nn::rows_of(x, w.runs[i].first_row, w.runs[i].n_rows));
    }
    const std::size_t last_layer = config_.n_layers - 1;
    for (std::size_t layer = 0; layer < last_layer; ++layer) {
      if (stop.stop_requested()) throw Cancelled();
      run_layer(layer, x, 0, w);
      if (!nn::all_finite(x)) throw not_finite("layer " + std::to_string(layer), w);
      capture(static_cast<LayerIndex>(layer), x, taps, w);
      w.report(layer + 1, config_.n_layers);
    }
    if (stop.stop_requested()) throw Cancelled();
    // Nobody sees the last layer's output of earlier rows: they only leave their keys.
    const std::size_t first_row = first_wanted_row(taps, w);
    w.selection.drop_front(first_row);
    run_layer(last_layer, x, first_row, w);
    const MutableMatrix y = nn::rows_of(x, first_row, x.n_rows - first_row);
    if (!nn::all_finite(y)) throw not_finite("layer " + std::to_string(last_layer), w);
    capture(static_cast<LayerIndex>(last_layer), y, taps, w);
    const StageScope stage(w.meter(), Stage::kHead);
    const MutableMatrix normed = w.normed.shape(y.n_rows, config_.d_model);
    compute_.backend.rms_norm(normed, y, weights_.norm, config_.attention.norm_eps);
    capture(static_cast<LayerIndex>(config_.n_layers), normed, taps, w);
    project_logits(normed, first_row, w);
    for (std::size_t i = 0; i < slices.size(); ++i) w.caches[i]->append(w.runs[i].n_rows);
    return w.output;
  }

  ConstMatrix embed(TokenSpan tokens, Workspace& workspace) const override {
    FT_CHECK(!tokens.empty());
    check_tokens(tokens, config_.n_vocab);
    const MutableMatrix rows =
        dynamic_cast<GlmWorkspace&>(workspace).embedded.shape(tokens.size(), config_.d_model);
    nn::embed(weights_.embedding, tokens, rows);
    return rows;
  }

  ConstMatrix project(ConstMatrix hidden, TokenSpan ids, Workspace& workspace) const override {
    FT_CHECK(hidden.n_rows > 0 && hidden.n_cols == config_.d_model);
    check_tokens(ids, config_.n_vocab);
    auto& w = dynamic_cast<GlmWorkspace&>(workspace);
    const StageScope stage(w.meter(), Stage::kHead);
    const MutableMatrix logits = w.projected.shape(hidden.n_rows, config_.n_vocab);
    const kernels::MatmulOp op = nn::linear(logits, hidden, weights_.head);
    compute_on(w).matmul({&op, 1});
    if (ids.empty()) return logits;
    const MutableMatrix chosen = w.chosen.shape(hidden.n_rows, ids.size());
    for (std::size_t r = 0; r < hidden.n_rows; ++r) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        chosen.row(r)[i] = logits.row(r)[static_cast<std::size_t>(ids[i])];
      }
    }
    return chosen;
  }

 private:
  nn::Compute compute_on(const Workspace& workspace) const noexcept {
    return {compute_.backend, compute_.pool, workspace.meter(), &workspace.stop()};
  }

  /// Gives every sparse layer its experts. `store` null: those that were loaded.
  void connect_experts(experts::ExpertStore* store) {
    if (store == nullptr) {
      store = &resident_experts_.emplace(std::move(weights_.experts));
    }
    store_ = store;
    for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
      GlmLayer& layer = weights_.layers[i];
      if (!layer.moe) continue;
      layer.moe->store = store;
      if (i == 0) continue;
      weights_.layers[i - 1].next = {
          .moe = &*layer.moe, .norm = layer.attention_norm, .norm_eps = layer.norm_eps};
    }
    if (weights_.draft && weights_.draft->layer.moe) weights_.draft->layer.moe->store = store;
  }

  void choose_draft_output(const GlmInventory& inventory, std::optional<QuantFormat> format) {
    GlmDraftLayer& draft = *weights_.draft;
    draft.head = weights_.head;
    if (!format || !inventory.plan.is_made_of_elements(inventory.head_entry)) return;
    draft.head_copy.emplace(*format, inventory.plan.stored(inventory.head_name), compute_.pool);
    draft.head = compute_.backend.view(draft.head_copy->view(), kernels::Activation::kInt8);
  }

  /// Checks the slices and lays out their rows.
  void begin(std::span<const SequenceSlice> slices,
             std::span<const LayerIndex> taps,
             GlmWorkspace& w) const {
    w.caches.clear();
    w.runs.clear();
    w.tokens.clear();
    w.logits_rows.clear();
    std::size_t n_rows = 0;
    for (const SequenceSlice& slice : slices) {
      const std::size_t n = slice.tokens.size();
      FT_CHECK(slice.cache != nullptr && n > 0 && slice.n_logits <= n);
      check_tokens(slice.tokens, config_.n_vocab);
      cache::LatentCache& cache = checked_glm_cache(*slice.cache, layout_, n);
      FT_CHECK(std::find(w.caches.begin(), w.caches.end(), &cache) == w.caches.end());
      w.caches.push_back(&cache);
      w.runs.push_back({.first_row = n_rows, .n_rows = n, .first_position = cache.length()});
      w.tokens.insert(w.tokens.end(), slice.tokens.begin(), slice.tokens.end());
      n_rows += n;
      for (std::size_t row = n_rows - slice.n_logits; row < n_rows; ++row) {
        w.logits_rows.push_back(static_cast<std::uint32_t>(row));
      }
    }
    for (const LayerIndex tap : taps) {
      FT_CHECK(tap >= 0 && static_cast<std::size_t>(tap) <= config_.n_layers);
    }
    w.taps.resize(std::max(w.taps.size(), taps.size()));
    w.output.taps.resize(taps.size());
    w.rows.assign(compute_, w.runs, rotary_);
    w.selection.reset(w.rows, 0);
  }

  /// The first row whose last-layer output is a tap or has logits.
  std::size_t first_wanted_row(std::span<const LayerIndex> taps, const GlmWorkspace& w) const {
    for (const LayerIndex tap : taps) {
      if (static_cast<std::size_t>(tap) + 1 >= config_.n_layers) return 0;
    }
    return w.logits_rows.empty() ? w.rows.size() : w.logits_rows.front();
  }

  /// Rows before first_query leave only their keys.
  void run_layer(std::size_t layer,
                 MutableMatrix x,
                 std::size_t first_query,
                 GlmWorkspace& w) const {
    w.keys.clear();
    for (cache::LatentCache* cache : w.caches) {
      w.keys.push_back({cache->keys(layer), cache->index_keys(layer), cache->dtype()});
    }
    run_glm_layer(compute_on(w),
                  weights_.layers[layer],
                  {.rows = w.rows,
                   .caches = w.keys,
                   .first_query = first_query,
                   .choice = nn::KeyChoice::kSelect,
                   .selection = w.selection,
                   .previews = w.previews,
                   .x = x},
                  w.layer);
    follow_routing(layer, first_query, w);
  }

  /// After a layer's turn: notes what its rows chose, and has read for its next turn what the
  /// hinted tokens chose when they were last seen.
  void follow_routing(std::size_t layer, std::size_t first_query, GlmWorkspace& w) const {
    experts::RoutingMemory* memory = w.routing_memory();
    if (memory == nullptr || !weights_.layers[layer].moe) return;
    const std::size_t n_active = config_.router.n_active;
    const std::span<const std::uint32_t> chosen = w.layer.feed_forward.experts;
    for (std::size_t row = first_query; row < w.tokens.size(); ++row) {
      memory->record(
          w.tokens[row], layer, chosen.subspan((row - first_query) * n_active, n_active));
    }
    w.foretold.clear();
    for (const Token token : w.hints()) memory->recall(token, layer, w.foretold);
    if (!w.foretold.empty()) store_->prefetch_hinted(layer, w.foretold);
  }

  void capture(LayerIndex layer,
               ConstMatrix rows,
               std::span<const LayerIndex> taps,
               GlmWorkspace& w) const {
    for (std::size_t i = 0; i < taps.size(); ++i) {
      if (taps[i] != layer) continue;
      const MutableMatrix copy = w.taps[i].shape(rows.n_rows, rows.n_cols);
      std::copy_n(rows.data, rows.n_rows * rows.n_cols, copy.data);
      w.output.taps[i] = copy;
    }
  }

  /// `normed` holds the rows from first_row on.
  void project_logits(ConstMatrix normed, std::size_t first_row, GlmWorkspace& w) const {
    const std::size_t n = w.logits_rows.size();
    const MutableMatrix logits = w.logits.shape(n, config_.n_vocab);
    w.output.logits = logits;
    if (n == 0) return;
    for (std::uint32_t& row : w.logits_rows) row -= static_cast<std::uint32_t>(first_row);
    kernels::MatmulOp op = nn::linear(logits, nn::rows_of(normed, 0, n), weights_.head);
    if (w.logits_rows.back() - w.logits_rows.front() + 1 == n) {
      op.x = nn::rows_of(normed, w.logits_rows.front(), n);
    } else {
      op.x = normed;
      op.x_rows = w.logits_rows.data();
    }
    compute_on(w).matmul({&op, 1});
    if (!nn::all_finite(logits)) throw not_finite("the output head", w);
  }

  static Error not_finite(const std::string& where, const GlmWorkspace& w) {
    const nn::Run& run = w.runs.front();
    return {ErrorCode::kInternal,
            fmt::format("model: {} computed values that are not finite (positions from {} on); the "
                        "weights may be damaged",
                        where,
                        run.first_position)};
  }

  checkpoint::Checkpoint checkpoint_;
  GlmConfig config_;
  nn::Compute compute_;
  cache::LatentLayout layout_;
  nn::RotaryTable rotary_;
  GlmWeights weights_;
  std::optional<experts::ResidentStore> resident_experts_;
  experts::ExpertStore* store_ = nullptr;
  ModelConfig description_;
  std::optional<GlmDraftHead> draft_head_;
};

/// Throws InvalidInput with the first problem.
GlmConfig parse_sound_config(const checkpoint::Checkpoint& checkpoint) {
  ParsedGlmConfig parsed = parse_glm_config(checkpoint.config(), checkpoint.generation_config());
  if (!parsed.problems.empty()) {
    const std::size_t n_more = parsed.problems.size() - 1;
    fail("{}{}",
         parsed.problems.front(),
         n_more > 0 ? fmt::format(" (and {} more problems: see `inspect`)", n_more) : "");
  }
  return std::move(parsed.config);
}

std::unique_ptr<Model> load_glm(checkpoint::Checkpoint checkpoint,
                                kernels::Backend& backend,
                                ThreadPool& pool,
                                const LoadOptions& options) {
  GlmConfig config = parse_sound_config(checkpoint);
  auto model = std::make_unique<GlmModel>(
      std::move(checkpoint), std::move(config), nn::Compute{backend, pool});
  model->load(options);
  return model;
}

Inspection inspect_glm(const checkpoint::Checkpoint& checkpoint) {
  ParsedGlmConfig parsed = parse_glm_config(checkpoint.config(), checkpoint.generation_config());
  Inspection inspection;
  inspection.problems = std::move(parsed.problems);
  inspection.config.family = "glm_moe_dsa";
  if (!inspection.problems.empty()) return inspection;
  GlmWeights weights;
  GlmInventory inventory = take_inventory(parsed.config, checkpoint, weights);
  inspection.config = inventory.description;
  inspection.has_draft_head = weights.draft.has_value();
  try {
    inventory.plan.census();
  } catch (const InvalidInput& error) {
    inspection.problems.emplace_back(error.what());
  }
  return inspection;
}

MemoryNeeds memory_of_glm(checkpoint::Checkpoint& checkpoint,
                          const kernels::Backend& backend,
                          const MemoryUse& use) {
  return glm_memory_needs(parse_sound_config(checkpoint), checkpoint, backend, use);
}

DeclaredWeights declare_glm(const checkpoint::Checkpoint& checkpoint) {
  GlmConfig config = parse_sound_config(checkpoint);
  auto weights = std::make_shared<GlmWeights>();
  GlmInventory inventory = take_inventory(config, checkpoint, *weights);
  inventory.plan.census();
  return {.plan = std::move(inventory.plan), .destinations = std::move(weights)};
}

}  // namespace

Family glm_moe_dsa_family() {
  return {
      .load = load_glm, .inspect = inspect_glm, .memory = memory_of_glm, .declare = declare_glm};
}

}  // namespace ft::models
