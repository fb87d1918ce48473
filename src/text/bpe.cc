#include "text/bpe.h"

#include "base/error.h"

#include <algorithm>
#include <functional>

namespace ft::text {

namespace {
constexpr std::uint32_t kEnd = UINT32_MAX;
}  // namespace

MergeTable::MergeTable(const std::vector<Merge>& merges) {
  FT_CHECK(merges.size() < kNoRank);
  Token max_left = -1;
  for (const Merge& merge : merges) max_left = std::max(max_left, merge.left);
  // Counting sort by left; the ranks of one left stay in ascending order.
  begins_.assign(static_cast<std::size_t>(max_left) + 2, 0);
  for (const Merge& merge : merges) ++begins_[static_cast<std::size_t>(merge.left) + 1];
  for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  rights_.resize(merges.size());
  results_.reserve(merges.size());
  std::vector<std::uint32_t> place(begins_.begin(), begins_.end() - 1);
  for (const Merge& merge : merges) {
    const auto rank = static_cast<std::uint32_t>(results_.size());
    rights_[place[static_cast<std::size_t>(merge.left)]++] = {merge.right, rank};
    results_.push_back(merge.result);
  }
  for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
    const auto first = rights_.begin() + begins_[i];
    const auto last = rights_.begin() + begins_[i + 1];
    // Of equal pairs the later one first, where the look-up finds it.
    std::sort(first, last, [](const Right& a, const Right& b) {
      return a.right != b.right ? a.right < b.right : a.rank > b.rank;
    });
  }
}

std::uint32_t MergeTable::rank(Token left, Token right) const noexcept {
  const auto index = static_cast<std::size_t>(left);
  if (index + 1 >= begins_.size()) return kNoRank;
  const Right* first = rights_.data() + begins_[index];
  std::size_t n = begins_[index + 1] - begins_[index];
  while (n > 0) {
    const std::size_t half = n / 2;
    if (first[half].right < right) {
      first += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  const Right* last = rights_.data() + begins_[index + 1];
  return first != last && first->right == right ? first->rank : kNoRank;
}

void BpeMerger::merge(std::string_view piece, std::vector<Token>& out) {
  FT_CHECK(piece.size() < kEnd);
  symbols_.clear();
  heap_.clear();
  for (const char c : piece) {
    const auto at = static_cast<std::uint32_t>(symbols_.size());
    const Token id = byte_tokens_[static_cast<unsigned char>(c)];
    symbols_.push_back({id, MergeTable::kNoRank, at == 0 ? kEnd : at - 1, at + 1});
  }
  if (symbols_.empty()) return;
  symbols_.back().next = kEnd;
  for (std::uint32_t i = 0; i + 1 < symbols_.size(); ++i) {
    if (rank_pair(i)) heap_.push_back(heap_entry(i));
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    const std::uint64_t best = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    const auto left = static_cast<std::uint32_t>(best);
    // Entries of pairs that are gone stay in the heap; they no longer say what the symbol says.
    if (symbols_[left].rank == static_cast<std::uint32_t>(best >> 32)) join(left);
  }
  for (std::uint32_t i = 0; i != kEnd; i = symbols_[i].next) out.push_back(symbols_[i].id);
}

/// Looks up the pair that begins at `left`; true if it merges.
bool BpeMerger::rank_pair(std::uint32_t left) noexcept {
  Symbol& symbol = symbols_[left];
  symbol.rank =
      symbol.next == kEnd ? MergeTable::kNoRank : table_->rank(symbol.id, symbols_[symbol.next].id);
  return symbol.rank != MergeTable::kNoRank;
}

std::uint64_t BpeMerger::heap_entry(std::uint32_t left) const noexcept {
  return (std::uint64_t{symbols_[left].rank} << 32) | left;
}

/// Merges the pair at `left` and queues the pairs that this makes.
void BpeMerger::join(std::uint32_t left) {
  Symbol& symbol = symbols_[left];
  Symbol& gone = symbols_[symbol.next];
  symbol.id = table_->result(symbol.rank);
  symbol.next = gone.next;
  gone.rank = MergeTable::kNoRank;
  if (gone.next != kEnd) symbols_[gone.next].previous = left;
  for (const std::uint32_t place : {symbol.previous, left}) {
    if (place == kEnd || !rank_pair(place)) continue;
    heap_.push_back(heap_entry(place));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
}

}  // namespace ft::text
