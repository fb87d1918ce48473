#include "speculation/feature_ring.h"

#include "base/error.h"
#include "base/random.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

constexpr std::size_t kWidth = 3;

std::uint32_t random(std::uint64_t seed, std::uint64_t a) {
  return static_cast<std::uint32_t>(noise_bits(seed, NoisePurpose::kDraft, a, 0) >> 40);
}

// What tap `tap` says of a sequence: a number that depends on every token of it.
float feature(TokenSpan tokens, std::size_t tap, std::size_t column) {
  std::uint64_t key = 1000 * tap + column;
  for (const Token token : tokens)
    key = noise_bits(key, NoisePurpose::kDraft, 7, static_cast<std::uint32_t>(token));
  return static_cast<float>(key >> 44);
}

class RingTest : public ::testing::Test {
 protected:
  void observe(const std::vector<Token>& sequence, std::size_t first, std::size_t n) {
    std::vector<std::vector<float>> values(2);
    std::vector<ConstMatrix> taps;
    for (std::size_t tap = 0; tap < 2; ++tap) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t c = 0; c < kWidth; ++c)
          values[tap].push_back(feature(TokenSpan(sequence).first(first + i + 1), tap, c));
      }
      taps.push_back({values[tap].data(), n, kWidth, kWidth});
    }
    ring_.observe({.sequence = sequence, .first_position = first, .n_rows = n, .taps = taps});
  }
  // Positions begin ... end - 1, each true, alone and as one matrix.
  void expect_rows(const std::vector<Token>& sequence, std::size_t begin, std::size_t end) {
    ASSERT_EQ(ring_.end(), end);
    ASSERT_EQ(ring_.begin(), begin);
    ASSERT_EQ(ring_.size(), end - begin);
    EXPECT_TRUE(
        std::equal(sequence.begin(), sequence.end(), ring_.tokens().begin(), ring_.tokens().end()));
    const ConstMatrix all = ring_.rows(begin, end - begin);
    ASSERT_EQ(all.n_cols, 2 * kWidth);
    for (std::size_t p = begin; p < end; ++p) {
      for (std::size_t tap = 0; tap < 2; ++tap) {
        for (std::size_t c = 0; c < kWidth; ++c) {
          const float expected = feature(TokenSpan(sequence).first(p + 1), tap, c);
          EXPECT_EQ(ring_.row(p)[tap * kWidth + c], expected);
          EXPECT_EQ(all.row(p - begin)[tap * kWidth + c], expected);
          EXPECT_EQ(ring_.tap(tap, p, 1).row(0)[c], expected);
        }
      }
    }
  }

  FeatureRing ring_{2, kWidth, 5};
};

TEST_F(RingTest, HoldsTheRowsOfAWindow) {
  std::vector<Token> tokens = {4, 5, 6, 7, 8, 9, 1, 2};
  observe(tokens, 0, 2);
  expect_rows(tokens, 0, 2);
  observe(tokens, 2, 3);
  expect_rows(tokens, 0, 5);
  observe(tokens, 5, 1);
  expect_rows(tokens, 1, 6);
  for (std::size_t n = 0; n < 40; ++n) {
    tokens.push_back(static_cast<Token>(n));
    observe(tokens, 6 + n, 1);
    expect_rows(tokens, 2 + n, 7 + n);
  }
}

TEST_F(RingTest, KeepsTheLastRowsOfALongChunk) {
  const std::vector<Token> tokens(30, 3);
  observe(tokens, 0, 17);
  expect_rows(tokens, 12, 17);
  observe(tokens, 17, 5);
  expect_rows(tokens, 17, 22);
}

TEST_F(RingTest, TakesBackWhatTheSessionTookBack) {
  std::vector<Token> tokens = {4, 5, 6, 7, 8, 9};
  observe(tokens, 0, 5);
  tokens[4] = 1;
  tokens.push_back(2);
  observe(tokens, 4, 1);
  expect_rows(tokens, 0, 5);
  // Rows that are shown again replace the old ones.
  observe(tokens, 2, 4);
  expect_rows(tokens, 1, 6);
  // To before the window.
  tokens = {9, 9, 9};
  observe(tokens, 0, 0);
  EXPECT_EQ(ring_.size(), 0u);
  observe(tokens, 0, 2);
  expect_rows(tokens, 0, 2);
}

TEST_F(RingTest, AfterAGapHasOnlyRowsThatExist) {
  std::vector<Token> tokens = {4, 5, 6, 7, 8, 9, 1, 2, 3};
  observe(tokens, 0, 3);
  observe(tokens, 5, 2);
  expect_rows(tokens, 5, 7);
  observe(tokens, 7, 1);
  expect_rows(tokens, 5, 8);
  observe(tokens, 2, 1);  // before what it has
  expect_rows(tokens, 2, 3);
}

TEST_F(RingTest, ACopyIsASnapshot) {
  const std::vector<Token> tokens = {4, 5, 6, 7, 8, 9, 1, 2, 3};
  observe(tokens, 0, 6);
  const FeatureRing copy = ring_;
  observe(tokens, 6, 3);
  ring_ = copy;
  expect_rows(tokens, 1, 6);
}

TEST_F(RingTest, RefusesWhatItDoesNotHaveAndOtherShapes) {
  const std::vector<Token> tokens = {4, 5, 6, 7, 8, 9};
  observe(tokens, 1, 3);
  EXPECT_THROW(ring_.row(0), LogicError);
  EXPECT_THROW(ring_.row(4), LogicError);
  EXPECT_THROW(ring_.rows(2, 3), LogicError);
  EXPECT_THROW(ring_.tap(2, 1, 1), LogicError);
  const std::vector<float> values(40);
  const std::vector<Token> other = {1, 2, 3, 4, 5, 6};
  const std::vector<ConstMatrix> one = {{values.data(), 1, kWidth, kWidth}};
  const std::vector<ConstMatrix> wide = {one[0], {values.data(), 1, kWidth + 1, kWidth + 1}};
  const std::vector<ConstMatrix> two = {one[0], one[0]};
  for (const auto& taps : {one, wide}) {
    EXPECT_THROW(ring_.observe({.sequence = other, .first_position = 4, .n_rows = 1, .taps = taps}),
                 LogicError);
  }
  EXPECT_THROW(ring_.observe({.sequence = other, .first_position = 6, .n_rows = 1, .taps = two}),
               LogicError);
  expect_rows(tokens, 1, 4);
}

TEST_F(RingTest, IsTrueAfterAnyHistory) {
  std::vector<Token> tokens = {1, 2, 3, 4};
  std::size_t n_fed = 0;
  for (std::uint64_t step = 0; step < 3000; ++step) {
    const std::uint32_t dice = random(1, step);
    if (dice % 7 == 0) {  // another turn
      tokens.resize(1 + dice / 7 % tokens.size());
      n_fed = std::min(n_fed, tokens.size() - 1);
    } else if (dice % 7 == 1) {  // rows that this source never sees
      n_fed = std::min(tokens.size(), n_fed + dice / 7 % 4);
    }
    for (std::uint32_t i = 0; i < dice / 64 % 5; ++i)
      tokens.push_back(static_cast<Token>(random(2 + i, step) % 4));
    if (tokens.size() > 60) tokens.resize(5);
    n_fed = std::min(n_fed, tokens.size());
    const std::size_t n = std::min<std::size_t>(tokens.size() - n_fed, dice / 512 % 8);
    observe(tokens, n_fed, n);
    n_fed += n;
    expect_rows(tokens, ring_.begin(), ring_.end());
    if (n > 0) {
      EXPECT_EQ(ring_.end(), n_fed);
    }
    ASSERT_FALSE(HasFailure()) << "step " << step;
  }
}

}  // namespace
}  // namespace ft::speculation
