#include "engine/engine_core.h"

#include "base/error.h"
#include "io/process_memory.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace ft::engine {

EngineCore::EngineCore(EngineParts parts) : parts_(std::move(parts)) {
  FT_CHECK(parts_.model != nullptr && parts_.clock != nullptr && parts_.draw_seed != nullptr);
  FT_CHECK(parts_.context > 0 && parts_.prefill_chunk > 0);
  workspace_ = parts_.model->new_workspace();
  sample_peak_anonymous_bytes();
}

EngineCore::~EngineCore() {
  if (parts_.store == nullptr || !parts_.saves_expert_usage) return;
  try {
    parts_.store->save_heat();
  } catch (const std::exception& error) {
    if (parts_.warn) parts_.warn(error.what());
  }
}

const speculation::DraftProvider& EngineCore::provider(std::string_view name) {
  auto found = parts_.providers.find(name);
  if (found == parts_.providers.end()) {
    found = parts_.providers.emplace(name, speculation::make_draft_provider(name, model())).first;
  }
  return *found->second;
}

std::uint64_t EngineCore::sample_peak_anonymous_bytes() noexcept {
  peak_anonymous_bytes_ = std::max(peak_anonymous_bytes_, io::process_memory().anonymous_bytes);
  return peak_anonymous_bytes_;
}

}  // namespace ft::engine
