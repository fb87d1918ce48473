// The k largest scores against a plain sort.
#include "kernels/kernels.h"
#include "kernels/test_backend.h"
#include "kernels/test_weights.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

class TopKTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(EachIsa, TopKTest, testing::ValuesIn(usable_isas()), isa_test_name);

constexpr std::int32_t kUntouched = -7;

std::vector<std::int32_t> top_k(Backend& backend, const std::vector<float>& scores, std::size_t k) {
  const std::size_t n = scores.size();
  std::vector<std::int32_t> positions(k + 16, kUntouched);
  backend.top_k(
      {.scores = {scores.data(), 1, n, n}, .n = {&n, 1}, .k = k, .positions = positions.data()});
  EXPECT_EQ(
      std::count(positions.begin() + static_cast<std::ptrdiff_t>(k), positions.end(), kUntouched),
      16)
      << "wrote past the end";
  positions.resize(k);
  return positions;
}

std::vector<std::int32_t> sorted_top_k(const std::vector<float>& scores, std::size_t k) {
  std::vector<std::int32_t> positions(scores.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::stable_sort(positions.begin(), positions.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  positions.resize(k);
  std::sort(positions.begin(), positions.end());
  return positions;
}

TEST_P(TopKTest, AgreesWithSort_ForAllSmallRows) {
  TestBackend test(GetParam(), 1);
  constexpr float kValues[] = {-1.0f, -0.0f, 0.0f, 1.0f};
  for (std::size_t n = 1; n <= 5; ++n) {
    for (std::size_t code = 0; code < std::size_t{1} << 2 * n; ++code) {
      std::vector<float> scores(n);
      for (std::size_t i = 0; i < n; ++i) {
        scores[i] = kValues[code >> 2 * i & 3];
      }
      for (std::size_t k = 0; k <= n; ++k) {
        ASSERT_EQ(top_k(*test.backend, scores, k), sorted_top_k(scores, k))
            << "scores " << testing::PrintToString(scores) << " k " << k;
      }
    }
  }
}

struct Row {
  const char* name;
  std::vector<float> scores;
};

/// What an indexer gives and what makes a selection hard.
std::vector<Row> make_rows(std::size_t n, std::mt19937& rng) {
  const std::vector<float> normal_scores = random_floats(n, rng);
  std::vector<Row> rows = {{"normal", normal_scores}};
  std::vector<float> scores = normal_scores;
  for (float& score : scores) {
    score = std::abs(score) < 1.2f ? std::copysign(0.0f, score) : score;
  }
  rows.push_back({"mostly zero", scores});
  for (float& score : scores) {
    score = std::min(score, 0.0f);
  }
  rows.push_back({"none positive", scores});
  for (float& score : scores) {
    score = static_cast<float>(rng() % 5);
  }
  rows.push_back({"few values", scores});
  rows.push_back({"equal", std::vector<float>(n, 0.25f)});
  for (std::size_t i = 0; i < n; ++i) {
    scores[i] = 1.0f + static_cast<float>(rng() % 64) * std::numeric_limits<float>::epsilon();
  }
  rows.push_back({"close", scores});
  for (std::size_t i = 0; i < n; ++i) {
    scores[i] = std::ldexp(normal_scores[i], static_cast<int>(rng() % 200) - 120);
  }
  rows.push_back({"all magnitudes", scores});
  std::sort(scores.begin(), scores.end());
  rows.push_back({"ascending", scores});
  std::reverse(scores.begin(), scores.end());
  rows.push_back({"descending", scores});
  scores[n / 2] = std::numeric_limits<float>::infinity();
  scores[n / 3] = -std::numeric_limits<float>::infinity();
  scores[n / 4] = std::numeric_limits<float>::denorm_min();
  rows.push_back({"infinite", scores});
  return rows;
}

TEST_P(TopKTest, AgreesWithSort_ForRandomRows) {
  std::mt19937 rng(1);
  TestBackend test(GetParam(), 1);
  for (const std::size_t n : {1u, 2u, 15u, 16u, 17u, 63u, 300u, 1000u, 4095u, 4096u, 20000u}) {
    for (const Row& row : make_rows(n, rng)) {
      for (const std::size_t k :
           {std::size_t{1}, n / 3, n / 2, std::min<std::size_t>(n, 2048), n}) {
        ASSERT_EQ(top_k(*test.backend, row.scores, k), sorted_top_k(row.scores, k))
            << row.name << " n " << n << " k " << k;
      }
    }
  }
}

TEST_P(TopKTest, AgreesWithSort_ForAMillionScores) {
  std::mt19937 rng(2);
  TestBackend test(GetParam(), 1);
  std::vector<float> scores(1'000'003);
  for (float& score : scores) {
    score = std::max(static_cast<float>(static_cast<std::int32_t>(rng())), 0.0f);
  }
  EXPECT_EQ(top_k(*test.backend, scores, 2048), sorted_top_k(scores, 2048));
}

TEST_P(TopKTest, RowIsTheSameInAnyCompany) {
  std::mt19937 rng(3);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  constexpr std::size_t kRows = 16;
  constexpr std::size_t kStride = 700;
  constexpr std::size_t kChosen = 100;
  std::vector<float> scores = random_floats(kRows * kStride, rng);
  std::vector<std::size_t> n(kRows);
  for (std::size_t& length : n) {
    length = kChosen + rng() % (kStride - kChosen);
  }
  std::vector<std::int32_t> together(kRows * kChosen);
  two.backend->top_k({.scores = {scores.data(), kRows, kStride, kStride},
                      .n = n,
                      .k = kChosen,
                      .positions = together.data()});
  for (std::size_t row = 0; row < kRows; ++row) {
    const float* begin = scores.data() + row * kStride;
    const std::vector<float> alone(begin, begin + n[row]);
    const std::vector<std::int32_t> positions = top_k(*one.backend, alone, kChosen);
    EXPECT_TRUE(std::equal(positions.begin(), positions.end(), together.data() + row * kChosen));
  }
}

TEST_P(TopKTest, GivesAscendingPositions_WhenScoresAreNan) {
  TestBackend test(GetParam(), 1);
  std::vector<float> scores(100, 1.0f);
  for (std::size_t i = 0; i < scores.size(); i += 3) {
    scores[i] = std::copysign(std::numeric_limits<float>::quiet_NaN(), i % 2 == 0 ? 1.0f : -1.0f);
  }
  for (const std::size_t k : {1u, 20u, 99u, 100u}) {
    const std::vector<std::int32_t> positions = top_k(*test.backend, scores, k);
    EXPECT_TRUE(std::adjacent_find(positions.begin(), positions.end(), std::greater_equal<>()) ==
                positions.end());
    EXPECT_GE(positions.front(), 0);
    EXPECT_LT(positions.back(), 100);
  }
}

}  // namespace
}  // namespace ft::kernels
