// Source `draft`: a second model decodes ahead with the request's sampler and the target's own
// noise: where both agree on the logits they agree on the token. In ratio mode the noise is the
// drafts' own, and the laws are handed over.
//
// The cache is fed late: what was committed since the last proposal goes in when drafts are wanted.
// Own drafts stay in the cache, so that accepted ones need not be fed again; the others are taken
// back before the next use.
#include "base/error.h"
#include "speculation/common_prefix.h"
#include "speculation/draft_model.h"
#include "speculation/source_unit.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ft::speculation {
namespace {

// Chains that may meet values that are not finite before the source gives up: each try costs a
// forward.
constexpr std::size_t kMaxSpoiled = 2;

class DraftModelSource final : public DraftSource {
 public:
  DraftModelSource(const models::Model& model, std::size_t chunk, const SourceContext& context)
      : model_(model),
        sampler_(*context.sampler),
        n_target_vocab_(context.model->config().n_vocab),
        chunk_(chunk),
        cache_options_(context.cache_options) {
    cache_options_.max_tokens = std::min(cache_options_.max_tokens, model.config().max_context);
    cache_ = model_.new_cache(cache_options_);
    workspace_ = model_.new_workspace();
    workspace_->set_meter(context.meter);
  }

  std::string_view name() const noexcept override { return kDraftModelSource; }

  cache::KvCache* cache() noexcept override {
    // What is kept or saved never holds a guess. A chain is no longer than can be taken back.
    rewind(n_true());
    return cache_.get();
  }

  void observe(const Committed& committed) override {
    n_prompt_ = committed.n_prompt;
    const std::size_t n_same =
        std::min({committed.n_same, committed_.size(), committed.sequence.size()});
    committed_.resize(n_same);
    committed_.insert(committed_.end(),
                      committed.sequence.begin() + static_cast<std::ptrdiff_t>(n_same),
                      committed.sequence.end());
    n_true_ = std::min(n_true_, n_same);
  }

  Draft propose(const DraftRequest& request, std::stop_token stop) override;
  std::unique_ptr<SourceState> save(std::size_t n_tokens) const override;
  bool restore(const SourceState& state, std::size_t n_tokens) override;
  std::unique_ptr<SourceState> release() override;
  bool adopt(SourceState& state) override;

 private:
  struct State final : SourceState {
    std::string weights_hash;
    std::unique_ptr<cache::KvCache> cache;
    std::vector<Token> fed;
    std::size_t n_undoable = 0;
    std::size_t n_spoiled = 0;
  };

  bool fits(const State& saved) const noexcept;
  void take_over(State& saved);
  void rewind(std::size_t length);
  /// Leading tokens of the cache that are committed.
  std::size_t n_true() noexcept { return n_true_ = common_prefix(fed_, committed_, n_true_); }
  std::size_t chain_limit(const DraftRequest& request) const noexcept;
  bool can_feed(TokenSpan tokens) const noexcept;
  std::span<const float> feed(TokenSpan tokens, const std::stop_token& stop);
  void run_chain(std::size_t n_drafts, const DraftRequest& request, const std::stop_token& stop);
  void take(std::span<const float> logits, const DraftRequest& request);
  std::span<const float> fitted(std::span<const float> logits);

  const models::Model& model_;
  sampling::Sampler& sampler_;
  std::size_t n_target_vocab_;
  std::size_t chunk_;
  cache::CacheOptions cache_options_;
  std::unique_ptr<cache::KvCache> cache_;
  std::unique_ptr<models::Workspace> workspace_;
  std::size_t n_prompt_ = 0;
  std::size_t n_spoiled_ = 0;
  std::vector<Token> committed_;
  std::vector<Token> fed_;      // what the cache holds
  std::size_t n_true_ = 0;      // so many of them are known to be committed
  std::size_t n_undoable_ = 0;  // so many can be taken back: what was is not there to be again
  std::vector<Token> tokens_;   // committed, those ahead, then the drafts: what a sample looks at
  std::vector<float> laws_;     // of the drafts of the chain, if they are wanted
  std::vector<float> fitted_;   // logits over the target's vocabulary, if the model's is smaller
};

// A cache that cannot go back so far is made anew, to be fed when drafts are wanted.
void DraftModelSource::rewind(std::size_t length) {
  if (length == fed_.size()) return;
  const std::size_t n_dropped = fed_.size() - length;
  if (n_dropped <= n_undoable_) {
    cache_->truncate(length);
    fed_.resize(length);
    n_undoable_ -= n_dropped;
  } else {
    cache_ = model_.new_cache(cache_options_);
    fed_.clear();
    n_undoable_ = 0;
  }
  n_true_ = std::min(n_true_, fed_.size());
}

std::unique_ptr<SourceState> DraftModelSource::save(std::size_t n_tokens) const {
  auto state = std::make_unique<State>();
  state->weights_hash = model_.config().weights_hash;
  state->n_spoiled = n_spoiled_;
  // What a round that failed may have left is no part of it.
  const std::size_t n_kept = std::min(common_prefix(fed_, committed_, n_true_), n_tokens);
  const std::size_t n_dropped = fed_.size() - n_kept;
  if (n_dropped > n_undoable_) {
    state->cache = model_.new_cache(cache_options_);
    return state;
  }
  state->cache = cache_->clone_front(n_kept);
  state->fed.assign(fed_.begin(), fed_.begin() + static_cast<std::ptrdiff_t>(n_kept));
  state->n_undoable = n_undoable_ - n_dropped;
  return state;
}

std::unique_ptr<SourceState> DraftModelSource::release() {
  rewind(n_true());
  auto state = std::make_unique<State>();
  state->weights_hash = model_.config().weights_hash;
  state->cache = std::move(cache_);
  state->fed = std::move(fed_);
  state->n_undoable = n_undoable_;
  state->n_spoiled = n_spoiled_;
  return state;
}

bool DraftModelSource::fits(const State& saved) const noexcept {
  return saved.weights_hash == model_.config().weights_hash &&
         saved.cache->max_tokens() == cache_->max_tokens();
}

bool DraftModelSource::restore(const SourceState& state, std::size_t n_tokens) {
  const auto* const saved = dynamic_cast<const State*>(&state);
  if (saved == nullptr || !fits(*saved)) return false;
  const std::size_t n_kept = std::min(saved->fed.size(), n_tokens);
  const std::size_t n_dropped = saved->fed.size() - n_kept;
  State front;
  if (n_dropped <= saved->n_undoable) {
    front.cache = saved->cache->clone_front(n_kept);
    front.fed.assign(saved->fed.begin(), saved->fed.begin() + static_cast<std::ptrdiff_t>(n_kept));
    front.n_undoable = saved->n_undoable - n_dropped;
  } else {
    front.cache = model_.new_cache(cache_options_);  // all is fed again
  }
  front.n_spoiled = saved->n_spoiled;
  take_over(front);
  return true;
}

bool DraftModelSource::adopt(SourceState& state) {
  auto* const saved = dynamic_cast<State*>(&state);
  if (saved == nullptr || !fits(*saved)) return false;
  take_over(*saved);
  return true;
}

void DraftModelSource::take_over(State& saved) {
  committed_ = saved.fed;
  cache_ = std::move(saved.cache);
  fed_ = std::move(saved.fed);
  n_true_ = fed_.size();
  n_undoable_ = saved.n_undoable;
  n_spoiled_ = saved.n_spoiled;
}

// The last draft is not fed; those that are, and the tokens ahead, must fit and be taken back.
std::size_t DraftModelSource::chain_limit(const DraftRequest& request) const noexcept {
  const std::size_t n_ahead = request.ahead.size();
  const std::size_t n_before = committed_.size() + n_ahead;
  const std::size_t limit = cache_->rollback_limit();
  if (committed_.empty() || n_before > cache_options_.max_tokens || n_ahead > limit) return 0;
  return std::min(
      {request.max_tokens, cache_options_.max_tokens - n_before + 1, limit - n_ahead + 1});
}

bool DraftModelSource::can_feed(TokenSpan tokens) const noexcept {
  return std::ranges::all_of(tokens, [this](Token token) {
    return static_cast<std::size_t>(token) < model_.config().n_vocab;
  });
}

Draft DraftModelSource::propose(const DraftRequest& request, std::stop_token stop) {
  const std::size_t n_drafts = chain_limit(request);
  if (n_drafts == 0 || n_spoiled_ == kMaxSpoiled) return {};
  tokens_.assign(committed_.begin(), committed_.end());
  tokens_.insert(tokens_.end(), request.ahead.begin(), request.ahead.end());
  // The last token is always fed: its row gives the first draft.
  rewind(std::min(common_prefix(fed_, tokens_, n_true()), tokens_.size() - 1));
  if (!can_feed(TokenSpan(tokens_).subspan(fed_.size()))) return {};
  const std::size_t n_before = tokens_.size();
  laws_.clear();
  try {
    run_chain(n_drafts, request, stop);
  } catch (...) {
    rewind(n_true());
    throw;
  }
  Draft draft;
  draft.tokens.assign(tokens_.begin() + static_cast<std::ptrdiff_t>(n_before), tokens_.end());
  draft.laws = std::move(laws_);
  return draft;
}

// Values that are not finite end the chain: drafts before them stand, the text needs none.
void DraftModelSource::run_chain(std::size_t n_drafts,
                                 const DraftRequest& request,
                                 const std::stop_token& stop) {
  try {
    take(feed(TokenSpan(tokens_).subspan(fed_.size()), stop), request);
    for (std::size_t i = 1; i < n_drafts; ++i) {
      const Token last = tokens_.back();
      if (!can_feed({&last, 1})) return;
      take(feed({&last, 1}, stop), request);
    }
  } catch (const LogicError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInternal) throw;
    ++n_spoiled_;
  }
}

// Returns the logits of the last token; they die at the next forward.
std::span<const float> DraftModelSource::feed(TokenSpan tokens, const std::stop_token& stop) {
  ConstMatrix logits;
  while (!tokens.empty()) {
    const TokenSpan chunk = tokens.first(std::min(chunk_, tokens.size()));
    tokens = tokens.subspan(chunk.size());
    const models::SequenceSlice slice{
        .cache = cache_.get(), .tokens = chunk, .n_logits = std::size_t{tokens.empty()}};
    logits = model_.forward({&slice, 1}, {}, stop, *workspace_).logits;
    fed_.insert(fed_.end(), chunk.begin(), chunk.end());
    n_undoable_ = std::min(n_undoable_ + chunk.size(), cache_->rollback_limit());
  }
  return logits.row(0);
}

void DraftModelSource::take(std::span<const float> logits, const DraftRequest& request) {
  logits = fitted(logits);
  const sampling::History history{tokens_, n_prompt_};
  if (!request.wants_laws) {
    tokens_.push_back(sampler_.pick(logits, history));
    return;
  }
  const std::size_t n_before = laws_.size();
  try {
    laws_.resize(n_before + logits.size());
    sampler_.probabilities(logits, history, std::span(laws_).subspan(n_before));
    tokens_.push_back(sampler_.pick(logits, history, NoisePurpose::kDraft, request.attempt));
  } catch (...) {
    laws_.resize(n_before);  // one row per draft
    throw;
  }
}

// Over exactly the target's vocabulary: ids that one side alone has are never drafted.
std::span<const float> DraftModelSource::fitted(std::span<const float> logits) {
  if (logits.size() >= n_target_vocab_) return logits.first(n_target_vocab_);
  fitted_.assign(n_target_vocab_, -std::numeric_limits<float>::infinity());
  std::ranges::copy(logits, fitted_.begin());
  return fitted_;
}

class DraftModelProvider final : public DraftProvider {
 public:
  DraftModelProvider(std::unique_ptr<const models::Model> model, const DraftModelOptions& options)
      : model_(std::move(model)), options_(options) {
    FT_CHECK(model_ != nullptr && options_.chunk > 0);
  }
  std::unique_ptr<DraftSource> open(const SourceContext& context) const override {
    FT_CHECK(context.model != nullptr && context.sampler != nullptr);
    return std::make_unique<DraftModelSource>(*model_, options_.chunk, context);
  }

 private:
  std::unique_ptr<const models::Model> model_;
  DraftModelOptions options_;
};

}  // namespace

std::unique_ptr<DraftProvider> make_draft_model_provider(std::unique_ptr<const models::Model> model,
                                                         const DraftModelOptions& options) {
  return std::make_unique<DraftModelProvider>(std::move(model), options);
}

// The registry knows the name alone: whoever has a second model makes the provider.
SourceUnit draft_source_draft() {
  return {.name = kDraftModelSource,
          .obstacle = [](const models::Model&) -> std::string {
            return "it needs a second model; give one with --draft-model DIR";
          },
          .make = [](const models::Model&) -> std::unique_ptr<DraftProvider> { return nullptr; }};
}

}  // namespace ft::speculation
