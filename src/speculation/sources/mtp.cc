// Source `mtp`: drafts with the family's own next-token head, sampling each draft with the
// request's law and the target's own noise: where head and trunk agree on the logits they agree on
// the token. In ratio mode the noise is the drafts' own, and the laws are handed over. Behind
// drafts of other sources the chain steps over their tokens first, with its own states.
#include "base/error.h"
#include "speculation/draft_source.h"
#include "speculation/head_history.h"
#include "speculation/source_unit.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ft::speculation {
namespace {

constexpr std::string_view kName = "mtp";

// Chains that may meet values that are not finite before the source gives up: the keys of such a
// row spoil every later one, and each try costs a step.
constexpr std::size_t kMaxSpoiled = 2;

class MtpSource final : public DraftSource, private HeadDrafter {
 public:
  MtpSource(const models::Model& model, const SourceContext& context)
      : taps_{static_cast<LayerIndex>(model.config().n_layers)},
        wants_prompt_(model.draft_head()->wants_prompt()),
        sampler_(*context.sampler),
        history_(*model.draft_head(), model.config().d_model, context.cache_options) {
    history_.set_meter(context.meter);
  }

  std::string_view name() const noexcept override { return kName; }
  std::span<const LayerIndex> taps() const noexcept override { return taps_; }
  cache::KvCache* cache() noexcept override { return &history_.cache(); }

  void observe(const Committed& committed) override;
  Draft propose(const DraftRequest& request, std::stop_token stop) override;
  HeadDrafter* head_drafter() noexcept override { return this; }
  std::unique_ptr<SourceState> save(std::size_t n_tokens) const override;
  bool restore(const SourceState& state, std::size_t n_tokens) override;
  std::unique_ptr<SourceState> release() override;
  bool adopt(SourceState& state) override;

 private:
  struct State final : SourceState {
    HeadHistory::Saved history;
    std::size_t n_spoiled = 0;
  };

  /// The chain that is under way.
  struct Chain {
    std::size_t n_behind = 0;   // tokens that are no drafts of it: committed and ahead
    std::size_t n_wanted = 0;   // tokens when it is complete
    std::size_t n_stepped = 0;  // tokens that steps have been fed; 0: none was done
    bool wants_laws = false;
    std::uint64_t attempt = 0;
  };

  void begin(const DraftRequest& request) override;
  std::optional<models::DraftSlice> next() override;
  void take(const models::DraftStep& step) override;
  Draft end() override;
  void pick(std::span<const float> logits);

  std::array<LayerIndex, 1> taps_;
  bool wants_prompt_;
  sampling::Sampler& sampler_;
  HeadHistory history_;
  std::size_t n_prompt_ = 0;
  std::size_t n_spoiled_ = 0;
  Chain chain_;
  models::IndexSets index_sets_;
  std::vector<Token> tokens_;  // committed, ahead, then the chain's drafts: what a sample looks at
  std::vector<float> laws_;    // of the drafts of the chain, if they are wanted
};

void MtpSource::observe(const Committed& committed) {
  ConstMatrix hidden;
  std::size_t first = committed.first_position;
  if (committed.n_rows > 0) {
    FT_CHECK(committed.taps.size() == 1 && committed.taps[0].n_rows == committed.n_rows);
    hidden = committed.taps[0];
    if (!wants_prompt_ &&
        first + 1 < committed.n_prompt) {  // starts with the row that chose the first token
      const std::size_t n_skipped = std::min(hidden.n_rows, committed.n_prompt - 1 - first);
      hidden.data += n_skipped * hidden.stride;
      hidden.n_rows -= n_skipped;
      first += n_skipped;
    }
  }
  n_prompt_ = committed.n_prompt;
  history_.observe(committed.sequence, first, hidden, committed.n_same);
}

std::unique_ptr<SourceState> MtpSource::save(std::size_t n_tokens) const {
  auto state = std::make_unique<State>();
  state->history = history_.save(n_tokens);
  state->n_spoiled = n_spoiled_;
  return state;
}

bool MtpSource::restore(const SourceState& state, std::size_t n_tokens) {
  const auto* const saved = dynamic_cast<const State*>(&state);
  if (saved == nullptr || !history_.restore(saved->history, n_tokens)) return false;
  n_spoiled_ = saved->n_spoiled;
  return true;
}

std::unique_ptr<SourceState> MtpSource::release() {
  auto state = std::make_unique<State>();
  state->history = history_.release();
  state->n_spoiled = n_spoiled_;
  return state;
}

bool MtpSource::adopt(SourceState& state) {
  auto* const saved = dynamic_cast<State*>(&state);
  if (saved == nullptr || !history_.adopt(saved->history)) return false;
  n_spoiled_ = saved->n_spoiled;
  return true;
}

Draft MtpSource::propose(const DraftRequest& request, std::stop_token stop) {
  begin(request);
  history_.set_stop(stop);
  try {
    while (const std::optional<models::DraftSlice> rows = next()) {
      if (stop.stop_requested()) throw Cancelled();
      take(history_.run(*rows));
    }
  } catch (...) {
    end();
    throw;
  }
  return end();
}

void MtpSource::begin(const DraftRequest& request) {
  const TokenSpan committed = history_.tokens();
  tokens_.assign(committed.begin(), committed.end());
  tokens_.insert(tokens_.end(), request.ahead.begin(), request.ahead.end());
  laws_.clear();
  index_sets_.positions.clear();
  index_sets_.is_set = false;
  const std::size_t n_ahead = request.ahead.size();
  const std::size_t max_chain = n_spoiled_ == kMaxSpoiled ? 0 : history_.max_chain();
  const std::size_t n_drafts =
      std::min(request.max_tokens, max_chain - std::min(max_chain, n_ahead));
  chain_ = {.n_behind = tokens_.size(),
            .n_wanted = tokens_.size() + n_drafts,
            .n_stepped = 0,
            .wants_laws = request.wants_laws,
            .attempt = request.attempt};
}

std::optional<models::DraftSlice> MtpSource::next() {
  if (tokens_.size() == chain_.n_wanted) return std::nullopt;
  if (chain_.n_stepped == 0) return history_.first_rows(index_sets_);
  return history_.next_rows(tokens_[chain_.n_stepped], index_sets_);
}

// Tokens ahead are stepped over; behind them each step gives a draft. If one is no good, the drafts
// before it stand: the text needs none.
void MtpSource::take(const models::DraftStep& step) {
  history_.stepped(step);
  chain_.n_stepped = chain_.n_stepped == 0 ? history_.tokens().size() : chain_.n_stepped + 1;
  if (!step.is_finite) {
    ++n_spoiled_;
    chain_.n_wanted = tokens_.size();
  } else if (chain_.n_stepped >= chain_.n_behind) {
    pick(step.logits);
  }
}

void MtpSource::pick(std::span<const float> logits) {
  const sampling::History history{tokens_, n_prompt_};
  if (!chain_.wants_laws) {
    tokens_.push_back(sampler_.pick(logits, history));
    return;
  }
  const std::size_t n_before = laws_.size();
  laws_.resize(n_before + logits.size());
  sampler_.probabilities(logits, history, std::span(laws_).subspan(n_before));
  tokens_.push_back(sampler_.pick(logits, history, NoisePurpose::kDraft, chain_.attempt));
}

Draft MtpSource::end() {
  history_.end_chain();
  Draft draft;
  draft.tokens.assign(
      tokens_.begin() + static_cast<std::ptrdiff_t>(std::min(chain_.n_behind, tokens_.size())),
      tokens_.end());
  draft.laws = std::move(laws_);
  return draft;
}

class MtpProvider final : public DraftProvider {
 public:
  explicit MtpProvider(const models::Model& model) : model_(model) {}
  std::unique_ptr<DraftSource> open(const SourceContext& context) const override {
    FT_CHECK(context.model == &model_ && context.sampler != nullptr);
    return std::make_unique<MtpSource>(model_, context);
  }

 private:
  const models::Model& model_;
};

}  // namespace

SourceUnit draft_source_mtp() {
  return {.name = kName,
          .obstacle = [](const models::Model& model) -> std::string {
            if (model.draft_head() != nullptr) return {};
            return "the model has no next-token head (" + model.config().draft_head_absence +
                   "); use --speculate ngram or none";
          },
          .make = [](const models::Model& model) -> std::unique_ptr<DraftProvider> {
            return std::make_unique<MtpProvider>(model);
          }};
}

}  // namespace ft::speculation
