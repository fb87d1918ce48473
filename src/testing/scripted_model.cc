#include "testing/scripted_model.h"

#include "base/error.h"
#include "testing/fake_model.h"

#include <algorithm>
#include <utility>

namespace ft::testing {
namespace {

class ScriptedWorkspace final : public models::Workspace {
 public:
  models::ForwardOutput output;
  std::vector<float> logits;
};

}  // namespace

ScriptedModel::ScriptedModel(std::size_t n_vocab, std::size_t n_prompt, std::vector<Token> script)
    : n_prompt_(n_prompt), script_(std::move(script)) {
  config_.family = "scripted";
  config_.n_layers = 1;
  config_.d_model = 1;
  config_.n_vocab = n_vocab;
  config_.max_context = n_prompt + script_.size() + 1;
  config_.eos_tokens = {kStop};
  config_.draft_head_absence = "a script has none";
  for (const Token token : script_) {
    FT_CHECK(token != kStop && token > 0 && static_cast<std::size_t>(token) < n_vocab);
  }
}

std::unique_ptr<cache::KvCache> ScriptedModel::new_cache(const cache::CacheOptions& options) const {
  return std::make_unique<FakeCache>(options.max_tokens, std::nullopt);
}

std::unique_ptr<models::Workspace> ScriptedModel::new_workspace() const {
  return std::make_unique<ScriptedWorkspace>();
}

Token ScriptedModel::next(TokenSpan fed) const {
  if (fed.size() < n_prompt_) return kStop;
  const TokenSpan output = fed.subspan(n_prompt_);
  const bool is_script =
      output.size() < script_.size() && std::equal(output.begin(), output.end(), script_.begin());
  return is_script ? script_[output.size()] : kStop;
}

const models::ForwardOutput& ScriptedModel::forward(std::span<const models::SequenceSlice> slices,
                                                    std::span<const LayerIndex> taps,
                                                    std::stop_token stop,
                                                    models::Workspace& workspace) const {
  FT_CHECK(taps.empty());
  if (stop.stop_requested()) throw Cancelled();
  auto& space = dynamic_cast<ScriptedWorkspace&>(workspace);
  const std::size_t n_vocab = config_.n_vocab;
  space.logits.clear();
  for (const models::SequenceSlice& slice : slices) {
    auto& cache = dynamic_cast<FakeCache&>(*slice.cache);
    for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
      cache.push_back(slice.tokens[i]);
      if (i + slice.n_logits < slice.tokens.size()) continue;
      space.logits.resize(space.logits.size() + n_vocab, 0);
      space.logits[space.logits.size() - n_vocab + static_cast<std::size_t>(next(cache.tokens()))] =
          1;
    }
  }
  space.output.logits = {space.logits.data(), space.logits.size() / n_vocab, n_vocab, n_vocab};
  return space.output;
}

ConstMatrix ScriptedModel::embed(TokenSpan /*tokens*/, models::Workspace& /*workspace*/) const {
  throw LogicError("scripted model: has no embedding");
}

ConstMatrix ScriptedModel::project(ConstMatrix /*hidden*/,
                                   TokenSpan /*ids*/,
                                   models::Workspace& /*workspace*/) const {
  throw LogicError("scripted model: has no hidden rows");
}

}  // namespace ft::testing
