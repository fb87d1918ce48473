#include "testing/block_drafter.h"

#include "base/error.h"
#include "testing/fake_model.h"

#include <algorithm>
#include <utility>

namespace ft::testing {

FeatureCheck fake_feature_check(std::vector<LayerIndex> taps) {
  return [taps = std::move(taps)](TokenSpan tokens, std::span<const float> row) {
    std::vector<float> expected;
    for (const LayerIndex tap : taps) {
      const std::vector<float> part = FakeModel::hidden_after(tokens, tap);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    if (!std::equal(row.begin(), row.end(), expected.begin(), expected.end())) {
      throw LogicError("block drafter: a feature row is not that of its position");
    }
  };
}

BlockDrafter::BlockDrafter(BlockDrafterOptions options, const speculation::SourceContext& context)
    : options_(std::move(options)),
      model_(*context.model),
      sampler_(*context.sampler),
      workspace_(model_.new_workspace()),
      ring_(options_.taps.size(), model_.config().d_model, options_.window) {
  const auto at = std::find(options_.taps.begin(),
                            options_.taps.end(),
                            static_cast<LayerIndex>(model_.config().n_layers));
  FT_CHECK(at != options_.taps.end());
  final_tap_ = static_cast<std::size_t>(at - options_.taps.begin());
}

void BlockDrafter::observe(const speculation::Committed& committed) {
  ring_.observe(committed);
  n_prompt_ = committed.n_prompt;
}

std::unique_ptr<speculation::SourceState> BlockDrafter::save(std::size_t /*n_tokens*/) const {
  return std::make_unique<State>(ring_);
}

bool BlockDrafter::restore(const speculation::SourceState& state, std::size_t /*n_tokens*/) {
  const auto* const saved = dynamic_cast<const State*>(&state);
  if (saved == nullptr || !ring_.has_shape_of(saved->ring)) return false;
  ring_ = saved->ring;
  return true;
}

void BlockDrafter::check_rows() {
  if (!options_.check) return;
  for (std::size_t position = ring_.begin(); position < ring_.end(); ++position) {
    options_.check(ring_.tokens().first(position + 1), ring_.row(position));
    ++n_checked_;
  }
}

// ring_.end() if there is none.
std::size_t BlockDrafter::find_match() {
  std::vector<Token> tokens = {ring_.tokens().back()};
  const TokenSpan context = ring_.tokens().subspan(ring_.begin(), ring_.size());
  tokens.insert(tokens.end(), context.begin(), context.end());
  const ConstMatrix embedded = model_.embed(tokens, *workspace_);
  const std::span<const float> anchor = embedded.row(0);
  for (std::size_t i = ring_.size(); i-- > 0;) {
    const std::span<const float> row = embedded.row(i + 1);
    if (std::equal(row.begin(), row.end(), anchor.begin())) return ring_.begin() + i;
  }
  return ring_.end();
}

speculation::Draft BlockDrafter::propose(const speculation::DraftRequest& request,
                                         std::stop_token /*stop*/) {
  speculation::Draft draft;
  if (ring_.size() == 0 || !request.ahead.empty() || request.max_tokens == 0) return draft;
  check_rows();
  const std::size_t match = find_match();
  const std::size_t n = std::min({request.max_tokens, options_.block, ring_.end() - match});
  if (n == 0) return draft;
  const ConstMatrix logits = model_.project(ring_.tap(final_tap_, match, n), {}, *workspace_);
  std::vector<Token> tokens(ring_.tokens().begin(), ring_.tokens().end());
  for (std::size_t i = 0; i < n; ++i) {
    const sampling::History history{tokens, n_prompt_};
    if (request.wants_laws) {
      draft.laws.resize((i + 1) * logits.n_cols);
      sampler_.probabilities(logits.row(i), history, std::span(draft.laws).last(logits.n_cols));
      tokens.push_back(
          sampler_.pick(logits.row(i), history, NoisePurpose::kDraft, request.attempt));
    } else {
      tokens.push_back(sampler_.pick(logits.row(i), history));
    }
    draft.tokens.push_back(tokens.back());
  }
  return draft;
}

}  // namespace ft::testing
