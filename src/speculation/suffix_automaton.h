// The longest end of a sequence that occurred before, and where: an online suffix automaton (Blumer
// et al. 1985). Used by draft source `suffix`.
#pragma once

#include "base/types.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ft::speculation {

/// Grows at the end, amortised O(1) per token. At most two states and three edges per token, about
/// 100 bytes per token of text. Tokens may be negative: a separator that no text has.
class SuffixAutomaton {
 public:
  /// A place in the automaton: the longest end of some other sequence that occurs in this one.
  struct Match {
    std::uint32_t state = 0;
    std::size_t length = 0;  // tokens; 0: none
  };

  SuffixAutomaton();

  std::size_t size() const noexcept { return tokens_.size(); }
  TokenSpan tokens() const noexcept { return tokens_; }
  void push_back(Token token);

  /// The longest end of the sequence itself that occurred before.
  Match own_match() const noexcept {
    return {states_[last_].link, states_[states_[last_].link].length};
  }
  /// The match of a sequence with one more token.
  Match advance(Match match, Token token) const;
  /// Position after an occurrence of a match of at least one token, a late one: below size() for
  /// own_match() and what advance() makes of it unless the occurrence is the end itself.
  std::size_t follower(const Match& match) const noexcept {
    return states_[match.state].recent_end;
  }
  /// Bytes of all tables.
  std::size_t used_bytes() const noexcept;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct State {
    std::uint32_t length = 0;      // of the longest sequence that leads here
    std::uint32_t link = kNone;    // where its longest end with another set of occurrences leads
    std::uint32_t recent_end = 0;  // position after a late occurrence
    std::uint32_t first_edge = kNone;
  };
  struct Edge {
    std::uint32_t from = 0;
    Token token = 0;
    std::uint32_t to = 0;
    std::uint32_t next = kNone;  // of the same state
  };

  std::uint32_t new_state(const State& state);
  std::size_t slot_of(std::uint32_t from, Token token) const noexcept;
  std::uint32_t find_edge(std::uint32_t from, Token token) const noexcept;
  void add_edge(std::uint32_t from, Token token, std::uint32_t to);
  void grow_slots();
  std::uint32_t split(std::uint32_t from, Token token, std::uint32_t to);

  std::vector<Token> tokens_;
  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> slots_;  // of edges, by hash of (from, token); open addressing
  std::uint32_t last_ = 0;            // state of the whole sequence
};

}  // namespace ft::speculation
