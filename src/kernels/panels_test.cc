// Products of integer weights against float64, against ref, and the contract that a row is computed
// alone.
#include "kernels/kernels.h"
#include "kernels/test_backend.h"
#include "kernels/test_weights.h"
#include "tensor/formats/quantized_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

class PanelsTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(EachIsa, PanelsTest, testing::ValuesIn(usable_isas()), isa_test_name);

struct Case {
  QuantFormat format = QuantFormat::kQ8;
  DType scale_dtype = DType::kBF16;
  Activation activation = Activation::kInt8;
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;
};

std::string describe(const Case& c) {
  return std::string(quant_format_name(c.format)) + " scales " +
         std::string(dtype_name(c.scale_dtype)) +
         (c.activation == Activation::kInt8 ? " int8 [" : " float [") + std::to_string(c.n_rows) +
         ", " + std::to_string(c.n_cols) + "]";
}

std::vector<Case> all_cases() {
  const std::size_t sizes[][2] = {{1, 1}, {16, 64}, {33, 7}, {7, 65}, {70, 131}, {48, 320}};
  std::vector<Case> cases;
  for (const QuantFormat format : {QuantFormat::kQ8, QuantFormat::kQ4}) {
    for (const DType scale_dtype : {DType::kBF16, DType::kF32}) {
      for (const Activation activation : {Activation::kInt8, Activation::kFloat}) {
        for (const auto& size : sizes) {
          cases.push_back({format, scale_dtype, activation, size[0], size[1]});
        }
      }
    }
  }
  return cases;
}

/// Owns a matrix of random codes, every value of the format, and scales of either sign.
struct TestPanels {
  Buffer codes;
  Buffer scales;
  QuantMatrix matrix;

  TestPanels(const Case& c, std::mt19937& rng) {
    matrix.format = c.format;
    matrix.scale_dtype = c.scale_dtype;
    matrix.n_rows = c.n_rows;
    matrix.n_cols = c.n_cols;
    codes = Buffer(matrix.code_bytes());
    scales = Buffer(matrix.scale_bytes());
    matrix.codes = codes.data();
    matrix.scales = scales.data();
    const std::size_t width = element_bytes(c.scale_dtype);
    for (std::size_t block = 0; block < matrix.n_panels() * matrix.n_blocks(); ++block) {
      std::int8_t values[kPanelRows][kQuantGroup] = {};
      for (std::size_t r = 0; r < kPanelRows; ++r) {
        if (block / matrix.n_blocks() * kPanelRows + r >= c.n_rows) {
          continue;
        }
        const std::size_t first = block % matrix.n_blocks() * kQuantGroup;
        for (std::size_t k = 0; k < std::min(kQuantGroup, c.n_cols - first); ++k) {
          const auto byte = static_cast<std::uint8_t>(rng());
          values[r][k] =
              static_cast<std::int8_t>(c.format == QuantFormat::kQ8 ? byte - 128 : byte % 16 - 8);
        }
        store_element(
            c.scale_dtype, normal(rng) * 0.01f, scales.data() + (block * kPanelRows + r) * width);
      }
      store_block(c.format, values, codes.data() + block * block_code_bytes(c.format));
    }
  }
};

std::vector<float> multiply(Backend& backend,
                            const Weight& weight,
                            ConstMatrix x,
                            const std::uint32_t* x_rows,
                            std::size_t n_rows) {
  const std::size_t stride = weight.n_out + 3;
  std::vector<float> y(n_rows * stride, -1.0f);
  const MatmulOp op = {
      .y = {y.data(), n_rows, weight.n_out, stride}, .x = x, .weight = &weight, .x_rows = x_rows};
  backend.matmul({&op, 1});
  std::vector<float> dense(n_rows * weight.n_out);
  for (std::size_t m = 0; m < n_rows; ++m) {
    std::copy_n(y.data() + m * stride, weight.n_out, dense.data() + m * weight.n_out);
    for (std::size_t i = weight.n_out; i < stride; ++i) {
      EXPECT_EQ(y[m * stride + i], -1.0f) << "wrote past the row's end";
    }
  }
  return dense;
}

TEST_P(PanelsTest, Matmul_EqualsFloat64WithinItsRounding) {
  std::mt19937 rng(1);
  TestBackend test(GetParam(), 1);
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const TestPanels w(c, rng);
    const Weight weight = test.backend->view(w.matrix, c.activation);
    EXPECT_EQ(weight.n_out, c.n_rows);
    EXPECT_EQ(weight.n_in, c.n_cols);
    constexpr std::size_t kRows = 11;
    const std::size_t stride = c.n_cols + 2;
    const std::vector<float> x = random_floats(kRows * stride, rng);
    const std::vector<float> y =
        multiply(*test.backend, weight, {x.data(), kRows, c.n_cols, stride}, nullptr, kRows);
    for (std::size_t m = 0; m < kRows; ++m) {
      const float* row = x.data() + m * stride;
      std::vector<float> largest(c.n_cols / 64 + 1);
      for (std::size_t k = 0; k < c.n_cols; ++k) {
        largest[k / 64] = std::max(largest[k / 64], std::fabs(row[k]));
      }
      for (std::size_t o = 0; o < c.n_rows; ++o) {
        double sum = 0;
        double magnitudes = 0;
        double input_rounding = 0;
        for (std::size_t k = 0; k < c.n_cols; ++k) {
          const double value =
              static_cast<double>(w.matrix.code(o, k)) * double{w.matrix.scale(o, k)};
          sum += value * double{row[k]};
          magnitudes += std::fabs(value * double{row[k]});
          if (c.activation == Activation::kInt8) {
            // Half a step, and the rounding of inverse and product.
            input_rounding += std::fabs(value) * double{largest[k / 64]} / 127 * 0.50002;
          }
        }
        const double bound =
            (static_cast<double>(c.n_cols) + 8) * kUnitRoundoff * (magnitudes + input_rounding) +
            input_rounding;
        ASSERT_NEAR(y[m * c.n_rows + o], sum, bound) << "row " << m << " output " << o;
      }
    }
  }
}

TEST_P(PanelsTest, Matmul_EqualsReferenceBitForBit) {
  std::mt19937 rng(2);
  TestBackend test(GetParam(), 2);
  TestBackend judge(Isa::kRef, 1);
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const TestPanels w(c, rng);
    for (const std::size_t n : {std::size_t{2}, std::size_t{31}}) {
      const std::vector<float> x = random_floats(n * c.n_cols, rng);
      const ConstMatrix view = {x.data(), n, c.n_cols, c.n_cols};
      ASSERT_EQ(
          multiply(*test.backend, test.backend->view(w.matrix, c.activation), view, nullptr, n),
          multiply(*judge.backend, judge.backend->view(w.matrix, c.activation), view, nullptr, n));
    }
  }
}

TEST_P(PanelsTest, Matmul_RowIsTheSameInAnyCompany) {
  std::mt19937 rng(3);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  constexpr std::size_t kMost = 67;
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const TestPanels w(c, rng);
    const Weight weight = one.backend->view(w.matrix, c.activation);
    const std::size_t stride = c.n_cols + 1;
    const std::vector<float> x = random_floats(kMost * stride, rng);
    const ConstMatrix view = {x.data(), kMost, c.n_cols, stride};
    std::vector<float> alone;
    for (std::uint32_t m = 0; m < kMost; ++m) {
      const std::vector<float> row = multiply(*one.backend, weight, view, &m, 1);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    std::vector<std::size_t> counts = {25, 31, 48, 64, 67};
    for (std::size_t n = 1; n <= 16; ++n) {
      counts.push_back(n);
    }
    for (const std::size_t n : counts) {
      const std::vector<float> expected(alone.begin(),
                                        alone.begin() + static_cast<std::ptrdiff_t>(n * c.n_rows));
      ASSERT_EQ(multiply(*one.backend, weight, view, nullptr, n), expected) << n << " rows";
      ASSERT_EQ(multiply(*two.backend, weight, view, nullptr, n), expected)
          << n << " rows, 2 threads";
    }
  }
}

TEST_P(PanelsTest, Matmul_CrossesChunksOfColumns) {
  std::mt19937 rng(4);
  TestBackend test(GetParam(), 2);
  TestBackend judge(Isa::kRef, 1);
  for (const QuantFormat format : {QuantFormat::kQ8, QuantFormat::kQ4}) {
    const Case c = {.format = format, .n_rows = 70, .n_cols = 4096 + 100};
    const TestPanels w(c, rng);
    const std::vector<float> x = random_floats(13 * c.n_cols, rng);
    const ConstMatrix view = {x.data(), 13, c.n_cols, c.n_cols};
    ASSERT_EQ(
        multiply(*test.backend, test.backend->view(w.matrix, Activation::kInt8), view, nullptr, 13),
        multiply(
            *judge.backend, judge.backend->view(w.matrix, Activation::kInt8), view, nullptr, 13));
  }
}

TEST_P(PanelsTest, Matmul_DoesNotSaturate_WhenAllCodesAreExtreme) {
  TestBackend test(GetParam(), 1);
  for (const QuantFormat format : {QuantFormat::kQ8, QuantFormat::kQ4}) {
    for (const bool is_negative : {false, true}) {
      std::int8_t codes[kPanelRows][kQuantGroup];
      const int extreme =
          format == QuantFormat::kQ8 ? (is_negative ? -128 : 127) : (is_negative ? -8 : 7);
      for (auto& row : codes) {
        std::fill(std::begin(row), std::end(row), static_cast<std::int8_t>(extreme));
      }
      Buffer bytes(block_code_bytes(format));
      store_block(format, codes, bytes.data());
      const std::vector<float> ones(kPanelRows, 1.0f);
      QuantMatrix matrix;
      matrix.format = format;
      matrix.scale_dtype = DType::kF32;
      matrix.codes = bytes.data();
      matrix.scales = reinterpret_cast<const std::byte*>(ones.data());
      matrix.n_rows = kPanelRows;
      matrix.n_cols = kQuantGroup;
      const Weight weight = test.backend->view(matrix, Activation::kInt8);
      for (const float value : {127.0f, -127.0f}) {
        const std::vector<float> x(10 * kQuantGroup, value);
        for (const std::size_t n : {std::size_t{1}, std::size_t{10}}) {
          const std::vector<float> y =
              multiply(*test.backend, weight, {x.data(), n, 64, 64}, nullptr, n);
          for (const float sum : y) {
            ASSERT_EQ(sum, 64 * value * static_cast<float>(extreme));
          }
        }
      }
    }
  }
}

TEST_P(PanelsTest, Matmul_KeepsSpecialInputsInTheirRow) {
  std::mt19937 rng(5);
  TestBackend test(GetParam(), 2);
  const Case c = {.n_rows = 40, .n_cols = 200};
  const TestPanels w(c, rng);
  const Weight weight = test.backend->view(w.matrix, Activation::kInt8);
  std::vector<float> x = random_floats(6 * 200, rng);
  const ConstMatrix view = {x.data(), 6, 200, 200};
  const std::vector<float> before = multiply(*test.backend, weight, view, nullptr, 6);
  x[1 * 200 + 70] = std::numeric_limits<float>::quiet_NaN();
  x[2 * 200 + 199] = -std::numeric_limits<float>::infinity();
  std::fill_n(x.data() + 3 * 200, 200, 1e-42f);
  std::fill_n(x.data() + 4 * 200, 200, 0.0f);
  const std::vector<float> y = multiply(*test.backend, weight, view, nullptr, 6);
  for (std::size_t o = 0; o < 40; ++o) {
    EXPECT_EQ(y[o], before[o]);
    EXPECT_TRUE(std::isnan(y[40 + o]));
    EXPECT_TRUE(std::isnan(y[80 + o]));
    EXPECT_EQ(y[120 + o], 0.0f);
    EXPECT_EQ(y[160 + o], 0.0f);
    EXPECT_EQ(y[200 + o], before[200 + o]);
  }
}

TEST_P(PanelsTest, Matmul_GathersSharesAndAdds) {
  std::mt19937 rng(6);
  TestBackend test(GetParam(), 2);
  const Case c = {.format = QuantFormat::kQ4, .n_rows = 75, .n_cols = 130};
  const TestPanels first(c, rng);
  const TestPanels second(c, rng);
  const Weight weights[] = {test.backend->view(first.matrix, Activation::kInt8),
                            test.backend->view(second.matrix, Activation::kInt8),
                            test.backend->view(second.matrix, Activation::kFloat)};
  const std::vector<float> x = random_floats(9 * 130, rng);
  const ConstMatrix view = {x.data(), 9, 130, 130};
  const std::vector<std::uint32_t> lists[] = {
      {8, 0, 3, 3, 7, 1, 8, 2, 5, 4, 6, 0, 1}, {4}, {2, 2, 7}, {}};
  // Alone a short list is gathered before it is rounded; together they share the rounded rows.
  for (const bool is_together : {false, true}) {
    std::vector<std::vector<float>> base;
    std::vector<std::vector<float>> y;
    std::vector<MatmulOp> ops;
    std::vector<std::vector<float>> plain;
    for (const Weight& weight : weights) {
      plain.push_back(multiply(*test.backend, weight, view, nullptr, 9));
      for (const auto& rows : lists) {
        base.push_back(random_floats(rows.size() * 75, rng));
      }
    }
    y = base;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto& rows = lists[i % 4];
      ops.push_back({.y = {y[i].data(), rows.size(), 75, 75},
                     .x = view,
                     .weight = &weights[i / 4],
                     .x_rows = rows.data(),
                     .store = MatmulOp::Store::kAdd});
    }
    if (is_together) {
      test.backend->matmul(ops);
    } else {
      for (const MatmulOp& op : ops) {
        test.backend->matmul({&op, 1});
      }
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto& rows = lists[i % 4];
      for (std::size_t m = 0; m < rows.size(); ++m) {
        for (std::size_t o = 0; o < 75; ++o) {
          ASSERT_EQ(y[i][m * 75 + o], base[i][m * 75 + o] + plain[i / 4][rows[m] * 75 + o]);
        }
      }
    }
  }
}

TEST(Panels, Matmul_RunsInParts_WhenInputsAreManyMebibytes) {
  std::mt19937 rng(7);
  TestBackend test(usable_isas()[0], 2);
  const Case c = {.n_rows = 16, .n_cols = 8};
  const TestPanels w(c, rng);
  const Weight weight = test.backend->view(w.matrix, Activation::kInt8);
  constexpr std::size_t kRows = 300000;  // of 128 bytes each
  const std::vector<float> x = random_floats(kRows, rng);
  const ConstMatrix view = {x.data(), kRows - 7, 8, 1};
  std::vector<std::uint32_t> reversed(kRows - 7);
  for (std::size_t i = 0; i < reversed.size(); ++i) {
    reversed[i] = static_cast<std::uint32_t>(reversed.size() - 1 - i);
  }
  const std::vector<float> y = multiply(*test.backend, weight, view, nullptr, view.n_rows);
  const std::vector<float> gathered =
      multiply(*test.backend, weight, view, reversed.data(), view.n_rows);
  for (std::uint32_t m = 0; m < view.n_rows; m += m % 9973 + 1) {
    const std::vector<float> alone = multiply(*test.backend, weight, view, &m, 1);
    for (std::size_t o = 0; o < 16; ++o) {
      ASSERT_EQ(y[m * 16 + o], alone[o]) << m;
      ASSERT_EQ(gathered[(view.n_rows - 1 - m) * 16 + o], alone[o]) << m;
    }
  }
}

std::vector<float> run_swiglu(Backend& backend,
                              const Weight& weight,
                              ConstMatrix x,
                              const std::uint32_t* x_rows,
                              std::size_t n_rows,
                              std::size_t width) {
  std::vector<float> y(n_rows * width);
  const SwigluOp op = {
      .y = {y.data(), n_rows, width, width}, .x = x, .weight = &weight, .x_rows = x_rows};
  backend.swiglu({&op, 1});
  return y;
}

TEST_P(PanelsTest, Swiglu_JoinsTheProductsOfGateAndUp) {
  std::mt19937 rng(8);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  constexpr std::size_t kMost = 40;
  for (Case c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const TestPanels gate(c, rng);
    const TestPanels up(c, rng);
    Buffer codes(2 * gate.codes.size());
    Buffer scales(2 * gate.scales.size());
    const QuantMatrix pair =
        interleave_gate_up(gate.matrix, up.matrix, codes.data(), scales.data());
    const Weight weight = one.backend->view(pair, c.activation);
    const std::vector<float> x = random_floats(kMost * c.n_cols, rng);
    const ConstMatrix view = {x.data(), kMost, c.n_cols, c.n_cols};
    const auto product = [&](const TestPanels& part) {
      return multiply(
          *one.backend, one.backend->view(part.matrix, c.activation), view, nullptr, kMost);
    };
    const std::vector<float> g = product(gate);
    const std::vector<float> u = product(up);
    std::vector<float> alone;
    for (std::uint32_t m = 0; m < kMost; ++m) {
      const std::vector<float> row = run_swiglu(*one.backend, weight, view, &m, 1, c.n_rows);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const double silu = double{g[i]} / (1 + std::exp(-double{g[i]}));
      // Eight roundings for exp, sum, division and product.
      ASSERT_NEAR(alone[i], silu * u[i], 8 * kUnitRoundoff * std::fabs(silu * u[i]) + 0x1p-100);
    }
    for (std::size_t n = 1; n <= kMost; n += n < 17 ? 1 : 7) {
      const std::vector<float> expected(alone.begin(),
                                        alone.begin() + static_cast<std::ptrdiff_t>(n * c.n_rows));
      ASSERT_EQ(run_swiglu(*one.backend, weight, view, nullptr, n, c.n_rows), expected) << n;
      ASSERT_EQ(run_swiglu(*two.backend, weight, view, nullptr, n, c.n_rows), expected) << n;
    }
  }
}

}  // namespace
}  // namespace ft::kernels
