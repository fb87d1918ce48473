#include "experts/streaming_store.h"

#include "base/error.h"
#include "experts/heat_file.h"
#include "experts/streaming_core.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace ft::experts {
namespace {

constexpr std::size_t kNoLayer = ~std::size_t{0};

std::size_t n_trunk_layers(const std::vector<LayerExtents>& layers) {
  return static_cast<std::size_t>(std::ranges::count(layers, Tier::kTrunk, &LayerExtents::tier));
}

/// Every drive is kept as busy as a single one.
io::ReadQueueOptions queue_options(const StreamingOptions& options) {
  io::ReadQueueOptions queue;
  if (!options.layers.empty()) queue.depth *= options.layers.front().files.size();
  return queue;
}

}  // namespace

TierSize StreamingStore::Core::tier_size(const StreamingOptions& options, Tier tier) {
  TierSize size{.n_slots = tier == Tier::kTrunk ? options.trunk_slots : options.draft_slots,
                .slot_bytes = 0,
                .n_experts = 0};
  for (const LayerExtents& layer : options.layers) {
    FT_CHECK(layer.extent_bytes > 0 && layer.extent_bytes % io::kBulkAlignment == 0);
    if (layer.tier != tier) continue;
    size.slot_bytes = std::max<std::size_t>(size.slot_bytes, layer.extent_bytes);
    size.n_experts += layer.checksums.size();
  }
  if (size.n_slots == 0 && size.n_experts > 0) {
    fail("experts: no slots for the {} layers, expected at least 1",
         tier == Tier::kTrunk ? "main" : "draft");
  }
  return size;
}

std::vector<ExtentFiles> StreamingStore::Core::open_files(const StreamingOptions& options) {
  std::vector<ExtentFiles> opened;
  for (const LayerExtents& layer : options.layers) {
    FT_CHECK(!layer.files.empty() && layer.files.size() == options.layers.front().files.size());
    ExtentFiles files{.layer = layer.layer,
                      .extent_bytes = layer.extent_bytes,
                      .checksums = layer.checksums,
                      .files = {},
                      .uses_page_cache = options.uses_page_cache};
    const std::uint64_t expected = layer.checksums.size() * layer.extent_bytes;
    for (const std::filesystem::path& path : layer.files) {
      files.files.push_back(io::BulkFile::open(path, options.direct));
      const std::uint64_t found = files.files.back().size_bytes();
      if (found == expected) continue;
      fail("experts: {} has {} bytes, expected {} ({} experts of {}): copy the file again",
           in_quotes(path.native()),
           found,
           expected,
           layer.checksums.size(),
           layer.extent_bytes);
    }
    opened.push_back(std::move(files));
  }
  return opened;
}

/// What the page cache may hold and costs less to copy than to guess is not worth a trial.
StreamingOptions::Lookahead StreamingStore::Core::effective_lookahead(
    const StreamingOptions& options) {
  using enum StreamingOptions::Lookahead;
  const bool is_small = tier_size(options, Tier::kTrunk).slot_bytes <= ExtentReader::kCopiedBytes;
  return options.lookahead == kAuto && options.uses_page_cache && is_small ? kOff
                                                                           : options.lookahead;
}

StreamingStore::Core::Core(StreamingOptions options, const StreamingDeps& deps)
    : clock_(deps.clock),
      pool_(deps.pool),
      policy_(make_residency_policy(options.policy)),
      lookahead_(effective_lookahead(options)),
      heat_file_(options.heat_file),
      slots_(tier_size(options, Tier::kTrunk), tier_size(options, Tier::kDraft)),
      tiers_{TierState{.pool = slots_.pool(Tier::kTrunk), .stats = {}, .first_tag = 0},
             TierState{.pool = slots_.pool(Tier::kDraft),
                       .stats = {},
                       .first_tag = slots_.most_trunk_slots()}},
      usage_(slots_.n_experts()),
      forecast_(n_trunk_layers(options.layers), slots_.n_experts()),
      reader_(open_files(options),
              deps.clock,
              deps.make_queue(queue_options(options)),
              [this](const auto& outcome) noexcept { on_read(outcome); }) {
  ExpertId first_expert = 0;
  for (LayerExtents& layer : options.layers) {
    if (layer.layer >= index_of_layer_.size()) index_of_layer_.resize(layer.layer + 1, kNoLayer);
    FT_CHECK(index_of_layer_[layer.layer] == kNoLayer);
    index_of_layer_[layer.layer] = layers_.size();
    layers_.push_back({.layer = layer.layer,
                       .tier = layer.tier,
                       .first_expert = first_expert,
                       .n_experts = layer.checksums.size(),
                       .view = std::move(layer.view)});
    first_expert += static_cast<ExpertId>(layer.checksums.size());
  }
  slots_.set_lent(lending_.is_lent());
  load_heat();
}

void StreamingStore::Core::load_heat() {
  if (heat_file_.empty()) return;
  const Heat heat = read_heat_file(heat_file_);
  heat_warning_ = heat.warning;
  for (const HeatEntry& entry : heat.entries) {
    const bool is_known = entry.layer < index_of_layer_.size() &&
                          index_of_layer_[entry.layer] != kNoLayer &&
                          entry.expert < layers_[index_of_layer_[entry.layer]].n_experts;
    if (is_known) continue;
    heat_warning_ = fmt::format(
        "experts: usage file {}: the model has no expert {} of layer {}; learning starts afresh",
        in_quotes(heat_file_.native()),
        entry.expert,
        entry.layer);
    return;
  }
  usage_.set_passes(heat.passes);
  for (const HeatEntry& entry : heat.entries) {
    usage_.set_heat(expert_id(index_of_layer_[entry.layer], entry.expert), entry.uses);
  }
}

void StreamingStore::Core::save_heat() const {
  if (heat_file_.empty()) return;
  Heat heat;
  {
    const std::scoped_lock lock(mutex_);
    heat.passes = usage_.passes();
    for (const Layer& layer : layers_) {
      for (std::uint32_t expert = 0; expert < layer.n_experts; ++expert) {
        const double uses = usage_.heat(layer.first_expert + expert);
        heat.entries.push_back({.layer = layer.layer, .expert = expert, .uses = uses});
      }
    }
  }
  write_heat_file(heat_file_, heat);
}

std::size_t StreamingStore::Core::layer_index(std::size_t layer) const {
  FT_CHECK(layer < index_of_layer_.size() && index_of_layer_[layer] != kNoLayer);
  return index_of_layer_[layer];
}

ExpertStats StreamingStore::Core::stats() const {
  const std::scoped_lock lock(mutex_);
  ExpertStats stats{.is_streaming = true,
                    .trunk = tiers_[0].stats,
                    .draft = tiers_[1].stats,
                    .stall_us = stall_us_,
                    .read_latencies = latencies_};
  for (const TierState& tier : tiers_) {
    TierStats& out = &tier == &tiers_[0] ? stats.trunk : stats.draft;
    out.evictions = tier.pool.n_evictions();
    out.n_slots = tier.pool.n_slots();
    out.slot_bytes = tier.pool.slot_bytes();
  }
  return stats;
}

StreamingStore::StreamingStore(StreamingOptions options, const StreamingDeps& deps)
    : core_(std::make_unique<Core>(std::move(options), deps)) {}

StreamingStore::~StreamingStore() = default;

ExpertLease StreamingStore::acquire(std::size_t layer, std::span<const std::uint32_t> experts) {
  auto lease = std::make_unique<Lease>(*core_, core_->layer_index(layer), experts);
  core_->open(*lease);
  return ExpertLease(std::move(lease));
}

void StreamingStore::prefetch(std::size_t layer, std::span<const std::uint32_t> experts) noexcept {
  try {
    core_->prefetch(core_->layer_index(layer), experts, Guess::kRouter);
  } catch (const std::exception&) {
    // Out of memory for a list: a guess less, nothing else.
  }
}

void StreamingStore::prefetch_hinted(std::size_t layer,
                                     std::span<const std::uint32_t> experts) noexcept {
  try {
    core_->prefetch(core_->layer_index(layer), experts, Guess::kHint);
  } catch (const std::exception&) {
    // As above.
  }
}

std::size_t StreamingStore::n_missing(std::size_t layer,
                                      std::span<const std::uint32_t> experts) const {
  return core_->n_missing(core_->layer_index(layer), experts);
}

bool StreamingStore::begin_pass(std::size_t n_rows) noexcept {
  return core_->begin_pass(n_rows);
}

bool StreamingStore::forecast_missing(std::span<double> bytes) noexcept {
  return core_->forecast_missing(bytes);
}

void StreamingStore::end_pass() noexcept {
  core_->end_pass();
}

bool StreamingStore::begin_round() noexcept {
  return core_->begin_round();
}

void StreamingStore::end_round() noexcept {
  core_->end_round();
}

ExpertStats StreamingStore::stats() const {
  return core_->stats();
}

void StreamingStore::shrink(Tier tier, std::size_t n_slots) {
  core_->shrink(tier, n_slots);
}

void StreamingStore::save_heat() const {
  core_->save_heat();
}

const std::string& StreamingStore::heat_warning() const noexcept {
  return core_->heat_warning();
}

}  // namespace ft::experts
