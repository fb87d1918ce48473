// Byte pair merging: the inner loop of the tokenizer. Knows ids and ranks, no text formats.
#pragma once

#include "base/types.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ft::text {

/// "left and right become result"; its place in the list is its rank, lower first.
struct Merge {
  Token left = 0;
  Token right = 0;
  Token result = 0;
};

/// The merges by pair. Immutable after construction.
class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = UINT32_MAX;

  MergeTable() = default;
  /// Ranks are positions in `merges`; of equal pairs the last counts. At most 2^32 - 1 merges, ids
  /// not negative.
  explicit MergeTable(const std::vector<Merge>& merges);

  /// kNoRank if the pair does not merge.
  std::uint32_t rank(Token left, Token right) const noexcept;
  Token result(std::uint32_t rank) const noexcept { return results_[rank]; }

 private:
  struct Right {
    Token right;
    std::uint32_t rank;
  };
  // Sorted by left, then right, with where each left begins: no hash, so no file can make look-ups
  // slow.
  std::vector<std::uint32_t> begins_;
  std::vector<Right> rights_;
  std::vector<Token> results_;  // by rank
};

/// Merges one piece after the other; keeps its working memory between them.
class BpeMerger {
 public:
  /// `table` and `byte_tokens` (256 ids) must outlive this object.
  BpeMerger(const MergeTable& table, const Token* byte_tokens)
      : table_(&table), byte_tokens_(byte_tokens) {}

  /// Appends the tokens of `piece`: its bytes, of whose adjacent pairs the one of lowest rank,
  /// leftmost among equals, is merged until none is left. O(n log n). piece.size() must be below
  /// 2^32 - 1.
  void merge(std::string_view piece, std::vector<Token>& out);

 private:
  struct Symbol {
    Token id;
    std::uint32_t
        rank;  // of the pair with the next symbol; kNoRank also for symbols that were merged away
    std::uint32_t previous;
    std::uint32_t next;
  };
  bool rank_pair(std::uint32_t left) noexcept;
  std::uint64_t heap_entry(std::uint32_t left) const noexcept;
  void join(std::uint32_t left);

  const MergeTable* table_;
  const Token* byte_tokens_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t>
      heap_;  // rank in the high half, place in the low: the order that pairs merge in
};

}  // namespace ft::text
