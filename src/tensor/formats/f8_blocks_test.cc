#include "tensor/formats/f8_blocks.h"

#include "base/random.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace ft {
namespace {

StoredMatrix as_stored(const std::vector<float>& values, std::size_t n_rows, std::size_t n_cols) {
  StoredMatrix matrix;
  matrix.data = reinterpret_cast<const std::byte*>(values.data());
  matrix.n_rows = n_rows;
  matrix.n_cols = n_cols;
  matrix.row_stride = n_cols;
  return matrix;
}

TEST(F8Blocks, StaysWithinHalfACodeStep_WhenBlocksDifferInMagnitude) {
  constexpr std::size_t kRows = 67;
  constexpr std::size_t kCols = 300;  // two full blocks and a part
  std::vector<float> values(kRows * kCols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double uniform = noise_uniform(7, NoisePurpose::kTarget, i, 0);
    values[i] = static_cast<float>((uniform - 0.5) * std::pow(10.0, double(i % kCols / 128)));
  }
  ThreadPool pool(2);
  const F8Blocks blocks(as_stored(values, kRows, kCols), pool);
  const StoredMatrix copy = blocks.view();
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kCols; ++c) {
      float largest = 0;
      for (std::size_t k = c / 128 * 128; k < std::min(kCols, c / 128 * 128 + 128); ++k) {
        largest = std::max(largest, std::fabs(values[r * kCols + k]));
      }
      const float value = values[r * kCols + c];
      const float bound = std::max(std::fabs(value) / 16, largest / 448 / 1024) * 1.0001F;
      EXPECT_NEAR(copy.at(r, c), value, bound) << r << ", " << c;
    }
  }
}

TEST(F8Blocks, IsExact_WhenValuesAreCodesTimesAPowerOfTwo) {
  std::vector<float> values{448, -448, 0.5F, 0, -1.125F, 26, 0.001953125F, 224};
  for (float& value : values) value *= 0.25F;
  ThreadPool pool(1);
  const F8Blocks blocks(as_stored(values, 1, values.size()), pool);
  for (std::size_t c = 0; c < values.size(); ++c) EXPECT_EQ(blocks.view().at(0, c), values[c]);
}

TEST(F8Blocks, StaysFinite_WhenABlockHoldsOnlyDenormals) {
  const std::vector<float> values(130, 1e-44F);
  ThreadPool pool(1);
  const F8Blocks blocks(as_stored(values, 1, values.size()), pool);
  for (std::size_t c = 0; c < values.size(); ++c) EXPECT_NEAR(blocks.view().at(0, c), 0, 1e-40);
}

TEST(F8Blocks, KeepsZeros_WhenABlockIsAllZero) {
  const std::vector<float> values(130, 0.0F);
  ThreadPool pool(1);
  const F8Blocks blocks(as_stored(values, 1, values.size()), pool);
  for (std::size_t c = 0; c < values.size(); ++c) EXPECT_EQ(blocks.view().at(0, c), 0.0F);
}

}  // namespace
}  // namespace ft
