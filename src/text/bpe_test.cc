#include "text/bpe.h"

#include <array>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

using ::testing::ElementsAre;

std::array<Token, 256> identity_bytes() {
  std::array<Token, 256> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<Token>(i);
  return ids;
}

std::vector<Token> merged(const std::vector<Merge>& merges, std::string_view piece) {
  const MergeTable table(merges);
  const std::array<Token, 256> bytes = identity_bytes();
  BpeMerger merger(table, bytes.data());
  std::vector<Token> out;
  merger.merge(piece, out);
  return out;
}

/// The definition, word for word: quadratic.
std::vector<Token> merged_naively(const std::vector<Merge>& merges, std::string_view piece) {
  std::map<std::pair<Token, Token>, std::size_t> ranks;
  for (std::size_t i = 0; i < merges.size(); ++i) ranks[{merges[i].left, merges[i].right}] = i;
  std::vector<Token> ids;
  for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
  while (true) {
    std::size_t best_rank = merges.size();
    std::size_t best_at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found == ranks.end() || found->second >= best_rank) continue;
      best_rank = found->second;
      best_at = i;
    }
    if (best_rank == merges.size()) return ids;
    ids[best_at] = merges[best_rank].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(Bpe_Merge, LeavesBytes_WhenNothingMerges) {
  EXPECT_THAT(merged({}, ""), ElementsAre());
  EXPECT_THAT(merged({}, "a\xff"), ElementsAre('a', 0xff));
  EXPECT_THAT(merged({{'a', 'b', 256}}, "ba"), ElementsAre('b', 'a'));
}

TEST(Bpe_Merge, TakesTheLeftmost_WhenRanksAreEqual) {
  EXPECT_THAT(merged({{'a', 'a', 256}}, "aaa"), ElementsAre(256, 'a'));
  EXPECT_THAT(merged({{'a', 'a', 256}, {256, 256, 257}}, "aaaaaaa"), ElementsAre(257, 256, 'a'));
}

TEST(Bpe_Merge, TakesTheLowestRankFirst) {
  EXPECT_THAT(merged({{'b', 'c', 256}, {'a', 'b', 257}}, "abc"), ElementsAre('a', 256));
  EXPECT_THAT(merged({{'a', 'b', 257}, {'b', 'c', 256}}, "abc"), ElementsAre(257, 'c'));
  // A pair that a merge makes may have a lower rank than what waits already.
  EXPECT_THAT(merged({{256, 'c', 258}, {'a', 'b', 256}, {'c', 'd', 257}}, "abcd"),
              ElementsAre(258, 'd'));
}

TEST(Bpe_Merge, UsesTheLastRank_WhenAPairIsListedTwice) {
  EXPECT_THAT(merged({{'a', 'b', 257}, {'b', 'c', 256}, {'a', 'b', 257}}, "abc"),
              ElementsAre('a', 256));
}

TEST(Bpe_Merge, EqualsTheDefinition_OnRandomMergesAndPieces) {
  std::mt19937 random(20240611);
  for (int round = 0; round < 300; ++round) {
    std::vector<Merge> merges;
    const auto n_merges = static_cast<Token>(1 + random() % 40);
    for (Token i = 0; i < n_merges; ++i) {
      const auto side = [&] {
        const auto pick = static_cast<Token>(random() % static_cast<unsigned>(4 + i));
        return pick < 4 ? 'a' + pick : 256 + pick - 4;
      };
      merges.push_back({side(), side(), 256 + i});
    }
    for (int i = 0; i < 10; ++i) {
      std::string piece;
      const std::size_t size = random() % 60;
      for (std::size_t k = 0; k < size; ++k) piece.push_back(static_cast<char>('a' + random() % 4));
      ASSERT_EQ(merged(merges, piece), merged_naively(merges, piece))
          << "round " << round << " " << piece;
    }
  }
}

TEST(MergeTable_Rank, KnowsOnlyItsPairs) {
  const MergeTable table({{5, 1, 9}, {2, 7, 10}, {5, 0, 11}});
  EXPECT_EQ(table.rank(5, 1), 0U);
  EXPECT_EQ(table.rank(2, 7), 1U);
  EXPECT_EQ(table.rank(5, 0), 2U);
  EXPECT_EQ(table.result(2), 11);
  for (const auto& [left, right] :
       {std::pair{5, 2}, {0, 0}, {2, 1}, {6, 1}, {1'000'000, 1}, {4, 1}}) {
    EXPECT_EQ(table.rank(left, right), MergeTable::kNoRank) << left << " " << right;
  }
  EXPECT_EQ(MergeTable().rank(0, 0), MergeTable::kNoRank);
}

}  // namespace
}  // namespace ft::text
