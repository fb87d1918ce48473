// Which caches a new session starts with: those of a session at rest that shares the beginning of
// its prompt, a copy of one at work, or empty ones. Engine thread only.
#pragma once

#include "base/types.h"
#include "engine/session_state.h"

#include <cstddef>
#include <vector>

namespace ft::engine {

class Session;

/// A request at work, as others see it that may want a copy of its caches.
class PrefixOwner {
 public:
  virtual ~PrefixOwner() = default;
  virtual const Session& session() const noexcept = 0;
  /// Whether its prompt is being fed, and nothing it has no power over keeps it from going on.
  virtual bool is_feeding() = 0;
};

/// Sessions at work and at rest are never more than there are places: memory was planned for so
/// many caches. Whoever needs a place takes that of the session whose own tokens were used least
/// recently, which is the one that rests longest: a branch carries the beginning that it shares, so
/// its use keeps that alive in the branch, and says nothing of what the session alone has. (To
/// count a branch as a use of all of the session would keep a beginning twice, and cost a
/// conversation its place.)
class PrefixPool {
 public:
  /// A shorter beginning is not worth a copy. On glm-mini, where a copy counts for most, it takes
  /// 0.1 ms and 2 us per token, draft state included, however long the other session is; to feed a
  /// prompt token takes 0.1 to 0.4 ms (one core of an Emerald-Rapids-class server, busy,
  /// 2026-11-30). So 2 tokens pay; 4 are more than what a template puts before every chat.
  static constexpr std::size_t kLeastPrefix = 4;
  /// For fewer tokens no request waits until another has fed them, no copy is made of all that is
  /// before them, and no session rests, since it would cost one with more its place.
  static constexpr std::size_t kFewTokens = 16;

  enum class Reuse : std::uint8_t { kOff, kOn };
  PrefixPool(std::size_t n_places, Reuse reuse) : n_places_(n_places), reuse_(reuse) {}

  /// Whether a session at work is going to have more of the prompt than there is now.
  bool is_coming(TokenSpan prompt) const;
  /// Begins an empty session with this prompt, in the place of a session at rest if no other is
  /// free. That one dies, or is what the new one goes on from: a session at rest loses what it has
  /// beyond the common prefix only if it is the one that would die.
  void begin(Session& session, TokenSpan prompt);
  /// The same, all of the prompt to be fed.
  void begin_empty(Session& session, TokenSpan prompt);
  /// A place for caches of another use.
  void make_room();

  /// Memory is short: nothing rests any more. Whether anything did.
  bool drop_resting() noexcept {
    const bool had_any = !resting_.empty();
    resting_.clear();
    return had_any;
  }

  /// From begin() to rest() or the end of the request.
  void add(PrefixOwner& owner) { owners_.push_back(&owner); }
  void remove(const PrefixOwner& owner) { std::erase(owners_, &owner); }
  /// Keeps what the session has. It can only be destroyed afterwards.
  void rest(Session& session);

  std::size_t n_resting() const noexcept { return resting_.size(); }

 private:
  const PrefixOwner* best_owner(TokenSpan prompt) const;
  std::size_t best_resting(TokenSpan prompt) const;
  void go_on(Session& session, TokenSpan prompt, std::size_t i);
  bool has_place() const noexcept { return resting_.size() + owners_.size() < n_places_; }

  std::size_t n_places_;
  Reuse reuse_;
  std::vector<PrefixOwner*> owners_;
  std::vector<SessionState> resting_;  // the one that rests longest first
};

}  // namespace ft::engine
