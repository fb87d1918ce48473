// Latent attention and indexer scores against a float64 computation, and the contract that a row
// is computed alone.
#include "kernels/kernels.h"
#include "kernels/test_backend.h"
#include "kernels/test_weights.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

class AttentionTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(EachIsa, AttentionTest, testing::ValuesIn(usable_isas()), isa_test_name);

struct Shape {
  std::size_t n_heads;
  std::size_t latent_dim;
  std::size_t rope_dim;

  std::size_t key_dim() const { return latent_dim + rope_dim; }
};

/// The shapes of the two model sizes and ragged ones.
constexpr Shape kShapes[] = {{8, 128, 64},
                             {64, 512, 64},
                             {3, 33, 7},
                             {1, 1, 0},
                             {7, 5, 3},
                             {5, 130, 2},
                             {2, 20, 9},
                             {66, 16, 0}};

/// A cache and the rows that attend it, each with its own set of keys.
struct Problem {
  Shape shape;
  std::size_t n_cached;
  std::vector<float> cache;
  std::vector<std::uint16_t> bf16_cache;  // if not empty, in place of `cache`
  std::vector<float> q;
  std::vector<std::vector<std::int32_t>> positions;  // empty: a prefix of prefixes[row] keys
  std::vector<std::size_t> prefixes;
  float scale;

  std::size_t n_rows() const { return positions.size(); }

  KeySet set(std::size_t row) const {
    const bool is_bf16 = !bf16_cache.empty();
    KeySet set;
    set.keys = is_bf16 ? static_cast<const void*>(bf16_cache.data()) : cache.data();
    set.positions = positions[row].empty() ? nullptr : positions[row].data();
    set.n = positions[row].empty() ? prefixes[row] : positions[row].size();
    set.dtype = is_bf16 ? DType::kBF16 : DType::kF32;
    return set;
  }
};

/// Even rows attend prefixes, odd rows a random part of the cache.
Problem make_problem(Shape shape, std::size_t n_rows, std::size_t n_cached, std::mt19937& rng) {
  Problem problem = {};
  problem.shape = shape;
  problem.n_cached = n_cached;
  problem.cache = random_floats(n_cached * shape.key_dim(), rng);
  problem.q = random_floats(n_rows * shape.n_heads * shape.key_dim(), rng);
  problem.scale = 1.5f / std::sqrt(static_cast<float>(shape.key_dim()));
  problem.positions.resize(n_rows);
  problem.prefixes.resize(n_rows);
  for (std::size_t row = 0; row < n_rows; ++row) {
    problem.prefixes[row] = row == 0 ? n_cached : 1 + rng() % n_cached;
    for (std::size_t s = 0; row % 2 == 1 && s < n_cached; ++s) {
      if (rng() % 3 != 0) {
        problem.positions[row].push_back(static_cast<std::int32_t>(s));
      }
    }
  }
  return problem;
}

/// Attends rows [begin, end) in one call. The rows of z stand apart; what is between must survive.
std::vector<float> attend(Backend& backend,
                          const Problem& problem,
                          std::size_t begin,
                          std::size_t end) {
  const Shape& shape = problem.shape;
  const std::size_t n_q = shape.n_heads * shape.key_dim();
  const std::size_t n_z = shape.n_heads * shape.latent_dim;
  const std::size_t stride = n_z + 3;
  std::vector<KeySet> sets;
  for (std::size_t row = begin; row < end; ++row) {
    sets.push_back(problem.set(row));
  }
  std::vector<float> spaced((end - begin) * stride, -1.0f);
  backend.attend({.q = {problem.q.data() + begin * n_q, end - begin, n_q, n_q},
                  .sets = sets,
                  .n_heads = shape.n_heads,
                  .key_dim = shape.key_dim(),
                  .latent_dim = shape.latent_dim,
                  .scale = problem.scale,
                  .z = {spaced.data(), end - begin, n_z, stride}});
  std::vector<float> z;
  for (std::size_t row = 0; row < end - begin; ++row) {
    const float* from = spaced.data() + row * stride;
    z.insert(z.end(), from, from + n_z);
    EXPECT_TRUE(std::all_of(from + n_z, from + stride, [](float v) { return v == -1.0f; }));
  }
  return z;
}

/// One head in float64, with the bound of an f32 result in any order of summation.
struct ExactHead {
  std::vector<double> z;
  std::vector<double> bound;
};

ExactHead attend_exactly(const Problem& problem, std::size_t row, std::size_t head) {
  const std::size_t dim = problem.shape.key_dim();
  const std::size_t latent = problem.shape.latent_dim;
  const KeySet set = problem.set(row);
  const float* q = problem.q.data() + (row * problem.shape.n_heads + head) * dim;
  std::vector<double> scores(set.n);
  double score_error = 0;
  for (std::size_t j = 0; j < set.n; ++j) {
    const auto position = set.positions == nullptr ? j : static_cast<std::size_t>(set.positions[j]);
    const float* key = problem.cache.data() + position * dim;
    double magnitudes = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      scores[j] += double{q[c]} * key[c];
      magnitudes += std::fabs(double{q[c]} * key[c]);
    }
    scores[j] *= problem.scale;
    // Products and sums round dim times at most; scaling and subtracting the maximum once each.
    const double roundings = static_cast<double>(dim) + 4;
    score_error =
        std::max(score_error, roundings * kUnitRoundoff * std::fabs(problem.scale) * magnitudes);
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  ExactHead exact = {std::vector<double>(latent), std::vector<double>(latent)};
  for (std::size_t j = 0; j < set.n; ++j) {
    const auto position = set.positions == nullptr ? j : static_cast<std::size_t>(set.positions[j]);
    const double weight = std::exp(scores[j] - most);
    sum += weight;
    for (std::size_t c = 0; c < latent; ++c) {
      const double product = weight * problem.cache[position * dim + c];
      exact.z[c] += product;
      exact.bound[c] += std::fabs(product);
    }
  }
  // Numerator and denominator each: the scores' errors, 2 ulp of exp, n additions, and for each
  // chunk an exp and three roundings when it is merged.
  const double n = static_cast<double>(set.n);
  const double n_chunks = std::ceil(n / kKeyChunk);
  const double roundings = 2 * (4 + n + 7 * n_chunks) + 4;
  const double relative = std::expm1(4 * score_error) + roundings * kUnitRoundoff;
  for (std::size_t c = 0; c < latent; ++c) {
    exact.z[c] /= sum;
    exact.bound[c] *= relative / sum;
  }
  return exact;
}

void expect_exact(const Problem& problem, const std::vector<float>& z) {
  const std::size_t latent = problem.shape.latent_dim;
  for (std::size_t row = 0; row < problem.n_rows(); ++row) {
    for (std::size_t head = 0; head < problem.shape.n_heads; ++head) {
      const ExactHead exact = attend_exactly(problem, row, head);
      const float* actual = z.data() + (row * problem.shape.n_heads + head) * latent;
      for (std::size_t c = 0; c < latent; ++c) {
        ASSERT_NEAR(actual[c], exact.z[c], exact.bound[c])
            << problem.shape.n_heads << " heads of " << latent << "+" << problem.shape.rope_dim
            << ", row " << row << " head " << head << " column " << c;
      }
    }
  }
}

/// The bf16 values next to those of `floats`, and the same values as floats.
struct Rounded {
  std::vector<std::uint16_t> stored;
  std::vector<float> floats;
};

Rounded rounded(const std::vector<float>& floats) {
  Rounded out;
  for (const float value : floats) {
    out.stored.push_back(float_to_bf16(value));
    out.floats.push_back(bf16_to_float(out.stored.back()));
  }
  return out;
}

TEST_P(AttentionTest, Attend_EqualsFloat64WithinRounding) {
  std::mt19937 rng(1);
  TestBackend test(GetParam(), 2);
  for (const Shape& shape : kShapes) {
    for (const std::size_t n_cached : {1u, 2u, 17u, 255u, 256u, 257u, 600u}) {
      const std::size_t n_rows = shape.n_heads == 64 ? 1 : 4;
      const Problem problem = make_problem(shape, n_rows, n_cached, rng);
      expect_exact(problem, attend(*test.backend, problem, 0, n_rows));
    }
  }
}

TEST_P(AttentionTest, Attend_RowIsTheSameInAnyCompany) {
  std::mt19937 rng(2);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  TestBackend five(GetParam(), 5);
  constexpr std::size_t kMostRows = 16;
  for (const Shape& shape : {Shape{8, 128, 64}, Shape{3, 33, 7}, Shape{7, 20, 9}}) {
    const Problem problem = make_problem(shape, kMostRows, 300, rng);
    const std::size_t n_z = shape.n_heads * shape.latent_dim;
    std::vector<float> alone;
    for (std::size_t row = 0; row < kMostRows; ++row) {
      const std::vector<float> z = attend(*one.backend, problem, row, row + 1);
      EXPECT_EQ(attend(*two.backend, problem, row, row + 1), z);
      EXPECT_EQ(attend(*five.backend, problem, row, row + 1), z);
      alone.insert(alone.end(), z.begin(), z.end());
    }
    for (std::size_t n_rows = 2; n_rows <= kMostRows; ++n_rows) {
      const std::vector<float> expected(alone.begin(),
                                        alone.begin() + static_cast<std::ptrdiff_t>(n_rows * n_z));
      EXPECT_EQ(attend(*one.backend, problem, 0, n_rows), expected) << n_rows << " rows";
      EXPECT_EQ(attend(*two.backend, problem, 0, n_rows), expected) << n_rows << " rows";
    }
  }
}

/// Rows that share a bf16 cache read a widened copy of it if they are enough; a row alone does not.
TEST_P(AttentionTest, Attend_RowOfBf16IsTheSameInAnyCompany) {
  std::mt19937 rng(13);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  constexpr std::size_t kMostRows = 9;
  // The last one is too long for a copy.
  for (const auto& [shape, n_cached] : {std::pair{Shape{8, 128, 64}, 300u},
                                        std::pair{Shape{3, 33, 7}, 41u},
                                        std::pair{Shape{2, 128, 64}, 700u}}) {
    Problem problem = make_problem(shape, kMostRows, n_cached, rng);
    problem.bf16_cache = rounded(problem.cache).stored;
    std::vector<float> alone;
    for (std::size_t row = 0; row < kMostRows; ++row) {
      const std::vector<float> z = attend(*one.backend, problem, row, row + 1);
      alone.insert(alone.end(), z.begin(), z.end());
      EXPECT_TRUE(std::equal(
          alone.begin(), alone.end(), attend(*one.backend, problem, 0, row + 1).begin()));
      EXPECT_TRUE(std::equal(
          alone.begin(), alone.end(), attend(*two.backend, problem, 0, row + 1).begin()));
    }
  }
}

TEST_P(AttentionTest, Attend_PrefixEqualsItsList) {
  std::mt19937 rng(3);
  TestBackend test(GetParam(), 1);
  for (const std::size_t n_cached : {1u, 3u, 16u, 250u, 256u, 515u}) {
    Problem problem = make_problem({6, 40, 8}, 1, n_cached, rng);
    const std::vector<float> by_prefix = attend(*test.backend, problem, 0, 1);
    problem.positions[0].resize(n_cached);
    std::iota(problem.positions[0].begin(), problem.positions[0].end(), 0);
    EXPECT_EQ(attend(*test.backend, problem, 0, 1), by_prefix) << n_cached << " keys";
  }
}

TEST_P(AttentionTest, Attend_OneHeadsResultIsTheSameAmongOthers) {
  std::mt19937 rng(4);
  TestBackend test(GetParam(), 1);
  const Shape shape = {11, 50, 6};
  const Problem problem = make_problem(shape, 1, 300, rng);
  const std::vector<float> together = attend(*test.backend, problem, 0, 1);
  for (std::size_t head = 0; head < shape.n_heads; ++head) {
    Problem single = problem;
    single.shape.n_heads = 1;
    single.q.assign(problem.q.begin() + static_cast<std::ptrdiff_t>(head * shape.key_dim()),
                    problem.q.begin() + static_cast<std::ptrdiff_t>((head + 1) * shape.key_dim()));
    const std::vector<float> z = attend(*test.backend, single, 0, 1);
    EXPECT_TRUE(std::equal(z.begin(), z.end(), together.data() + head * shape.latent_dim))
        << "head " << head;
  }
}

/// Scores far apart: the largest key takes all the weight, whichever chunk holds it.
TEST_P(AttentionTest, Attend_ChoosesOneKey_WhenScoresAreFarApart) {
  std::mt19937 rng(5);
  TestBackend test(GetParam(), 1);
  for (const std::size_t best : {0u, 255u, 256u, 511u, 599u}) {
    Problem problem = make_problem({2, 16, 0}, 1, 600, rng);
    for (float& value : problem.cache) {
      value = std::clamp(value, -1.0f, 1.0f);
    }
    std::fill(problem.q.begin(), problem.q.end(), 1.0f);
    std::fill_n(problem.cache.begin() + static_cast<std::ptrdiff_t>(best * 16), 16, 1e4f);
    const std::vector<float> z = attend(*test.backend, problem, 0, 1);
    EXPECT_EQ(z, std::vector<float>(32, 1e4f)) << "key " << best;
  }
}

TEST_P(AttentionTest, Attend_PassesNanOn) {
  std::mt19937 rng(6);
  TestBackend test(GetParam(), 1);
  Problem problem = make_problem({4, 32, 0}, 2, 40, rng);
  problem.q[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> z = attend(*test.backend, problem, 0, 2);
  for (std::size_t i = 0; i < z.size(); ++i) {
    EXPECT_EQ(std::isnan(z[i]), i < 32) << i;
  }
}

/// A bf16 cache stands for the f32 cache of its values: the same result, bit for bit.
TEST_P(AttentionTest, Attend_Bf16CacheEqualsF32CacheOfItsValues) {
  std::mt19937 rng(10);
  TestBackend test(GetParam(), 2);
  for (const Shape& shape : kShapes) {
    for (const std::size_t n_cached : {1u, 15u, 64u, 100u, 257u, 600u}) {
      Problem problem = make_problem(shape, 3, n_cached, rng);
      const Rounded cache = rounded(problem.cache);
      problem.cache = cache.floats;
      const std::vector<float> by_f32 = attend(*test.backend, problem, 0, 3);
      problem.bf16_cache = cache.stored;
      EXPECT_EQ(attend(*test.backend, problem, 0, 3), by_f32)
          << shape.n_heads << " heads of " << shape.key_dim() << ", " << n_cached << " keys";
    }
  }
}

TEST_P(AttentionTest, Attend_LongestRowsFitTheScratchMemory) {
  std::mt19937 rng(11);
  TestBackend test(GetParam(), 1);
  Problem problem = make_problem({20, kMaxKeyDim - 64, 64}, 1, 20, rng);
  const Rounded cache = rounded(problem.cache);
  problem.cache = cache.floats;
  const std::vector<float> by_f32 = attend(*test.backend, problem, 0, 1);
  problem.bf16_cache = cache.stored;
  EXPECT_EQ(attend(*test.backend, problem, 0, 1), by_f32);
}

struct IndexProblem {
  std::size_t n_heads;
  std::size_t head_dim;
  std::vector<float> keys;
  std::vector<float> q;
  std::vector<float> gate;
  std::vector<std::size_t> n_keys;
  float scale;
  std::vector<std::uint16_t> bf16_keys = {};  // if not empty, in place of `keys`
};

IndexProblem make_index_problem(std::size_t n_heads,
                                std::size_t head_dim,
                                std::size_t n_rows,
                                std::size_t n_cached,
                                std::mt19937& rng) {
  IndexProblem problem = {n_heads,
                          head_dim,
                          random_floats(n_cached * head_dim, rng),
                          random_floats(n_rows * n_heads * head_dim, rng),
                          random_floats(n_rows * n_heads, rng),
                          {},
                          1.0f / std::sqrt(static_cast<float>(head_dim))};
  for (std::size_t row = 0; row < n_rows; ++row) {
    problem.n_keys.push_back(row == 0 ? n_cached : 1 + rng() % n_cached);
  }
  return problem;
}

constexpr float kUntouched = -123.0f;

/// Rows of scores [row_begin, row_end), kUntouched behind each row's keys.
std::vector<float> index_scores(Backend& backend,
                                const IndexProblem& problem,
                                std::size_t begin,
                                std::size_t end) {
  const std::size_t n_q = problem.n_heads * problem.head_dim;
  const std::size_t n_scores = problem.n_keys[0];
  std::vector<KeySet> sets;
  for (std::size_t row = begin; row < end; ++row) {
    if (problem.bf16_keys.empty()) {
      sets.push_back({problem.keys.data(), nullptr, problem.n_keys[row]});
    } else {
      sets.push_back({problem.bf16_keys.data(), nullptr, problem.n_keys[row], DType::kBF16});
    }
  }
  std::vector<float> scores((end - begin) * n_scores, kUntouched);
  const float* gate = problem.gate.data() + begin * problem.n_heads;
  backend.index_scores({.q = {problem.q.data() + begin * n_q, end - begin, n_q, n_q},
                        .gate = {gate, end - begin, problem.n_heads, problem.n_heads},
                        .sets = sets,
                        .n_heads = problem.n_heads,
                        .head_dim = problem.head_dim,
                        .scale = problem.scale,
                        .scores = {scores.data(), end - begin, n_scores, n_scores}});
  return scores;
}

TEST_P(AttentionTest, IndexScores_EqualFloat64WithinRounding) {
  std::mt19937 rng(7);
  TestBackend test(GetParam(), 2);
  constexpr std::size_t kRows = 3;
  constexpr std::size_t kShapeList[][3] = {
      {8, 128, 200}, {32, 128, 70}, {3, 40, 33}, {1, 1, 1}, {7, 19, 17}, {300, 4, 20}};
  for (const auto& [n_heads, head_dim, n_cached] : kShapeList) {
    const IndexProblem problem = make_index_problem(n_heads, head_dim, kRows, n_cached, rng);
    const std::vector<float> scores = index_scores(*test.backend, problem, 0, kRows);
    for (std::size_t i = 0; i < kRows * n_cached; ++i) {
      const std::size_t row = i / n_cached;
      if (i % n_cached >= problem.n_keys[row]) {
        ASSERT_EQ(scores[i], kUntouched);
        continue;
      }
      const float* key = problem.keys.data() + i % n_cached * head_dim;
      double sum = 0;
      double bound = 0;
      for (std::size_t head = 0; head < n_heads; ++head) {
        const float* q = problem.q.data() + (row * n_heads + head) * head_dim;
        double dot = 0;
        double magnitudes = 0;
        for (std::size_t c = 0; c < head_dim; ++c) {
          dot += double{q[c]} * key[c];
          magnitudes += std::fabs(double{q[c]} * key[c]);
        }
        const double gate = problem.gate[row * n_heads + head];
        sum += gate * std::max(problem.scale * dot, 0.0);
        // Roundings of the dot and the scale, the gate's product, the sum over heads.
        bound += static_cast<double>(head_dim + n_heads + 3) * kUnitRoundoff * std::fabs(gate) *
                 problem.scale * magnitudes;
      }
      ASSERT_NEAR(scores[i], sum, bound) << "row " << row << " key " << i % n_cached;
    }
  }
}

TEST_P(AttentionTest, IndexScores_RowIsTheSameInAnyCompany) {
  std::mt19937 rng(8);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  constexpr std::size_t kMostRows = 20;
  IndexProblem problem = make_index_problem(7, 72, kMostRows, 333, rng);
  problem.bf16_keys = rounded(problem.keys).stored;
  std::vector<float> alone;
  for (std::size_t row = 0; row < kMostRows; ++row) {
    const std::vector<float> scores = index_scores(*one.backend, problem, row, row + 1);
    EXPECT_EQ(index_scores(*two.backend, problem, row, row + 1), scores);
    alone.insert(alone.end(), scores.begin(), scores.end());
  }
  for (std::size_t n_rows = 2; n_rows <= kMostRows; ++n_rows) {
    const std::vector<float> expected(alone.begin(),
                                      alone.begin() + static_cast<std::ptrdiff_t>(n_rows * 333));
    EXPECT_EQ(index_scores(*one.backend, problem, 0, n_rows), expected) << n_rows << " rows";
    EXPECT_EQ(index_scores(*two.backend, problem, 0, n_rows), expected) << n_rows << " rows";
  }
}

/// A key's score depends on the key alone: what a growing cache adds changes nothing.
TEST_P(AttentionTest, IndexScores_KeyIsTheSameInAnyCompany) {
  std::mt19937 rng(9);
  TestBackend test(GetParam(), 1);
  IndexProblem problem = make_index_problem(5, 36, 1, 150, rng);
  const std::vector<float> all = index_scores(*test.backend, problem, 0, 1);
  for (std::size_t n = 1; n < 150; ++n) {
    problem.n_keys[0] = n;
    const std::vector<float> scores = index_scores(*test.backend, problem, 0, 1);
    ASSERT_TRUE(std::equal(scores.begin(), scores.end(), all.begin())) << n << " keys";
  }
}

TEST_P(AttentionTest, IndexScores_Bf16KeysEqualF32KeysOfTheirValues) {
  std::mt19937 rng(12);
  TestBackend test(GetParam(), 2);
  constexpr std::size_t kShapeList[][3] = {{8, 128, 200}, {3, 40, 33}, {1, 1, 1}, {300, 7, 20}};
  for (const auto& [n_heads, head_dim, n_cached] : kShapeList) {
    IndexProblem problem = make_index_problem(n_heads, head_dim, 3, n_cached, rng);
    const Rounded keys = rounded(problem.keys);
    problem.keys = keys.floats;
    const std::vector<float> by_f32 = index_scores(*test.backend, problem, 0, 3);
    problem.bf16_keys = keys.stored;
    EXPECT_EQ(index_scores(*test.backend, problem, 0, 3), by_f32) << n_heads << " x " << head_dim;
  }
}

}  // namespace
}  // namespace ft::kernels
