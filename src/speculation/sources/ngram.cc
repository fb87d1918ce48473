// Source `ngram`: what followed the last tokens the last time they occurred. Costs no weights; pays
// where text repeats.
#include "speculation/common_prefix.h"
#include "speculation/draft_source.h"
#include "speculation/ngram_index.h"
#include "speculation/source_unit.h"

#include <algorithm>
#include <memory>

namespace ft::speculation {
namespace {

constexpr std::string_view kName = "ngram";

// A match of one token is weak evidence: measured on prose, C++ and Python (5 texts, 25,000
// tokens), a continuation of one token after it is right about as often as three after a match of
// three. Longer ones cost more rows than they win. The most recent occurrence predicts better than
// the first one on 5 of 6 texts (tokens per round +1 … +8 %).
std::size_t worthwhile_drafts(std::size_t match_length, std::size_t max_tokens) {
  return match_length < NgramIndex::kMaxLength ? std::min(match_length, max_tokens) : max_tokens;
}

class NgramSource final : public DraftSource {
 public:
  std::string_view name() const noexcept override { return kName; }

  void observe(const Committed& committed) override {
    const TokenSpan now = committed.sequence;
    const std::size_t common = common_prefix(index_.tokens(), now, committed.n_same);
    while (index_.size() > common) index_.pop_back();
    for (std::size_t i = common; i < now.size(); ++i) index_.push_back(now[i]);
  }

  Draft propose(const DraftRequest& request, std::stop_token /*stop*/) override {
    for (const Token token : request.ahead) index_.push_back(token);
    Draft draft = continuation(request.max_tokens);
    for (std::size_t i = 0; i < request.ahead.size(); ++i) index_.pop_back();
    return draft;
  }

  std::optional<Offer> offer(std::size_t max_tokens) override {
    const auto match = index_.find();
    if (!match) return Offer{};
    return Offer{worthwhile_drafts(match->length, max_tokens), match->length - 1};
  }

 private:
  Draft continuation(std::size_t max_tokens) const {
    Draft draft;
    const auto match = index_.find();
    if (!match) return draft;
    const std::size_t n = worthwhile_drafts(match->length, max_tokens);
    for (std::size_t i = 0; i < n; ++i) {
      // A copy may run into itself: then the text is periodic and goes on with what was just
      // drafted.
      const std::size_t from = match->follower + i;
      draft.tokens.push_back(from < index_.size() ? index_.token(from)
                                                  : draft.tokens[from - index_.size()]);
    }
    return draft;
  }

  NgramIndex index_;
};

class NgramProvider final : public DraftProvider {
 public:
  std::unique_ptr<DraftSource> open(const SourceContext& /*context*/) const override {
    return std::make_unique<NgramSource>();
  }
};

}  // namespace

SourceUnit draft_source_ngram() {
  return {.name = kName,
          .obstacle = [](const models::Model&) { return std::string(); },
          .make = [](const models::Model&) -> std::unique_ptr<DraftProvider> {
            return std::make_unique<NgramProvider>();
          }};
}

}  // namespace ft::speculation
