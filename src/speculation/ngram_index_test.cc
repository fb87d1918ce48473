#include "speculation/ngram_index.h"

#include "base/error.h"
#include "base/random.h"
#include "speculation/lookup_memory.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

NgramIndex index_of(TokenSpan tokens) {
  NgramIndex index;
  for (const Token token : tokens) index.push_back(token);
  return index;
}

// By search through the whole sequence.
std::optional<NgramIndex::Match> find_slowly(TokenSpan tokens) {
  for (std::size_t k = NgramIndex::kMaxLength; k >= 1; --k) {
    if (tokens.size() <= k) continue;
    const TokenSpan tail = tokens.last(k);
    for (std::size_t follower = tokens.size() - 1; follower >= k; --follower) {
      if (std::equal(tail.begin(),
                     tail.end(),
                     tokens.begin() + static_cast<std::ptrdiff_t>(follower - k))) {
        return NgramIndex::Match{k, follower};
      }
    }
  }
  return std::nullopt;
}

void expect_same(const NgramIndex& index) {
  const auto found = index.find();
  const auto expected = find_slowly(index.tokens());
  ASSERT_EQ(found.has_value(), expected.has_value()) << "size " << index.size();
  if (!found) return;
  EXPECT_EQ(found->length, expected->length) << "size " << index.size();
  EXPECT_EQ(found->follower, expected->follower) << "size " << index.size();
}

TEST(NgramIndex, FindsTheMostRecentOccurrenceOfTheLongestTail) {
  const std::vector<Token> tokens = {1, 2, 3, 7, 1, 2, 3, 8, 2, 3, 9, 1, 2, 3};
  const auto match = index_of(tokens).find();
  ASSERT_TRUE(match);
  EXPECT_EQ(match->length, 3u);
  EXPECT_EQ(match->follower, 7u);
}

TEST(NgramIndex, FallsBackToShorterTails) {
  const std::vector<Token> two = {5, 1, 2, 9, 1, 2};
  EXPECT_EQ(index_of(two).find()->length, 2u);
  const std::vector<Token> one = {5, 2, 9, 1, 2};
  EXPECT_EQ(index_of(one).find()->length, 1u);
  EXPECT_EQ(index_of(one).find()->follower, 2u);
}

TEST(NgramIndex, FindsNothingInANewText) {
  EXPECT_FALSE(NgramIndex().find());
  EXPECT_FALSE(index_of(std::vector<Token>{1}).find());
  EXPECT_FALSE(index_of(std::vector<Token>{1, 2, 3, 4}).find());
}

TEST(NgramIndex, EqualsASearchWhileGrowingAndShrinking) {
  NgramIndex index;
  for (std::uint64_t step = 0; step < 4000; ++step) {
    const std::uint64_t bits = noise_bits(5, NoisePurpose::kDraft, step, 0);
    if (bits % 3 == 0 && index.size() > 0) {
      index.pop_back();
    } else {
      index.push_back(static_cast<Token>((bits >> 8) % 9));
    }
    if (step % 7 == 0) expect_same(index);
  }
  EXPECT_GT(index.size(), 600u) << "the tables must have grown";
}

TEST(NgramIndex, AMonotonousTextIsNoBurden) {
  NgramIndex index;
  for (std::size_t i = 0; i < 20000; ++i) index.push_back(4);
  const auto match = index.find();
  ASSERT_TRUE(match);
  EXPECT_EQ(match->length, 3u);
  EXPECT_EQ(match->follower, 19999u);
}

TEST(NgramIndex, MemoryPerTokenIsBounded) {
  NgramIndex index;
  for (std::size_t i = 0; i < 70'000; ++i) {
    index.push_back(static_cast<Token>(i));
    if (i > 1000) {
      ASSERT_LE(index.used_bytes(), kNgramBytesPerToken * index.size()) << index.size();
    }
  }
}

TEST(NgramIndex, PoppingNothingIsAnError) {
  EXPECT_THROW(NgramIndex().pop_back(), LogicError);
}

}  // namespace
}  // namespace ft::speculation
