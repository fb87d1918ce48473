// Products against a float64 computation, and the contract that a row is computed alone.
#include "kernels/kernels.h"
#include "kernels/test_backend.h"
#include "kernels/test_weights.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

class LinearTest : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(EachIsa, LinearTest, testing::ValuesIn(usable_isas()), isa_test_name);

std::vector<float> multiply(Backend& backend,
                            const Weight& weight,
                            ConstMatrix x,
                            const std::uint32_t* x_rows,
                            std::size_t n_rows) {
  const std::size_t stride = weight.n_out + 5;
  std::vector<float> y(n_rows * stride, -1.0f);
  const MatmulOp op = {
      .y = {y.data(), n_rows, weight.n_out, stride}, .x = x, .weight = &weight, .x_rows = x_rows};
  backend.matmul({&op, 1});
  for (std::size_t m = 0; m < n_rows; ++m) {
    for (std::size_t i = weight.n_out; i < stride; ++i) {
      EXPECT_EQ(y[m * stride + i], -1.0f) << "wrote past the row's end";
    }
  }
  std::vector<float> dense(n_rows * weight.n_out);
  for (std::size_t m = 0; m < n_rows; ++m) {
    std::copy_n(y.data() + m * stride, weight.n_out, dense.data() + m * weight.n_out);
  }
  return dense;
}

/// Rigorous bound of a sequential sum: every product and sum rounds once, and the scales' products
/// add one more each.
double sum_bound(std::size_t n_cols, double sum_of_magnitudes) {
  return (static_cast<double>(n_cols) + 8) * kUnitRoundoff * sum_of_magnitudes;
}

void expect_product(const std::vector<const TestMatrix*>& parts,
                    const std::vector<float>& y,
                    const std::vector<const float*>& x_rows) {
  std::size_t n_out = 0;
  for (const TestMatrix* part : parts) {
    n_out += part->matrix.n_rows;
  }
  for (std::size_t m = 0; m < x_rows.size(); ++m) {
    std::size_t out = 0;
    for (const TestMatrix* part : parts) {
      for (std::size_t r = 0; r < part->matrix.n_rows; ++r, ++out) {
        double sum = 0;
        double magnitudes = 0;
        for (std::size_t k = 0; k < part->matrix.n_cols; ++k) {
          const double product = part->exact(r, k) * x_rows[m][k];
          sum += product;
          magnitudes += std::fabs(product);
        }
        ASSERT_NEAR(y[m * n_out + out], sum, sum_bound(part->matrix.n_cols, magnitudes))
            << "row " << m << " output " << out;
      }
    }
  }
}

std::string describe(const TestMatrixShape& s) {
  return std::string(dtype_name(s.dtype)) + " [" + std::to_string(s.n_rows) + ", " +
         std::to_string(s.n_cols) + "] block " + std::to_string(s.block) + " origin " +
         std::to_string(s.row_origin) + "," + std::to_string(s.col_origin) +
         (s.is_transposed ? " transposed" : "");
}

/// Odd in every way: narrower than a vector, not multiples of anything, blocks that start anywhere.
std::vector<TestMatrixShape> odd_shapes() {
  std::vector<TestMatrixShape> shapes;
  const std::size_t sizes[][2] = {{1, 1},
                                  {7, 1},
                                  {1, 33},
                                  {33, 7},
                                  {16, 64},
                                  {129, 5},
                                  {48, 129},
                                  {65, 300},
                                  {8, 256},
                                  {100, 131}};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    for (const auto& size : sizes) {
      shapes.push_back({.dtype = dtype, .n_rows = size[0], .n_cols = size[1]});
    }
    shapes.push_back({.dtype = dtype, .n_rows = 70, .n_cols = 90, .is_transposed = true});
  }
  for (const std::size_t block : {std::size_t{128}, std::size_t{16}, std::size_t{5}}) {
    for (const auto& size : sizes) {
      shapes.push_back(
          {.dtype = DType::kF8E4M3, .n_rows = size[0], .n_cols = size[1], .block = block});
    }
    shapes.push_back({.dtype = DType::kF8E4M3,
                      .n_rows = 50,
                      .n_cols = 290,
                      .block = block,
                      .row_origin = 37,
                      .col_origin = 64 + 3});
    shapes.push_back({.dtype = DType::kF8E4M3,
                      .n_rows = 130,
                      .n_cols = 64,
                      .block = block,
                      .row_origin = 0,
                      .col_origin = 192,
                      .is_transposed = true});
  }
  return shapes;
}

TEST_P(LinearTest, Matmul_EqualsFloat64WithinRounding) {
  std::mt19937 rng(1);
  TestBackend test(GetParam(), 1);
  for (const TestMatrixShape& shape : odd_shapes()) {
    SCOPED_TRACE(describe(shape));
    const TestMatrix w = make_matrix(shape, rng);
    const PackedWeight packed = pack(*test.backend, {&w.matrix, 1});
    EXPECT_EQ(packed.weight.n_out, shape.n_rows);
    EXPECT_EQ(packed.weight.n_in, shape.n_cols);
    for (const std::size_t n_rows : {std::size_t{1}, std::size_t{3}, std::size_t{20}}) {
      const std::size_t stride = shape.n_cols + 2;
      const std::vector<float> x = random_floats(n_rows * stride, rng);
      std::vector<const float*> rows;
      for (std::size_t m = 0; m < n_rows; ++m) {
        rows.push_back(x.data() + m * stride);
      }
      expect_product({&w},
                     multiply(*test.backend,
                              packed.weight,
                              {x.data(), n_rows, shape.n_cols, stride},
                              nullptr,
                              n_rows),
                     rows);
    }
  }
}

TEST_P(LinearTest, Matmul_EqualsReferenceBitForBit) {
  std::mt19937 rng(2);
  TestBackend test(GetParam(), 2);
  TestBackend judge(Isa::kRef, 1);
  for (const TestMatrixShape& shape : odd_shapes()) {
    SCOPED_TRACE(describe(shape));
    const TestMatrix w = make_matrix(shape, rng);
    const PackedWeight packed = pack(*test.backend, {&w.matrix, 1});
    const PackedWeight judged = pack(*judge.backend, {&w.matrix, 1});
    const std::vector<float> x = random_floats(31 * shape.n_cols, rng);
    const ConstMatrix view = {x.data(), 31, shape.n_cols, shape.n_cols};
    EXPECT_EQ(multiply(*test.backend, packed.weight, view, nullptr, 31),
              multiply(*judge.backend, judged.weight, view, nullptr, 31));
  }
}

TEST_P(LinearTest, Matmul_RowIsTheSameInAnyCompany) {
  std::mt19937 rng(3);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  constexpr std::size_t kMost = 67;
  for (const TestMatrixShape& shape : odd_shapes()) {
    SCOPED_TRACE(describe(shape));
    const TestMatrix w = make_matrix(shape, rng);
    const PackedWeight packed = pack(*one.backend, {&w.matrix, 1});
    const std::size_t stride = shape.n_cols + 1;
    const std::vector<float> x = random_floats(kMost * stride, rng);
    const ConstMatrix view = {x.data(), kMost, shape.n_cols, stride};
    std::vector<float> alone;
    for (std::uint32_t m = 0; m < kMost; ++m) {
      const std::vector<float> row = multiply(*one.backend, packed.weight, view, &m, 1);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    std::vector<std::size_t> counts = {25, 31, 48, 64, 67};
    for (std::size_t n = 1; n <= 16; ++n) {
      counts.push_back(n);
    }
    for (const std::size_t n : counts) {
      const std::vector<float> expected(
          alone.begin(), alone.begin() + static_cast<std::ptrdiff_t>(n * shape.n_rows));
      ASSERT_EQ(multiply(*one.backend, packed.weight, view, nullptr, n), expected) << n << " rows";
      ASSERT_EQ(multiply(*two.backend, packed.weight, view, nullptr, n), expected)
          << n << " rows, 2 threads";
    }
  }
}

TEST_P(LinearTest, Matmul_GathersRowsAndAdds) {
  std::mt19937 rng(4);
  TestBackend test(GetParam(), 2);
  const TestMatrix w =
      make_matrix({.dtype = DType::kF8E4M3, .n_rows = 75, .n_cols = 130, .block = 128}, rng);
  const PackedWeight packed = pack(*test.backend, {&w.matrix, 1});
  const std::vector<float> x = random_floats(9 * 130, rng);
  const ConstMatrix view = {x.data(), 9, 130, 130};
  const std::vector<float> plain = multiply(*test.backend, packed.weight, view, nullptr, 9);
  const std::uint32_t rows[] = {8, 0, 3, 3, 7, 1, 8, 2, 5, 4, 6, 0, 1};
  constexpr std::size_t kRows = std::size(rows);
  const std::vector<float> base = random_floats(kRows * 75, rng);
  std::vector<float> y = base;
  const MatmulOp op = {.y = {y.data(), kRows, 75, 75},
                       .x = view,
                       .weight = &packed.weight,
                       .x_rows = rows,
                       .store = MatmulOp::Store::kAdd};
  test.backend->matmul({&op, 1});
  for (std::size_t m = 0; m < kRows; ++m) {
    for (std::size_t i = 0; i < 75; ++i) {
      ASSERT_EQ(y[m * 75 + i], base[m * 75 + i] + plain[rows[m] * 75 + i]);
    }
  }
}

TEST_P(LinearTest, Matmul_RunsManyProductsInOneCall) {
  std::mt19937 rng(5);
  TestBackend test(GetParam(), 2);
  constexpr std::size_t kOps = 150;  // more than one fork-join plans
  std::vector<PackedWeight> packed(kOps);
  std::vector<std::vector<float>> x(kOps);
  std::vector<std::vector<float>> y(kOps);
  std::vector<std::vector<float>> alone(kOps);
  std::vector<MatmulOp> ops(kOps);
  for (std::size_t i = 0; i < kOps; ++i) {
    const DType dtype = static_cast<DType>(i % 4);
    const TestMatrix w =
        make_matrix({.dtype = dtype, .n_rows = 1 + rng() % 90, .n_cols = 1 + rng() % 90}, rng);
    packed[i] = pack(*test.backend, {&w.matrix, 1});
    const Weight& weight = packed[i].weight;
    const std::size_t n_rows = i % 5;  // an expert may get no row at all
    x[i] = random_floats(n_rows * weight.n_in, rng);
    y[i].resize(n_rows * weight.n_out);
    const ConstMatrix view = {x[i].data(), n_rows, weight.n_in, weight.n_in};
    alone[i] = multiply(*test.backend, weight, view, nullptr, n_rows);
    ops[i] = {.y = {y[i].data(), n_rows, weight.n_out, weight.n_out}, .x = view, .weight = &weight};
  }
  test.backend->matmul(ops);
  EXPECT_EQ(y, alone);
}

TEST_P(LinearTest, Pack_StacksParts) {
  std::mt19937 rng(6);
  TestBackend test(GetParam(), 1);
  const TestMatrix a = make_matrix(
      {.dtype = DType::kF8E4M3, .n_rows = 21, .n_cols = 150, .block = 128, .col_origin = 70}, rng);
  const TestMatrix b = make_matrix({.dtype = DType::kF8E4M3,
                                    .n_rows = 40,
                                    .n_cols = 150,
                                    .block = 128,
                                    .row_origin = 100,
                                    .col_origin = 70,
                                    .is_transposed = true},
                                   rng);
  const StoredMatrix parts[] = {a.matrix, b.matrix, a.matrix.rows(3, 10)};
  const PackedWeight packed = pack(*test.backend, parts);
  ASSERT_EQ(packed.weight.n_out, 71u);
  const std::vector<float> x = random_floats(150, rng);
  const ConstMatrix view = {x.data(), 1, 150, 150};
  const std::vector<float> y = multiply(*test.backend, packed.weight, view, nullptr, 1);
  expect_product({&a, &b}, {y.begin(), y.begin() + 61}, {x.data()});
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(y[61 + i], y[3 + i]);
  }
}

TEST_P(LinearTest, Pack_ReadsEveryCode) {
  TestBackend test(GetParam(), 1);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    const std::size_t width = element_bytes(dtype);
    const std::size_t n = dtype == DType::kF8E4M3 ? 256 : 65536;
    std::vector<std::byte> bytes(n * width);
    for (std::size_t i = 0; i < n; ++i) {
      std::memcpy(bytes.data() + i * width, &i, width);  // little endian: the low bytes
    }
    const StoredMatrix matrix = {
        .dtype = dtype, .data = bytes.data(), .n_rows = n, .n_cols = 1, .row_stride = 1};
    const PackedWeight packed = pack(*test.backend, {&matrix, 1});
    const float one = 1;
    const std::vector<float> y =
        multiply(*test.backend, packed.weight, {&one, 1, 1, 1}, nullptr, 1);
    for (std::size_t i = 0; i < n; ++i) {
      const float expected = matrix.at(i, 0);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(y[i])) << dtype_name(dtype) << " code " << i;
      } else {
        EXPECT_EQ(y[i], expected) << dtype_name(dtype) << " code " << i;
      }
    }
  }
}

TEST_P(LinearTest, Pack_KeepsStoredWidth) {
  TestBackend test(GetParam(), 1);
  std::mt19937 rng(7);
  const TestMatrix w =
      make_matrix({.dtype = DType::kF8E4M3, .n_rows = 256, .n_cols = 256, .block = 128}, rng);
  EXPECT_LE(test.backend->packed_bytes({&w.matrix, 1}), 256 * 256 * 17 / 16);
}

struct SwigluCase {
  DType dtype;
  std::size_t n_hidden;
  std::size_t n_cols;
  std::size_t block;
};

std::vector<float> run_swiglu(Backend& backend,
                              const Weight& weight,
                              ConstMatrix x,
                              const std::uint32_t* x_rows,
                              std::size_t n_rows) {
  const std::size_t n = weight.n_out / 2;
  std::vector<float> y(n_rows * n);
  const SwigluOp op = {.y = {y.data(), n_rows, n, n}, .x = x, .weight = &weight, .x_rows = x_rows};
  backend.swiglu({&op, 1});
  return y;
}

const SwigluCase kSwigluCases[] = {{DType::kF8E4M3, 96, 256, 128},
                                   {DType::kF8E4M3, 100, 70, 16},
                                   {DType::kBF16, 33, 65, 0},
                                   {DType::kF16, 1, 3, 0},
                                   {DType::kF32, 50, 40, 0}};

TEST_P(LinearTest, Swiglu_EqualsFloat64WithinRounding) {
  std::mt19937 rng(8);
  TestBackend test(GetParam(), 2);
  for (const SwigluCase& c : kSwigluCases) {
    const TestMatrixShape shape = {
        .dtype = c.dtype, .n_rows = c.n_hidden, .n_cols = c.n_cols, .block = c.block};
    const TestMatrix gate = make_matrix(shape, rng);
    const TestMatrix up = make_matrix(shape, rng);
    const PackedWeight packed = pack_gate_up(*test.backend, gate.matrix, up.matrix);
    ASSERT_EQ(packed.weight.n_out, 2 * c.n_hidden);
    const std::vector<float> x = random_floats(5 * c.n_cols, rng);
    const std::vector<float> y =
        run_swiglu(*test.backend, packed.weight, {x.data(), 5, c.n_cols, c.n_cols}, nullptr, 5);
    for (std::size_t m = 0; m < 5; ++m) {
      for (std::size_t r = 0; r < c.n_hidden; ++r) {
        double g = 0;
        double u = 0;
        double g_magnitude = 0;
        double u_magnitude = 0;
        for (std::size_t k = 0; k < c.n_cols; ++k) {
          const double g_term = gate.exact(r, k) * x[m * c.n_cols + k];
          const double u_term = up.exact(r, k) * x[m * c.n_cols + k];
          g += g_term;
          u += u_term;
          g_magnitude += std::fabs(g_term);
          u_magnitude += std::fabs(u_term);
        }
        const double silu = g / (1 + std::exp(-g));
        // |silu'| < 1.1; eight roundings for exp, sum, division and product; f32's smallest normal
        // as a floor.
        const double bound = 1.1 * sum_bound(c.n_cols, g_magnitude) * std::fabs(u) +
                             std::fabs(silu) * sum_bound(c.n_cols, u_magnitude) +
                             8 * kUnitRoundoff * std::fabs(silu * u) + 0x1p-100;
        ASSERT_NEAR(y[m * c.n_hidden + r], silu * u, bound) << "row " << m << " output " << r;
      }
    }
  }
}

TEST_P(LinearTest, Swiglu_RowIsTheSameInAnyCompany) {
  std::mt19937 rng(9);
  TestBackend one(GetParam(), 1);
  TestBackend two(GetParam(), 2);
  for (const SwigluCase& c : kSwigluCases) {
    const TestMatrixShape shape = {
        .dtype = c.dtype, .n_rows = c.n_hidden, .n_cols = c.n_cols, .block = c.block};
    const TestMatrix gate = make_matrix(shape, rng);
    const TestMatrix up = make_matrix(shape, rng);
    const PackedWeight packed = pack_gate_up(*one.backend, gate.matrix, up.matrix);
    const std::vector<float> x = random_floats(40 * c.n_cols, rng);
    const ConstMatrix view = {x.data(), 40, c.n_cols, c.n_cols};
    std::vector<float> alone;
    for (std::uint32_t m = 0; m < 40; ++m) {
      const std::vector<float> row = run_swiglu(*one.backend, packed.weight, view, &m, 1);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (std::size_t n = 1; n <= 40; n += n < 17 ? 1 : 7) {
      const std::vector<float> expected(
          alone.begin(), alone.begin() + static_cast<std::ptrdiff_t>(n * c.n_hidden));
      ASSERT_EQ(run_swiglu(*one.backend, packed.weight, view, nullptr, n), expected) << n;
      ASSERT_EQ(run_swiglu(*two.backend, packed.weight, view, nullptr, n), expected) << n;
    }
  }
}

TEST_P(LinearTest, Swiglu_SaturatesWithoutNan) {
  TestBackend test(GetParam(), 1);
  const float weights[] = {1, 1};
  const StoredMatrix matrix = {.data = reinterpret_cast<const std::byte*>(weights),
                               .n_rows = 1,
                               .n_cols = 1,
                               .row_stride = 1};
  const PackedWeight packed = pack_gate_up(*test.backend, matrix, matrix);
  const float x[] = {-1e4f, -200.0f, -88.0f, 0.0f, 88.0f, 200.0f, 1e4f};
  const std::vector<float> y = run_swiglu(*test.backend, packed.weight, {x, 7, 1, 1}, nullptr, 7);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(y[i], 0.0f, 1e-30f) << x[i];
  }
  EXPECT_EQ(y[3], 0.0f);
  for (std::size_t i = 4; i < 7; ++i) {
    EXPECT_EQ(y[i], x[i] * x[i]);
  }
}

}  // namespace
}  // namespace ft::kernels
