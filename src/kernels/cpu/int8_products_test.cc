// Versions of int8 products that a processor would not choose because it has a better one.
#include "base/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/int8_rows.h"
#include "kernels/test_weights.h"
#ifdef FT_HAS_AVX2
#include "kernels/cpu/avx2/avx2_kernels.h"
#endif
#ifdef FT_HAS_NEON
#include "kernels/cpu/neon/neon_kernels.h"
#endif

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

using Product = void (*)(const LinearTask&) noexcept;

constexpr std::size_t kOutputs = 5 * kPanelRows;
constexpr std::size_t kCols = 3 * kQuantGroup - 7;

/// The product of every row count up to 11 with random weights and inputs.
std::vector<float> all_products(Product product, QuantFormat format) {
  std::mt19937 rng(1);
  QuantMatrix matrix;
  matrix.format = format;
  matrix.n_rows = kOutputs;
  matrix.n_cols = kCols;
  Buffer codes(matrix.code_bytes());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes.data()[i] = static_cast<std::byte>(rng());
  }
  Buffer scales(matrix.scale_bytes());
  for (std::size_t i = 0; i < scales.size() / 2; ++i) {
    store_element(DType::kBF16, normal(rng), scales.data() + 2 * i);
  }
  matrix.codes = codes.data();
  matrix.scales = scales.data();
  Weight weight;
  weight.n_out = kOutputs;
  weight.n_in = kCols;
  weight.quant = matrix;
  weight.activation = Activation::kInt8;
  constexpr std::size_t kRows = 11;
  const std::size_t row_bytes = int8_row_bytes(kCols);
  Buffer x(kRows * row_bytes);
  const CpuKernels ref = ref::kernels();
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::vector<float> values = random_floats(kCols, rng);
    ref.quantize_row(values.data(), kCols, x.data() + row * row_bytes);
  }
  Buffer scratch(kScratchFloats * sizeof(float));
  std::vector<float> all;
  for (std::size_t n = 1; n <= kRows; ++n) {
    std::vector<float> y(n * kOutputs);
    LinearTask task;
    task.row_end = n;
    task.tile_end = (5 + kTilePanels - 1) / kTilePanels;
    task.scratch = scratch.as<float>(kScratchFloats).data();
    task.weight = &weight;
    task.x_int8 = x.data();
    task.x_int8_stride = row_bytes;
    task.y = y.data();
    task.y_stride = kOutputs;
    task.n_y = kOutputs;
    product(task);
    all.insert(all.end(), y.begin(), y.end());
  }
  return all;
}

void expect_ref_products(Product product) {
  for (const QuantFormat format : {QuantFormat::kQ8, QuantFormat::kQ4}) {
    EXPECT_EQ(all_products(product, format), all_products(ref::kernels().matmul_int8, format));
  }
}

#ifdef FT_HAS_AVX2
TEST(Int8Products, OfAvx2EqualThePlainLoops) {
  if (avx2::is_usable()) {
    expect_ref_products(avx2::matmul_int8);
  }
}
#endif
#ifdef FT_HAS_NEON
TEST(Int8Products, OfNeonEqualThePlainLoops) {
  expect_ref_products(neon::matmul_int8);
}
#endif

}  // namespace
}  // namespace ft::kernels
