// Where the k tokens at the end of a sequence occurred before, k = 1 … 3. Used by draft source
// `ngram`.
#pragma once

#include "base/types.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ft::speculation {

/// Grows and shrinks at the end, one token at a time; never rescans. Per k a chain of occurrences
/// by hash, most recent first, so that dropping the last token restores exactly the state before
/// it. About 56 bytes per token, kNgramBytesPerToken at most.
class NgramIndex {
 public:
  static constexpr std::size_t kMaxLength = 3;

  struct Match {
    std::size_t length = 0;    // k
    std::size_t follower = 0;  // position after the earlier occurrence; < size()
  };

  std::size_t size() const noexcept { return tokens_.size(); }
  Token token(std::size_t position) const { return tokens_.at(position); }
  TokenSpan tokens() const noexcept { return tokens_; }

  void push_back(Token token);
  void pop_back();
  /// The most recent earlier occurrence of the longest k-gram at the end that has one.
  std::optional<Match> find() const;
  /// Bytes of all tables.
  std::size_t used_bytes() const noexcept;

 private:
  using Position =
      std::uint32_t;  // 0: none; a k-gram's position is that of the token that follows it, never 0

  struct Chains {
    std::vector<Position> heads;     // by hash; a power of two of them
    std::vector<Position> previous;  // by position: the one before it with the same hash
  };

  std::size_t slot(std::size_t k, std::size_t end) const;
  bool is_equal(std::size_t k, std::size_t end, std::size_t other_end) const;
  void link(std::size_t k, std::size_t position);
  void grow(std::size_t k);

  std::vector<Token> tokens_;
  std::array<Chains, kMaxLength> chains_;  // [k - 1]
};

}  // namespace ft::speculation
