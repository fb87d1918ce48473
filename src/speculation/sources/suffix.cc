// Source `suffix`: what followed the longest end of the sequence that occurred before, in this
// session or, if it is allowed to remember them, in earlier ones.
#include "speculation/common_prefix.h"
#include "speculation/draft_source.h"
#include "speculation/source_unit.h"
#include "speculation/suffix_automaton.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace ft::speculation {
namespace {

constexpr std::string_view kName = "suffix";

// A match of one token tells next to nothing.
constexpr std::size_t kLeastMatch = 2;

// A shorter match is followed for as many tokens as it is long: longer drafts after weak evidence
// cost more rows than they win. Figures: docs/speculation.md.
constexpr std::size_t kStrongMatch = 5;

// Longer matches are no better evidence.
constexpr std::size_t kRefollowed = 64;

// Between the texts of two sessions.
constexpr Token kSeparator = -1;

std::size_t strength_of(std::size_t match_length) {
  if (match_length < 3) return 0;
  if (match_length < kStrongMatch) return 1;
  return match_length < 10 ? 2 : 3;
}

std::size_t worthwhile_drafts(std::size_t match_length, std::size_t max_tokens) {
  if (match_length < kLeastMatch) return 0;
  return match_length < kStrongMatch ? std::min(match_length, max_tokens) : max_tokens;
}

/// The texts of earlier sessions, at most `max_tokens` of them.
struct EarlierSessions {
  std::size_t max_tokens = 0;
  SuffixAutomaton texts;
  std::uint64_t generation = 0;  // of `texts`: a match in an earlier one means nothing

  void add(TokenSpan text) {
    text = text.last(std::min(text.size(), max_tokens / 2));
    if (text.empty()) return;
    if (texts.size() + text.size() + 1 > max_tokens) forget();
    ++generation;
    for (const Token token : text) texts.push_back(token);
    texts.push_back(kSeparator);
  }
  void clear() {
    texts = {};
    ++generation;
  }

 private:
  // An automaton cannot drop its beginning.
  void forget() {
    const TokenSpan all = texts.tokens();
    SuffixAutomaton later;
    for (const Token token : all.last(std::min(all.size(), max_tokens / 2 - 1))) {
      later.push_back(token);
    }
    texts = std::move(later);
  }
};

class SuffixSource final : public DraftSource {
 public:
  explicit SuffixSource(std::shared_ptr<EarlierSessions> earlier) : earlier_(std::move(earlier)) {
    if (earlier_) generation_ = earlier_->generation;
  }
  ~SuffixSource() override {
    try {
      if (earlier_) earlier_->add(own_.tokens());
    } catch (...) {  // out of memory: nothing is remembered
      earlier_->clear();
    }
  }
  SuffixSource(const SuffixSource&) = delete;
  SuffixSource& operator=(const SuffixSource&) = delete;
  SuffixSource(SuffixSource&&) = delete;
  SuffixSource& operator=(SuffixSource&&) = delete;

  std::string_view name() const noexcept override { return kName; }

  void observe(const Committed& committed) override {
    const TokenSpan now = committed.sequence;
    const std::size_t common = common_prefix(own_.tokens(), now, committed.n_same);
    if (common < own_.size()) {  // tokens were taken back, which is rare
      own_ = {};
      match_earlier_ = {};
    }
    follow_earlier();
    for (std::size_t i = own_.size(); i < now.size(); ++i) {
      own_.push_back(now[i]);
      if (earlier_) match_earlier_ = earlier_->texts.advance(match_earlier_, now[i]);
    }
  }

  std::optional<Offer> offer(std::size_t max_tokens) override {
    follow_earlier();
    const Place place = find({});
    return Offer{available(place, max_tokens), strength_of(place.length)};
  }

  Draft propose(const DraftRequest& request, std::stop_token /*stop*/) override {
    Draft draft;
    follow_earlier();
    const Place place = find(request.ahead);
    const std::size_t n = available(place, request.max_tokens);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t from = place.follower + i;
      if (from < place.text.size()) {
        draft.tokens.push_back(place.text[from]);
      } else {  // the text is periodic: the copy runs into the drafts
        const std::size_t behind = from - place.text.size();
        draft.tokens.push_back(behind < request.ahead.size()
                                   ? request.ahead[behind]
                                   : draft.tokens[behind - request.ahead.size()]);
      }
    }
    return draft;
  }

 private:
  struct Place {
    std::size_t length = 0;  // of the match
    TokenSpan text;          // the one that has it
    std::size_t follower = 0;
    bool is_own = true;
  };

  // Another session may have ended meanwhile, its text been added and old ones dropped.
  void follow_earlier() {
    if (!earlier_ || generation_ == earlier_->generation) return;
    generation_ = earlier_->generation;
    match_earlier_ = {};
    const TokenSpan text = own_.tokens();
    for (const Token token : text.last(std::min(text.size(), kRefollowed))) {
      match_earlier_ = earlier_->texts.advance(match_earlier_, token);
    }
  }

  // The longer of both matches behind `ahead`.
  Place find(TokenSpan ahead) const {
    if (own_.size() == 0) return {};
    const auto place = [&](const SuffixAutomaton& in, SuffixAutomaton::Match match, bool is_own) {
      for (const Token token : ahead) match = in.advance(match, token);
      return Place{match.length, in.tokens(), in.follower(match), is_own};
    };
    const Place here = place(own_, own_.own_match(), true);
    if (!earlier_) return here;
    const Place there = place(earlier_->texts, match_earlier_, false);
    return there.length > here.length ? there : here;
  }

  static std::size_t available(const Place& place, std::size_t max_tokens) {
    const std::size_t n = worthwhile_drafts(place.length, max_tokens);
    if (place.is_own || n == 0) return n;
    const TokenSpan rest = place.text.subspan(place.follower);
    const auto end = std::find(rest.begin(), rest.end(), kSeparator);
    return std::min(n, static_cast<std::size_t>(end - rest.begin()));
  }

  SuffixAutomaton own_;
  std::shared_ptr<EarlierSessions> earlier_;  // null: nothing is remembered
  SuffixAutomaton::Match match_earlier_;
  std::uint64_t generation_ = 0;  // of the texts that it is a match in
};

/// Sources open and close on one thread, one at a time.
class SuffixProvider final : public DraftProvider {
 public:
  std::unique_ptr<DraftSource> open(const SourceContext& context) const override {
    earlier_->max_tokens = context.history_tokens;
    return std::make_unique<SuffixSource>(context.history_tokens > 0 ? earlier_ : nullptr);
  }

 private:
  std::shared_ptr<EarlierSessions> earlier_ = std::make_shared<EarlierSessions>();
};

}  // namespace

SourceUnit draft_source_suffix() {
  return {.name = kName,
          .obstacle = [](const models::Model&) { return std::string(); },
          .make = [](const models::Model&) -> std::unique_ptr<DraftProvider> {
            return std::make_unique<SuffixProvider>();
          }};
}

}  // namespace ft::speculation
