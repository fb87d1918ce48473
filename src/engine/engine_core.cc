#include "engine/engine_core.h"

#include "base/error.h"
#include "io/memory_limits.h"
#include "io/process_memory.h"
#include "speculation/draft_model.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace ft::engine {

EngineCore::EngineCore(EngineParts parts)
    : parts_(std::move(parts)),
      prefixes_(parts_.max_sessions,
                parts_.reuses_prefixes ? PrefixPool::Reuse::kOn : PrefixPool::Reuse::kOff) {
  FT_CHECK(parts_.model != nullptr && parts_.clock != nullptr && parts_.draw_seed != nullptr);
  FT_CHECK(parts_.context > 0 && parts_.prefill_chunk > 0);
  workspace_ = parts_.model->new_workspace();
  if (const models::DraftHead* head = parts_.model->draft_head())
    draft_workspace_ = head->new_workspace();
  sample_peak_anonymous_bytes();
  if (parts_.store == nullptr) return;
  const models::ModelConfig& config = model().config();
  if (config.n_active > 0) {
    workspace_->set_routing_memory(&routing_.emplace(config.n_layers, config.n_active));
  }
  guard_.emplace(
      parts_.memory,
      MemoryGuardDeps{
          .clock = *parts_.clock,
          .anonymous_bytes = [this] { return sample_anonymous_bytes(); },
          .limits = io::memory_limits,
          .drop_idle = [this] { return prefixes_.drop_resting(); },
          .shrink = [store = parts_.store.get()](
                        experts::Tier tier, std::size_t n_slots) { store->shrink(tier, n_slots); },
          .warn = parts_.warn});
}

EngineCore::~EngineCore() {
  if (parts_.store == nullptr || !parts_.saves_expert_usage) return;
  try {
    parts_.store->save_heat();
  } catch (const std::exception& error) {
    if (parts_.warn) parts_.warn(error.what());
  }
}

std::vector<std::string> source_names(const EngineParts& parts) {
  const std::vector<std::string_view> available = speculation::available_sources(*parts.model);
  std::vector<std::string> out(available.begin(), available.end());
  if (parts.providers.contains(speculation::kDraftModelSource))
    out.emplace_back(speculation::kDraftModelSource);
  return out;
}

const speculation::DraftProvider& EngineCore::provider(std::string_view name) {
  auto found = parts_.providers.find(name);
  if (found == parts_.providers.end()) {
    found = parts_.providers.emplace(name, speculation::make_draft_provider(name, model())).first;
  }
  return *found->second;
}

std::uint64_t EngineCore::sample_peak_anonymous_bytes() noexcept {
  sample_anonymous_bytes();
  return peak_anonymous_bytes_;
}

std::uint64_t EngineCore::sample_anonymous_bytes() noexcept {
  const std::uint64_t now = io::process_memory().anonymous_bytes;
  peak_anonymous_bytes_ = std::max(peak_anonymous_bytes_, now);
  return now;
}

}  // namespace ft::engine
