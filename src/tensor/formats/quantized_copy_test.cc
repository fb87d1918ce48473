#include "tensor/formats/quantized_copy.h"

#include "base/random.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace ft {
namespace {

TEST(QuantizedCopy, HoldsWhatPanelsHold_WhateverTheThreads) {
  constexpr std::size_t kRows = 150;  // nine panels and a part
  constexpr std::size_t kCols = 100;  // a block and a part
  std::vector<float> values(kRows * kCols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(noise_uniform(7, NoisePurpose::kTarget, i, 0) - 0.5);
  }
  StoredMatrix source;
  source.data = reinterpret_cast<const std::byte*>(values.data());
  source.n_rows = kRows;
  source.n_cols = kCols;
  source.row_stride = kCols;
  for (const QuantFormat format : {QuantFormat::kQ8, QuantFormat::kQ4}) {
    ThreadPool one(1);
    ThreadPool two(2);
    const QuantizedCopy alone(format, source, one);
    const QuantizedCopy shared(format, source, two);
    const QuantMatrix& view = alone.view();
    ASSERT_EQ(view.n_rows, kRows);
    ASSERT_EQ(view.n_cols, kCols);
    EXPECT_EQ(std::memcmp(view.codes, shared.view().codes, view.code_bytes()), 0);
    EXPECT_EQ(std::memcmp(view.scales, shared.view().scales, view.scale_bytes()), 0);
    std::vector<std::byte> codes(view.code_bytes() / view.n_panels());
    std::vector<std::byte> scales(view.scale_bytes() / view.n_panels());
    quantize_panel(
        format, values.data() + 16 * kCols, 16, kCols, kCols, codes.data(), scales.data());
    EXPECT_EQ(std::memcmp(view.codes + codes.size(), codes.data(), codes.size()), 0);
    EXPECT_EQ(std::memcmp(view.scales + scales.size(), scales.data(), scales.size()), 0);
    const float step = format == QuantFormat::kQ8 ? 0.5F / 126 : 0.5F / 6;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(view.at(i / kCols, i % kCols), values[i], step) << i;
    }
  }
}

}  // namespace
}  // namespace ft
