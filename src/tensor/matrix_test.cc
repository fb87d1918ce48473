#include "tensor/matrix.h"

#include "tensor/formats/float_formats.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace ft {
namespace {

constexpr std::size_t kRows = 11;
constexpr std::size_t kCols = 9;
constexpr std::size_t kBlockRows = 4;
constexpr std::size_t kBlockCols = 3;
constexpr std::size_t kScaleCols = 3;  // kCols / kBlockCols

/// An FP8 matrix with a different scale in each block; its scales start at an odd address.
struct Fp8Matrix {
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(kRows * kCols);
  std::vector<std::byte> scale_bytes;
  StoredMatrix view;

  Fp8Matrix() {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<std::uint8_t>(i * 37 % 0x7F);
    }
    scale_bytes.resize(1 + 3 * kScaleCols * sizeof(float));
    for (std::size_t i = 0; i < 3 * kScaleCols; ++i) {
      const float scale = scale_of(i / kScaleCols, i % kScaleCols);
      std::memcpy(scale_bytes.data() + 1 + i * sizeof(float), &scale, sizeof scale);
    }
    view = {.dtype = DType::kF8E4M3,
            .data = reinterpret_cast<const std::byte*>(codes.data()),
            .n_rows = kRows,
            .n_cols = kCols,
            .row_stride = kCols,
            .scales = scale_bytes.data() + 1,
            .block_rows = kBlockRows,
            .block_cols = kBlockCols,
            .scale_row_stride = kScaleCols};
  }
  static float scale_of(std::size_t block_row, std::size_t block_col) {
    return 0.001f * static_cast<float>(1 + block_row * 10 + block_col);
  }
  float expected(std::size_t r, std::size_t c) const {
    return f8e4m3_to_float(codes[r * kCols + c]) * scale_of(r / kBlockRows, c / kBlockCols);
  }
};

TEST(StoredMatrix, MultipliesEachBlockByItsScale) {
  const Fp8Matrix m;
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kCols; ++c) {
      EXPECT_EQ(m.view.at(r, c), m.expected(r, c));
    }
  }
}

TEST(StoredMatrix, KeepsScalesOfRows_WhenTheSliceStartsInsideABlock) {
  const Fp8Matrix m;
  for (std::size_t begin = 0; begin < kRows; ++begin) {
    const StoredMatrix part = m.view.rows(begin, kRows - begin);
    EXPECT_EQ(part.n_rows, kRows - begin);
    for (std::size_t r = 0; r < part.n_rows; ++r) {
      for (std::size_t c = 0; c < kCols; ++c) {
        EXPECT_EQ(part.at(r, c), m.expected(begin + r, c));
      }
    }
  }
}

TEST(StoredMatrix, ComposesSlicesAndTranspositions) {
  const Fp8Matrix m;
  // Rows 3.., then columns 2.. (as rows of the transposed), then rows 1.. of that, and back.
  const StoredMatrix part = m.view.rows(3, 7).transposed().rows(2, 6).rows(1, 4).transposed();
  EXPECT_EQ(part.n_rows, 7u);
  EXPECT_EQ(part.n_cols, 4u);
  for (std::size_t r = 0; r < part.n_rows; ++r) {
    for (std::size_t c = 0; c < part.n_cols; ++c) {
      EXPECT_EQ(part.at(r, c), m.expected(r + 3, c + 3));
      EXPECT_EQ(part.transposed().at(c, r), m.expected(r + 3, c + 3));
    }
  }
}

TEST(StoredMatrix, ReadsUnalignedElementsWithoutScales) {
  const std::uint16_t codes[] = {0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0};  // bf16 1 ... 6
  std::vector<std::byte> bytes(1 + sizeof codes);
  std::memcpy(bytes.data() + 1, codes, sizeof codes);
  const StoredMatrix m{
      .dtype = DType::kBF16, .data = bytes.data() + 1, .n_rows = 2, .n_cols = 3, .row_stride = 3};
  EXPECT_EQ(m.at(0, 0), 1.0f);
  EXPECT_EQ(m.at(1, 2), 6.0f);
  EXPECT_EQ(m.transposed().at(2, 0), 3.0f);
  EXPECT_EQ(m.rows(1, 1).at(0, 1), 5.0f);
}

TEST(MatrixViews, RowsFollowTheStride) {
  std::vector<float> values = {1, 2, 3, 0, 4, 5, 6, 0};
  const MutableMatrix m{.data = values.data(), .n_rows = 2, .n_cols = 3, .stride = 4};
  m.row(1)[2] = 7;
  const ConstMatrix read = m;
  EXPECT_EQ(read.row(0).size(), 3u);
  EXPECT_EQ(read.row(1)[0], 4);
  EXPECT_EQ(read.row(1)[2], 7);
}

}  // namespace
}  // namespace ft
