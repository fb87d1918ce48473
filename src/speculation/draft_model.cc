#include "speculation/draft_model.h"

#include "base/error.h"
#include "speculation/common_prefix.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ft::speculation {
namespace {

// Committed tokens that wait to be fed go in together, in pieces of so many.
constexpr std::size_t kChunk = 512;

// Forwards with values that are not finite before the source gives up.
constexpr std::size_t kMaxSpoiled = 2;

class DraftModelSource final : public DraftSource {
 public:
  DraftModelSource(const models::Model& model, std::size_t n_vocab, const SourceContext& context)
      : model_(model),
        n_vocab_(n_vocab),
        sampler_(*context.sampler),
        cache_options_(context.cache_options),
        workspace_(model.new_workspace()) {
    cache_options_.max_tokens = std::min(cache_options_.max_tokens, model.config().max_context);
    cache_ = model.new_cache(cache_options_);
    workspace_->set_meter(context.meter);
  }

  std::string_view name() const noexcept override { return kDraftModelSource; }
  cache::KvCache* cache() noexcept override { return cache_.get(); }

  void observe(const Committed& committed) override;
  Draft propose(const DraftRequest& request, std::stop_token stop) override;

 private:
  void keep(std::size_t n_fed);
  bool can_feed(TokenSpan tokens) const;
  std::span<const float> feed(TokenSpan tokens, const std::stop_token& stop);
  std::span<const float> feed_up_to(std::size_t end, const std::stop_token& stop);
  void take(std::span<const float> logits, const DraftRequest& request, Draft& draft);
  void run(const DraftRequest& request, const std::stop_token& stop, Draft& draft);

  const models::Model& model_;
  std::size_t n_vocab_;  // of the target
  sampling::Sampler& sampler_;
  cache::CacheOptions cache_options_;
  std::unique_ptr<models::Workspace> workspace_;
  std::unique_ptr<cache::KvCache> cache_;

  std::vector<Token> tokens_;  // committed; within propose() with `ahead` and drafts behind them
  std::vector<Token> fed_;     // what the cache holds
  std::size_t n_prompt_ = 0;
  std::size_t n_spoiled_ = 0;
  std::vector<float> adapted_;  // logits in the target's size
  std::vector<float> law_;
};

// Drafts that were accepted are fed already. What else the cache holds goes.
void DraftModelSource::observe(const Committed& committed) {
  const TokenSpan now = committed.sequence;
  const std::size_t common = common_prefix(tokens_, now, committed.n_same);
  tokens_.resize(common);
  tokens_.insert(tokens_.end(), now.begin() + static_cast<std::ptrdiff_t>(common), now.end());
  n_prompt_ = committed.n_prompt;
  keep(common_prefix(fed_, now, std::min(common, committed.n_same)));
}

// A cache that cannot go back so far is filled again, when it is needed.
void DraftModelSource::keep(std::size_t n_fed) {
  if (n_fed == fed_.size()) return;
  if (fed_.size() - n_fed <= cache_->rollback_limit()) {
    cache_->truncate(n_fed);
    fed_.resize(n_fed);
  } else {
    cache_ = model_.new_cache(cache_options_);
    fed_.clear();
  }
}

bool DraftModelSource::can_feed(TokenSpan tokens) const {
  const auto n_vocab = static_cast<Token>(model_.config().n_vocab);
  return std::ranges::all_of(tokens, [&](Token token) { return token < n_vocab; });
}

std::span<const float> DraftModelSource::feed(TokenSpan tokens, const std::stop_token& stop) {
  const std::array slices = {models::SequenceSlice{cache_.get(), tokens, 1}};
  const models::ForwardOutput& out = model_.forward(slices, {}, stop, *workspace_);
  fed_.insert(fed_.end(), tokens.begin(), tokens.end());
  return out.logits.row(0);
}

// Logits of the last of tokens_[0, end), of which at least one is not fed.
std::span<const float> DraftModelSource::feed_up_to(std::size_t end, const std::stop_token& stop) {
  std::span<const float> logits;
  while (fed_.size() < end) {
    const std::size_t n = std::min(kChunk, end - fed_.size());
    logits = feed(TokenSpan(tokens_).subspan(fed_.size(), n), stop);
  }
  return logits;
}

Draft DraftModelSource::propose(const DraftRequest& request, std::stop_token stop) {
  Draft draft;
  const std::size_t n_committed = tokens_.size();
  const std::size_t n_base = n_committed + request.ahead.size();
  if (n_committed == 0 || request.max_tokens == 0 || n_spoiled_ == kMaxSpoiled) return draft;
  if (n_base > cache_->max_tokens()) return draft;
  if (!can_feed(TokenSpan(tokens_).subspan(fed_.size())) || !can_feed(request.ahead)) return draft;
  // The newest token must be fed for its logits, also if it was.
  keep(std::min(fed_.size(), n_committed - 1));
  tokens_.insert(tokens_.end(), request.ahead.begin(), request.ahead.end());
  const std::size_t n_true = n_committed;
  try {
    run(request, stop, draft);
  } catch (const Error& error) {
    tokens_.resize(n_true);
    keep(std::min(fed_.size(), n_true));
    if (error.code() != ErrorCode::kInternal) throw;
    ++n_spoiled_;  // its values are not finite; the drafts before stand
    return draft;
  } catch (...) {
    tokens_.resize(n_true);
    keep(std::min(fed_.size(), n_true));
    throw;
  }
  tokens_.resize(n_true);
  return draft;
}

// The last draft is not fed.
void DraftModelSource::run(const DraftRequest& request, const std::stop_token& stop, Draft& draft) {
  const std::size_t n_base = tokens_.size();
  const std::size_t n_room = cache_->max_tokens() - n_base + 1;
  const std::size_t n_drafts =
      std::min({request.max_tokens, n_room, std::max<std::size_t>(cache_->rollback_limit(), 1)});
  for (std::size_t i = 0; i < n_drafts; ++i) {
    if (stop.stop_requested()) throw Cancelled();
    if (!can_feed(TokenSpan(tokens_).last(1))) return;
    take(feed_up_to(n_base + i, stop), request, draft);
    tokens_.push_back(draft.tokens.back());
  }
}

void DraftModelSource::take(std::span<const float> logits,
                            const DraftRequest& request,
                            Draft& draft) {
  if (logits.size() != n_vocab_) {
    adapted_.assign(n_vocab_, -std::numeric_limits<float>::infinity());
    std::copy_n(logits.begin(), std::min(logits.size(), n_vocab_), adapted_.begin());
    logits = adapted_;
  }
  const sampling::History history{tokens_, n_prompt_};
  if (!request.wants_laws) {
    draft.tokens.push_back(sampler_.pick(logits, history));
    return;
  }
  law_.resize(n_vocab_);
  sampler_.probabilities(logits, history, law_);
  draft.tokens.push_back(sampler_.pick(logits, history, NoisePurpose::kDraft, request.attempt));
  draft.laws.insert(draft.laws.end(), law_.begin(), law_.end());
}

class DraftModelProvider final : public DraftProvider {
 public:
  DraftModelProvider(const models::Model& draft, const models::Model& target)
      : draft_(draft), n_vocab_(target.config().n_vocab) {}
  std::unique_ptr<DraftSource> open(const SourceContext& context) const override {
    FT_CHECK(context.sampler != nullptr);
    return std::make_unique<DraftModelSource>(draft_, n_vocab_, context);
  }

 private:
  const models::Model& draft_;
  std::size_t n_vocab_;
};

}  // namespace

std::unique_ptr<DraftProvider> make_draft_model_provider(const models::Model& draft,
                                                         const models::Model& target) {
  return std::make_unique<DraftModelProvider>(draft, target);
}

}  // namespace ft::speculation
