#include "engine/expert_streaming.h"

#include "base/error.h"
#include "io/read_queue.h"
#include "models/expert_extents.h"

#include <array>
#include <string>
#include <utility>

namespace ft::engine {
namespace {

constexpr std::array kPolicies = {experts::PolicyKind::kLru, experts::PolicyKind::kLikelihood};

}  // namespace

ExpertPlacement expert_placement(const foretoken::EngineOptions& options) {
  if (options.experts == "auto") return ExpertPlacement::kAuto;
  if (options.experts == "resident") return ExpertPlacement::kResident;
  if (options.experts == "stream") return ExpertPlacement::kStream;
  fail("experts is {}, expected 'auto', 'resident' or 'stream'", in_quotes(options.experts));
}

experts::PolicyKind expert_policy(const foretoken::EngineOptions& options) {
  if (options.expert_policy == "auto") return experts::StreamingOptions{}.policy;
  std::string names = "auto";
  for (const experts::PolicyKind kind : kPolicies) {
    const auto policy = experts::make_residency_policy(kind);
    if (policy->name() == options.expert_policy) return kind;
    names.append(", ").append(policy->name());
  }
  fail("expert_policy is {}, expected one of {}", in_quotes(options.expert_policy), names);
}

experts::StreamingOptions::Lookahead lookahead(const foretoken::EngineOptions& options) {
  using Lookahead = experts::StreamingOptions::Lookahead;
  if (options.lookahead == "auto") return Lookahead::kAuto;
  if (options.lookahead == "on") return Lookahead::kOn;
  if (options.lookahead == "off") return Lookahead::kOff;
  fail("lookahead is {}, expected 'auto', 'on' or 'off'", in_quotes(options.lookahead));
}

std::vector<experts::LayerExtents> streamed_layers(const checkpoint::Checkpoint& checkpoint,
                                                   const foretoken::EngineOptions& options,
                                                   const kernels::Backend& backend) {
  const std::vector<std::filesystem::path> mirrors(options.mirrors.begin(), options.mirrors.end());
  return models::expert_extents(checkpoint, mirrors, backend);
}

std::unique_ptr<experts::StreamingStore> open_store(std::vector<experts::LayerExtents> layers,
                                                    const MemoryPlan& plan,
                                                    const foretoken::EngineOptions& options,
                                                    const std::filesystem::path& folder,
                                                    const Clock& clock,
                                                    ThreadPool& pool) {
  experts::StreamingOptions streaming;
  streaming.layers = std::move(layers);
  streaming.trunk_slots = plan.trunk.n_slots;
  streaming.draft_slots = plan.draft.n_slots;
  streaming.policy = expert_policy(options);
  streaming.lookahead = lookahead(options);
  if (options.expert_usage != foretoken::ExpertUsageFile::kOff) {
    streaming.heat_file = folder / kExpertUsageFile;
  }
  return std::make_unique<experts::StreamingStore>(
      std::move(streaming), experts::StreamingDeps{clock, io::make_read_queue, &pool});
}

}  // namespace ft::engine
