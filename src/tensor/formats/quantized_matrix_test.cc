#include "tensor/formats/quantized_matrix.h"

#include "base/random.h"
#include "tensor/formats/float_formats.h"
#include "tensor/formats/q4.h"
#include "tensor/formats/q8.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace ft {
namespace {

/// Owns what its view points into.
struct Quantized {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  QuantMatrix view;
};

Quantized quantize(QuantFormat format,
                   const std::vector<float>& values,
                   std::size_t n_rows,
                   std::size_t n_cols) {
  Quantized q;
  q.view = {.format = format, .n_rows = n_rows, .n_cols = n_cols};
  q.codes.resize(q.view.code_bytes());
  q.scales.resize(q.view.scale_bytes());
  const std::size_t n_panels = q.view.n_panels();
  for (std::size_t panel = 0; panel < n_panels; ++panel) {
    const std::size_t first = panel * kPanelRows;
    quantize_panel(format,
                   values.data() + first * n_cols,
                   std::min(kPanelRows, n_rows - first),
                   n_cols,
                   n_cols,
                   q.codes.data() + panel * (q.codes.size() / n_panels),
                   q.scales.data() + panel * (q.scales.size() / n_panels));
  }
  q.view.codes = q.codes.data();
  q.view.scales = q.scales.data();
  return q;
}

/// Bell-shaped values whose magnitude differs between groups.
std::vector<float> weights(std::size_t n_rows, std::size_t n_cols) {
  std::vector<float> values(n_rows * n_cols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double sum = -6;
    for (std::uint32_t k = 0; k < 12; ++k) sum += noise_uniform(3, NoisePurpose::kTarget, i, k);
    values[i] = static_cast<float>(sum * std::pow(4.0, double(i % n_cols / kQuantGroup)));
  }
  return values;
}

constexpr QuantFormat kFormats[] = {QuantFormat::kQ8, QuantFormat::kQ4};

TEST(QuantFormat, NamesAreTheInverseOfEachOther) {
  EXPECT_EQ(quant_format_name(QuantFormat::kQ8), "q8");
  EXPECT_EQ(quant_format_name(QuantFormat::kQ4), "q4");
  for (const QuantFormat format : kFormats) {
    EXPECT_EQ(quant_format_from_name(quant_format_name(format)), format);
  }
  EXPECT_EQ(quant_format_from_name("q5"), std::nullopt);
}

TEST(QuantMatrix, CountsPaddedPanelsAndBlocks) {
  QuantMatrix m = {.format = QuantFormat::kQ8, .n_rows = 17, .n_cols = 65};
  EXPECT_EQ(m.code_bytes(), 2u * 2u * 1024u);
  EXPECT_EQ(m.scale_bytes(), 2u * 2u * 32u);
  m.format = QuantFormat::kQ4;
  m.scale_dtype = DType::kF32;
  EXPECT_EQ(m.code_bytes(), 2u * 2u * 512u);
  EXPECT_EQ(m.scale_bytes(), 2u * 2u * 64u);
}

TEST(Q8Block, LaysFourColumnsOfAnOutputSideBySide) {
  Q8Block block = {};
  block.set_code(3, 9, -127);
  EXPECT_EQ(block.bytes[2][3][1], 1);
  EXPECT_EQ(block.code(3, 9), -127);
  EXPECT_EQ(block.code(3, 10), -128);  // a zero byte
}

TEST(Q4Block, LaysEvenStepsInLowNibbles) {
  Q4Block block = {};
  block.set_code(3, 9, 7);    // step 2
  block.set_code(3, 13, -7);  // step 3
  EXPECT_EQ(block.bytes[1][3][1], 0x1F);
  block.set_code(3, 9, -8);
  EXPECT_EQ(block.bytes[1][3][1], 0x10);
  EXPECT_EQ(block.code(3, 9), -8);
  EXPECT_EQ(block.code(3, 13), -7);
}

TEST(QuantizePanel, Q8StaysWithinHalfAStep) {
  constexpr std::size_t kRows = 35;
  constexpr std::size_t kCols = 150;
  const std::vector<float> values = weights(kRows, kCols);
  const Quantized q = quantize(QuantFormat::kQ8, values, kRows, kCols);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kCols; ++c) {
      // A scale rounded down by bf16's 2^-9 clips the largest value by a quarter of a step more.
      EXPECT_NEAR(q.view.at(r, c), values[r * kCols + c], 0.5001F * q.view.scale(r, c));
      EXPECT_LE(std::abs(q.view.code(r, c)), 127);
    }
  }
}

TEST(QuantizePanel, Q4BeatsThePlainScale) {
  constexpr std::size_t kRows = 32;
  constexpr std::size_t kCols = 256;
  const std::vector<float> values = weights(kRows, kCols);
  const Quantized q = quantize(QuantFormat::kQ4, values, kRows, kCols);
  double error = 0;
  double plain_error = 0;
  bool has_negative_scale = false;
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t begin = 0; begin < kCols; begin += kQuantGroup) {
      const float* group = &values[r * kCols + begin];
      float largest = 0;
      for (std::size_t c = 0; c < kQuantGroup; ++c) {
        largest = std::fabs(group[c]) > std::fabs(largest) ? group[c] : largest;
      }
      double group_error = 0;
      double group_plain = 0;
      for (std::size_t c = 0; c < kQuantGroup; ++c) {
        const double d = double{q.view.at(r, begin + c)} - double{group[c]};
        const double scale = double{largest} / -8;
        const double plain = std::clamp(std::nearbyint(group[c] / scale), -8.0, 7.0) * scale;
        group_error += d * d;
        group_plain += (plain - group[c]) * (plain - group[c]);
      }
      EXPECT_LE(group_error, group_plain * 1.02) << r << ", " << begin;  // bf16 of the scale
      error += group_error / (double{largest} * largest);
      plain_error += group_plain / (double{largest} * largest);
      has_negative_scale = has_negative_scale || q.view.scale(r, begin) < 0;
    }
  }
  EXPECT_LT(error, 0.93 * plain_error);
  EXPECT_TRUE(has_negative_scale);
}

TEST(QuantizePanel, IsExact_WhenValuesAreCodesTimesAScale) {
  for (const QuantFormat format : kFormats) {
    std::vector<float> values(2 * kQuantGroup);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int>(i * 7 % 16) - 8) * 0.375F;
    }
    if (format == QuantFormat::kQ8) {
      values[0] = values[kQuantGroup] = -127 * 0.375F;
    }
    const Quantized q = quantize(format, values, 1, values.size());
    for (std::size_t c = 0; c < values.size(); ++c) {
      EXPECT_EQ(q.view.at(0, c), values[c]) << quant_format_name(format) << " " << c;
    }
  }
}

TEST(QuantizePanel, IsAFunctionOfTheRow) {
  constexpr std::size_t kRows = 16;
  constexpr std::size_t kCols = 100;
  const std::vector<float> values = weights(kRows, kCols);
  for (const QuantFormat format : kFormats) {
    const Quantized all = quantize(format, values, kRows, kCols);
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::vector<float> row(values.begin() + static_cast<std::ptrdiff_t>(r * kCols),
                                   values.begin() + static_cast<std::ptrdiff_t>((r + 1) * kCols));
      const Quantized one = quantize(format, row, 1, kCols);
      for (std::size_t c = 0; c < kCols; ++c) {
        ASSERT_EQ(one.view.code(0, c), all.view.code(r, c));
        ASSERT_EQ(one.view.scale(0, c), all.view.scale(r, c));
      }
    }
  }
}

TEST(QuantizePanel, StaysFinite_WhenMagnitudesAreExtreme) {
  for (const QuantFormat format : kFormats) {
    for (const float value : {0.0F,
                              -0.0F,
                              1e-45F,
                              -3e-40F,
                              1e-38F,
                              1e-36F,
                              -1e30F,
                              std::numeric_limits<float>::max()}) {
      std::vector<float> values(kQuantGroup, value);
      values[5] = -value;
      const Quantized q = quantize(format, values, 1, kQuantGroup);
      for (std::size_t c = 0; c < kQuantGroup; ++c) {
        ASSERT_TRUE(std::isfinite(q.view.at(0, c))) << value;
        ASSERT_NEAR(q.view.at(0, c), values[c], std::fabs(value) / 7 + 1e-36F) << value;
      }
    }
  }
}

TEST(QuantizePanel, PadsWithZeroCodesAndScales) {
  const std::vector<float> values = weights(3, 70);
  for (const QuantFormat format : kFormats) {
    Quantized q = quantize(format, values, 3, 70);
    q.view.n_rows = kPanelRows;  // see the padding too
    q.view.n_cols = 2 * kQuantGroup;
    for (std::size_t r = 0; r < kPanelRows; ++r) {
      for (std::size_t c = 0; c < 2 * kQuantGroup; ++c) {
        if (r >= 3 || c >= 70) {
          ASSERT_EQ(q.view.code(r, c), 0) << r << ", " << c;
        }
        if (r >= 3) {
          ASSERT_EQ(q.view.scale(r, c), 0.0F);
        }
      }
    }
  }
}

TEST(QuantMatrix, RowsAreAView) {
  const std::vector<float> values = weights(40, 130);
  for (const QuantFormat format : kFormats) {
    const Quantized q = quantize(format, values, 40, 130);
    const QuantMatrix part = q.view.rows(16, 24);
    ASSERT_EQ(part.n_rows, 24u);
    for (std::size_t r = 0; r < 24; ++r) {
      for (std::size_t c = 0; c < 130; ++c) ASSERT_EQ(part.at(r, c), q.view.at(16 + r, c));
    }
  }
}

TEST(InterleaveGateUp, AlternatesPanels) {
  constexpr std::size_t kWidth = 20;
  constexpr std::size_t kCols = 70;
  std::vector<float> values = weights(kWidth, kCols);
  for (const QuantFormat format : kFormats) {
    const Quantized gate = quantize(format, values, kWidth, kCols);
    for (float& value : values) value = -value * 3;
    const Quantized up = quantize(format, values, kWidth, kCols);
    std::vector<std::byte> codes(2 * gate.codes.size());
    std::vector<std::byte> scales(2 * gate.scales.size());
    const QuantMatrix pair = interleave_gate_up(gate.view, up.view, codes.data(), scales.data());
    ASSERT_EQ(pair.n_rows, 64u);
    ASSERT_EQ(pair.code_bytes(), codes.size());
    ASSERT_EQ(pair.scale_bytes(), scales.size());
    for (std::size_t r = 0; r < kWidth; ++r) {
      const std::size_t row = r / kPanelRows * 2 * kPanelRows + r % kPanelRows;
      for (std::size_t c = 0; c < kCols; ++c) {
        ASSERT_EQ(pair.at(row, c), gate.view.at(r, c));
        ASSERT_EQ(pair.at(row + kPanelRows, c), up.view.at(r, c));
      }
    }
  }
}

}  // namespace
}  // namespace ft
