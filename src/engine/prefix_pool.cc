#include "engine/prefix_pool.h"

#include "engine/session.h"

#include <algorithm>
#include <utility>

namespace ft::engine {
namespace {

std::size_t n_usable(const SessionState& state, TokenSpan prompt) {
  return n_reusable(state.tokens, *state.cache, prompt);
}

std::size_t n_usable(const PrefixOwner& owner, TokenSpan prompt) {
  return n_reusable(owner.session().tokens(), owner.session().cache(), prompt);
}

/// Once all of its prompt is fed.
std::size_t n_usable_later(const Session& session, TokenSpan prompt) {
  const TokenSpan tokens = session.tokens();
  const auto [end, other] =
      std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end());
  return static_cast<std::size_t>(end - tokens.begin());
}

}  // namespace

const PrefixOwner* PrefixPool::best_owner(TokenSpan prompt) const {
  const PrefixOwner* best = nullptr;
  std::size_t n_best = 0;
  for (const PrefixOwner* owner : owners_) {
    const std::size_t n = n_usable(*owner, prompt);
    if (n > n_best) best = owner;
    n_best = std::max(n_best, n);
  }
  return best;
}

std::size_t PrefixPool::best_resting(TokenSpan prompt) const {
  // Of equals the one with the least behind the prefix.
  const auto value = [prompt](const SessionState& state) {
    return std::pair(n_usable(state, prompt), ~state.n_fed);
  };
  const auto best = std::ranges::max_element(resting_, {}, value);
  return static_cast<std::size_t>(best - resting_.begin());
}

bool PrefixPool::is_coming(TokenSpan prompt) const {
  if (reuse_ == Reuse::kOff) return false;
  std::size_t n_now = 0;
  std::size_t n_later = 0;
  for (PrefixOwner* owner : owners_) {
    n_now = std::max(n_now, n_usable(*owner, prompt));
    if (owner->is_feeding()) n_later = std::max(n_later, n_usable_later(owner->session(), prompt));
  }
  for (const SessionState& state : resting_) n_now = std::max(n_now, n_usable(state, prompt));
  return n_later > n_now + kFewTokens;
}

void PrefixPool::begin(Session& session, TokenSpan prompt) {
  const PrefixOwner* owner = best_owner(prompt);
  const std::size_t i = best_resting(prompt);
  const std::size_t n_at_work = owner != nullptr ? n_usable(*owner, prompt) : 0;
  const std::size_t n_at_rest = i < resting_.size() ? n_usable(resting_[i], prompt) : 0;
  if (reuse_ == Reuse::kOff || std::max(n_at_work, n_at_rest) < kLeastPrefix) {
    begin_empty(session, prompt);
  } else if (n_at_work > n_at_rest) {
    make_room();
    session.begin(prompt, owner->session().save_front(n_at_work));
  } else {
    go_on(session, prompt, i);
  }
}

void PrefixPool::go_on(Session& session, TokenSpan prompt, std::size_t i) {
  const std::size_t n = n_usable(resting_[i], prompt);
  const bool is_continued = resting_[i].n_fed - n < kFewTokens;
  // Of equals the one that dies anyway: nothing is to be copied.
  if (!is_continued && !has_place() && n_usable(resting_.front(), prompt) == n) i = 0;
  if (is_continued || (i == 0 && !has_place())) {
    SessionState own = std::move(resting_[i]);
    resting_.erase(resting_.begin() + static_cast<std::ptrdiff_t>(i));
    session.begin(prompt, std::move(own));
    return;
  }
  if (!has_place()) {
    resting_.erase(resting_.begin());
    --i;
  }
  session.begin(prompt, std::as_const(resting_[i]));
}

void PrefixPool::begin_empty(Session& session, TokenSpan prompt) {
  make_room();
  session.begin(prompt);
}

void PrefixPool::make_room() {
  while (!resting_.empty() && !has_place()) resting_.erase(resting_.begin());
}

void PrefixPool::rest(Session& session) {
  if (reuse_ == Reuse::kOff || session.cache().length() < kFewTokens) return;
  make_room();
  resting_.push_back(session.put_down());
}

}  // namespace ft::engine
