// Norms and the sum of experts against a float64 computation, and the contract that a row is
// computed alone.
#include "kernels/kernels.h"
#include "kernels/test_backend.h"
#include "kernels/test_weights.h"

#include <cmath>

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

class RowsTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(EachIsa, RowsTest, testing::ValuesIn(usable_isas()), isa_test_name);

constexpr std::size_t kWidths[] = {1, 3, 4, 7, 8, 16, 31, 64, 65, 100, 128, 257, 1024, 6144};

MutableMatrix matrix_of(std::vector<float>& values, std::size_t n_rows, std::size_t stride = 0) {
  const std::size_t n_cols = values.size() / n_rows;
  return {values.data(), n_rows, n_cols, stride == 0 ? n_cols : stride};
}

TEST_P(RowsTest, RmsNorm_EqualsFloat64WithinRounding) {
  std::mt19937 rng(1);
  TestBackend test(GetParam(), 2);
  constexpr std::size_t kRows = 3;
  for (const std::size_t n : kWidths) {
    std::vector<float> x = random_floats(kRows * n, rng);
    const std::vector<float> weight = random_floats(n, rng);
    std::vector<float> y(kRows * n);
    test.backend->rms_norm(matrix_of(y, kRows), matrix_of(x, kRows), weight, 1e-5f);
    for (std::size_t row = 0; row < kRows; ++row) {
      double squares = 0;
      for (std::size_t c = 0; c < n; ++c) {
        squares += std::pow(double{x[row * n + c]}, 2);
      }
      const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + double{1e-5f});
      // Half the sum's n roundings, then root, reciprocal and two products.
      const double roundings = static_cast<double>(n) / 2 + 7;
      for (std::size_t c = 0; c < n; ++c) {
        const double exact = x[row * n + c] * factor * weight[c];
        ASSERT_NEAR(y[row * n + c], exact, roundings * kUnitRoundoff * std::fabs(exact))
            << n << " columns, column " << c;
      }
    }
  }
}

TEST_P(RowsTest, LayerNorm_EqualsFloat64WithinRounding) {
  std::mt19937 rng(2);
  TestBackend test(GetParam(), 2);
  constexpr std::size_t kRows = 3;
  for (const std::size_t n : kWidths) {
    std::vector<float> x = random_floats(kRows * n, rng);
    const std::vector<float> weight = random_floats(n, rng);
    const std::vector<float> bias = random_floats(n, rng);
    std::vector<float> y(kRows * n);
    test.backend->layer_norm(matrix_of(y, kRows), matrix_of(x, kRows), weight, bias, 1e-6f);
    const auto count = static_cast<double>(n);
    for (std::size_t row = 0; row < kRows; ++row) {
      const float* values = x.data() + row * n;
      double mean = 0;
      double magnitude = 0;
      for (std::size_t c = 0; c < n; ++c) {
        mean += values[c] / count;
        magnitude += std::fabs(values[c]) / count;
      }
      double variance = 0;
      for (std::size_t c = 0; c < n; ++c) {
        variance += std::pow(values[c] - mean, 2) / count;
      }
      const double mean_error = (count + 2) * kUnitRoundoff * magnitude;
      const double factor = 1 / std::sqrt(variance + double{1e-6f});
      // The mean's error enters the variance squared, each distance rounds once, and the sum n
      // times.
      const double variance_error = std::pow(mean_error, 2) +
                                    (count + 5) * kUnitRoundoff * variance +
                                    2 * kUnitRoundoff * mean_error * std::sqrt(variance);
      const double factor_error = variance_error * std::pow(factor, 2) / 2 + 4 * kUnitRoundoff;
      for (std::size_t c = 0; c < n; ++c) {
        const double scaled = (values[c] - mean) * factor * weight[c];
        const double error = std::fabs(factor * weight[c]) * mean_error +
                             std::fabs(scaled) * (factor_error + 4 * kUnitRoundoff) +
                             kUnitRoundoff * (std::fabs(scaled) + std::fabs(bias[c]));
        ASSERT_NEAR(y[row * n + c], scaled + bias[c], error) << n << " columns, column " << c;
      }
    }
  }
}

TEST_P(RowsTest, Norms_RowIsTheSameInAnyCompanyAndInPlace) {
  std::mt19937 rng(3);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  constexpr std::size_t kRows = 16;
  for (const std::size_t n : {37u, 1000u}) {
    std::vector<float> x = random_floats(kRows * n, rng);
    const std::vector<float> weight = random_floats(n, rng);
    const std::vector<float> bias = random_floats(n, rng);
    std::vector<float> root(kRows * n);
    std::vector<float> layer(kRows * n);
    two.backend->rms_norm(matrix_of(root, kRows), matrix_of(x, kRows), weight, 1e-5f);
    two.backend->layer_norm(matrix_of(layer, kRows), matrix_of(x, kRows), weight, bias, 1e-5f);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * n);
      std::vector<float> y(begin, begin + static_cast<std::ptrdiff_t>(n));
      one.backend->rms_norm(matrix_of(y, 1), matrix_of(y, 1), weight, 1e-5f);
      EXPECT_TRUE(std::equal(y.begin(), y.end(), root.data() + row * n)) << row;
      y.assign(begin, begin + static_cast<std::ptrdiff_t>(n));
      one.backend->layer_norm(matrix_of(y, 1), matrix_of(y, 1), weight, bias, 1e-5f);
      EXPECT_TRUE(std::equal(y.begin(), y.end(), layer.data() + row * n)) << row;
    }
  }
}

struct Experts {
  std::vector<float> out;  // [kSlots, n]
  std::vector<float> weights;
  std::vector<std::uint32_t> slots;
  std::vector<float> shared;
  std::vector<float> x;
};

constexpr std::size_t kSlots = 40;
constexpr std::size_t kRanks = 8;

Experts make_experts(std::size_t n_rows, std::size_t n, std::mt19937& rng) {
  Experts experts = {random_floats(kSlots * n, rng),
                     random_floats(n_rows * kRanks, rng),
                     std::vector<std::uint32_t>(n_rows * kRanks),
                     random_floats(n_rows * n, rng),
                     random_floats(n_rows * n, rng)};
  for (std::uint32_t& slot : experts.slots) {
    slot = static_cast<std::uint32_t>(rng() % kSlots);
  }
  return experts;
}

/// The new x of rows [begin, end).
std::vector<float> combine(
    Backend& backend, Experts& experts, std::size_t begin, std::size_t end, bool has_shared) {
  const std::size_t n = experts.out.size() / kSlots;
  const std::size_t n_rows = end - begin;
  const auto first = experts.x.begin() + static_cast<std::ptrdiff_t>(begin * n);
  std::vector<float> x(first, first + static_cast<std::ptrdiff_t>(n_rows * n));
  const float* shared = experts.shared.data() + begin * n;
  backend.moe_combine({.expert_out = matrix_of(experts.out, kSlots),
                       .slots = std::span(experts.slots).subspan(begin * kRanks, n_rows * kRanks),
                       .weights = {experts.weights.data() + begin * kRanks, n_rows, kRanks, kRanks},
                       .shared = has_shared ? ConstMatrix{shared, n_rows, n, n} : ConstMatrix{},
                       .x = matrix_of(x, n_rows)});
  return x;
}

TEST_P(RowsTest, MoeCombine_EqualsFloat64WithinRounding) {
  std::mt19937 rng(4);
  TestBackend test(GetParam(), 2);
  constexpr std::size_t kRows = 3;
  for (const std::size_t n : kWidths) {
    Experts experts = make_experts(kRows, n, rng);
    for (const bool has_shared : {false, true}) {
      const std::vector<float> x = combine(*test.backend, experts, 0, kRows, has_shared);
      for (std::size_t i = 0; i < kRows * n; ++i) {
        double sum = has_shared ? double{experts.shared[i]} : 0;
        double magnitudes = std::fabs(sum);
        for (std::size_t rank = i / n * kRanks; rank < (i / n + 1) * kRanks; ++rank) {
          const double product =
              double{experts.weights[rank]} * experts.out[experts.slots[rank] * n + i % n];
          sum += product;
          magnitudes += std::fabs(product);
        }
        const double bound = (kRanks + 3) * kUnitRoundoff * (magnitudes + std::fabs(experts.x[i]));
        ASSERT_NEAR(x[i], experts.x[i] + sum, bound) << n << " columns";
      }
    }
  }
}

TEST_P(RowsTest, MoeCombine_RowIsTheSameInAnyCompany) {
  std::mt19937 rng(5);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  constexpr std::size_t kRows = 16;
  constexpr std::size_t kColumns = 203;
  Experts experts = make_experts(kRows, kColumns, rng);
  const std::vector<float> together = combine(*two.backend, experts, 0, kRows, true);
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::vector<float> alone = combine(*one.backend, experts, row, row + 1, true);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.data() + row * kColumns)) << row;
  }
}

}  // namespace
}  // namespace ft::kernels
