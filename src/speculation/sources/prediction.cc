// Source `prediction`: the caller knows most of the text, a file that is being edited. Follows it,
// and finds its way back where the two part.
#include "speculation/common_prefix.h"
#include "speculation/draft_source.h"
#include "speculation/source_unit.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

namespace ft::speculation {
namespace {

constexpr std::string_view kName = "prediction";

// Trailing tokens that tell one place from another.
constexpr std::size_t kMaxEvidence = 8;
// Places that are looked at, the nearest first: a common token has thousands.
constexpr std::size_t kMaxPlaces = 64;

// With fewer tokens that agree a draft is as long as they are: longer ones after weak evidence cost
// more rows than they win. Figures: docs/speculation.md.
constexpr std::size_t kStrongMatch = 4;

std::size_t strength_of(std::size_t n_agreed) {
  if (n_agreed < 2) return 0;
  if (n_agreed < kStrongMatch) return 1;
  return n_agreed < 16 ? 2 : 3;
}

class PredictionSource final : public DraftSource {
 public:
  explicit PredictionSource(TokenSpan prediction)
      : prediction_(prediction.begin(), prediction.end()) {
    for (std::size_t i = 0; i < prediction_.size(); ++i) places_[prediction_[i]].push_back(i);
  }

  std::string_view name() const noexcept override { return kName; }

  void observe(const Committed& committed) override {
    const TokenSpan output = committed.sequence.subspan(committed.n_prompt);
    const std::size_t n_same =
        committed.n_same < committed.n_prompt ? 0 : committed.n_same - committed.n_prompt;
    if (common_prefix(output_, output, n_same) < output_.size()) {
      output_.clear();
      place_ = {};
    }
    for (std::size_t i = output_.size(); i < output.size(); ++i) {
      output_.push_back(output[i]);
      place_ = follow(place_, output_);
    }
  }

  std::optional<Offer> offer(std::size_t max_tokens) override {
    return Offer{n_worthwhile(place_, max_tokens), strength_of(place_.n_agreed)};
  }

  Draft propose(const DraftRequest& request, std::stop_token /*stop*/) override {
    Place place = place_;
    if (!request.ahead.empty()) {
      std::vector<Token> text(
          output_.end() - static_cast<std::ptrdiff_t>(std::min(output_.size(), kMaxEvidence)),
          output_.end());
      for (const Token token : request.ahead) {
        text.push_back(token);
        place = follow(place, text);
      }
    }
    const auto begin = prediction_.begin() + static_cast<std::ptrdiff_t>(place.next);
    Draft draft;
    draft.tokens.assign(
        begin, begin + static_cast<std::ptrdiff_t>(n_worthwhile(place, request.max_tokens)));
    return draft;
  }

 private:
  /// Where in the prediction the text is.
  struct Place {
    std::size_t next = 0;  // the token that should come; where it was lost if it is
    // Tokens in a row that came as predicted, none when it is lost; at the start it is trusted.
    std::size_t n_agreed = kStrongMatch;
  };

  std::size_t n_worthwhile(const Place& place, std::size_t max_tokens) const {
    if (place.n_agreed < kStrongMatch) max_tokens = std::min(max_tokens, place.n_agreed);
    return std::min(max_tokens, prediction_.size() - place.next);
  }

  // After one more token, the last of `text`.
  Place follow(const Place& place, const std::vector<Token>& text) const {
    if (place.next < prediction_.size() && prediction_[place.next] == text.back()) {
      return {place.next + 1, place.n_agreed + 1};
    }
    return find(place.next, text);
  }

  // The place with the longest evidence; of equals the nearest behind `lost_at`, then the nearest
  // before it.
  Place find(std::size_t lost_at, const std::vector<Token>& text) const {
    Place best{lost_at, 0};
    const auto known = places_.find(text.back());
    if (known == places_.end()) return best;
    const std::vector<std::size_t>& all = known->second;
    const auto middle = std::lower_bound(all.begin(), all.end(), lost_at);
    const auto consider = [&](std::size_t at) {
      const std::size_t n = evidence(at, text);
      if (n > best.n_agreed) best = {at + 1, n};
    };
    std::size_t n_places = 0;
    for (auto it = middle; it != all.end() && n_places < kMaxPlaces; ++it, ++n_places)
      consider(*it);
    n_places = 0;
    for (auto it = middle; it != all.begin() && n_places < kMaxPlaces; ++n_places) consider(*--it);
    return best;
  }

  // How many tokens before and at `at` are the last ones of the text.
  std::size_t evidence(std::size_t at, const std::vector<Token>& text) const {
    const std::size_t most = std::min({kMaxEvidence, at + 1, text.size()});
    std::size_t n = 0;
    while (n < most && prediction_[at - n] == text[text.size() - 1 - n]) ++n;
    return n;
  }

  std::vector<Token> prediction_;
  std::unordered_map<Token, std::vector<std::size_t>> places_;  // ascending
  std::vector<Token> output_;
  Place place_;
};

class PredictionProvider final : public DraftProvider {
 public:
  std::unique_ptr<DraftSource> open(const SourceContext& context) const override {
    return std::make_unique<PredictionSource>(context.prediction);
  }
};

}  // namespace

SourceUnit draft_source_prediction() {
  return {.name = kName,
          .obstacle = [](const models::Model&) { return std::string(); },
          .make = [](const models::Model&) -> std::unique_ptr<DraftProvider> {
            return std::make_unique<PredictionProvider>();
          }};
}

}  // namespace ft::speculation
