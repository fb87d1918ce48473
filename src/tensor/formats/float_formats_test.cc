#include "tensor/formats/float_formats.h"

#include "base/error.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace ft {
namespace {

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

/// The value of a binary format by its definition, in double.
double value_by_definition(int sign, int exponent, int mantissa, int mantissa_bits, int bias) {
  const double fraction = mantissa / std::pow(2.0, mantissa_bits);
  const double magnitude = exponent == 0 ? fraction * std::pow(2.0, 1 - bias)
                                         : (1.0 + fraction) * std::pow(2.0, exponent - bias);
  return sign != 0 ? -magnitude : magnitude;
}

std::vector<double> positive_f8_values() {
  std::vector<double> values;
  for (int bits = 0; bits < 0x7F; ++bits) {
    values.push_back(value_by_definition(0, bits >> 3, bits & 7, 3, 7));
  }
  return values;
}

TEST(F8E4M3, DecodesEveryCode) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = f8e4m3_to_float(static_cast<std::uint8_t>(bits));
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    const double expected = value_by_definition(bits >> 7, bits >> 3 & 15, bits & 7, 3, 7);
    EXPECT_EQ(static_cast<double>(value), expected) << bits;
    EXPECT_EQ(std::signbit(value), bits >= 128) << bits;
  }
  EXPECT_EQ(f8e4m3_to_float(0x7E), 448.0f);
  EXPECT_EQ(f8e4m3_to_float(0x01), 0x1p-9f);
}

TEST(F8E4M3, EncodesItsOwnValues) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = f8e4m3_to_float(static_cast<std::uint8_t>(bits));
    EXPECT_EQ(float_to_f8e4m3(value) & 0x7F, bits & 0x7F) << bits;
    if (!std::isnan(value)) {
      EXPECT_EQ(float_to_f8e4m3(value), bits);
    }
  }
}

TEST(F8E4M3, RoundsToNearest_TiesToTheEvenCode) {
  const std::vector<double> values = positive_f8_values();
  for (std::size_t low = 0; low + 1 < values.size(); ++low) {
    const auto middle = static_cast<float>((values[low] + values[low + 1]) / 2);  // exact in f32
    const std::size_t even = low % 2 == 0 ? low : low + 1;
    EXPECT_EQ(float_to_f8e4m3(middle), even);
    EXPECT_EQ(float_to_f8e4m3(std::nextafter(middle, 0.0f)), low);
    EXPECT_EQ(float_to_f8e4m3(std::nextafter(middle, 1e9f)), low + 1);
    EXPECT_EQ(float_to_f8e4m3(-middle), even | 0x80);
  }
}

TEST(F8E4M3, Saturates) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float value : {448.0f, 449.0f, 464.0f, 465.0f, 1e30f, infinity}) {
    EXPECT_EQ(float_to_f8e4m3(value), 0x7E);
    EXPECT_EQ(float_to_f8e4m3(-value), 0xFE);
  }
  EXPECT_EQ(float_to_f8e4m3(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_f8e4m3(-0.0f), 0x80);
  EXPECT_EQ(float_to_f8e4m3(std::numeric_limits<float>::quiet_NaN()) & 0x7F, 0x7F);
}

TEST(F16, DecodesEveryCode) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = f16_to_float(static_cast<std::uint16_t>(bits));
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 1023;
    ASSERT_EQ(std::signbit(value), bits >= 32768) << bits;
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(value), mantissa != 0) << bits;
      ASSERT_EQ(std::isinf(value), mantissa == 0) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value),
              value_by_definition(bits >> 15, exponent, mantissa, 10, 15))
        << bits;
  }
}

TEST(F16, RoundsToNearest_TiesToTheEvenCode) {
  for (int low = 0; low < 0x7BFF; ++low) {
    const float a = f16_to_float(static_cast<std::uint16_t>(low));
    const float b = f16_to_float(static_cast<std::uint16_t>(low + 1));
    const float middle = (a + b) / 2;  // exact in f32
    ASSERT_EQ(float_to_f16(a), low);
    ASSERT_EQ(float_to_f16(middle), low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(float_to_f16(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(float_to_f16(-std::nextafter(middle, 1e9f)), (low + 1) | 0x8000);
  }
  EXPECT_EQ(float_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_f16(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(float_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_f16(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(BF16, DecodesEveryCode) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_float(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(bits_of(value), static_cast<std::uint32_t>(bits) << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    } else {
      ASSERT_EQ(float_to_bf16(value), bits);
    }
  }
}

TEST(BF16, RoundsToNearest_TiesToTheEvenCode) {
  // All finite neighbours: the middle of two codes has the lower half 0x8000.
  for (std::uint32_t low = 0; low < 0x7F80; ++low) {
    const float middle = std::bit_cast<float>(low << 16 | 0x8000u);
    ASSERT_EQ(float_to_bf16(middle), low + (low & 1));
    ASSERT_EQ(float_to_bf16(std::bit_cast<float>(bits_of(middle) - 1)), low);
    ASSERT_EQ(float_to_bf16(std::bit_cast<float>(bits_of(middle) + 1)), low + 1);
  }
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);  // rounds up to infinity
}

TEST(BF16, KeepsNan_WhosePayloadIsInTheLowerHalf) {
  const std::uint16_t bits = float_to_bf16(std::bit_cast<float>(0x7F800001u));
  EXPECT_TRUE(std::isnan(bf16_to_float(bits)));
}

TEST(ConvertToFloat, ReadsUnalignedElementsOfEachType) {
  const auto convert = [](DType dtype, auto... elements) {
    std::vector<std::byte> bytes(1);  // one byte of misalignment
    [[maybe_unused]] const auto append = [&bytes](auto element) {
      const auto* begin = reinterpret_cast<const std::byte*>(&element);
      bytes.insert(bytes.end(), begin, begin + sizeof(element));
    };
    (append(elements), ...);
    std::vector<float> result(sizeof...(elements));
    convert_to_float(dtype, std::span(bytes).subspan(1), result);
    return result;
  };
  using Floats = std::vector<float>;
  using U16 = std::uint16_t;
  using U8 = std::uint8_t;
  EXPECT_EQ(convert(DType::kF32, 1.5f, -2.0f), (Floats{1.5f, -2.0f}));
  EXPECT_EQ(convert(DType::kBF16, U16{0x3FC0}, U16{0xC000}, U16{0}), (Floats{1.5f, -2.0f, 0.0f}));
  EXPECT_EQ(convert(DType::kF16, U16{0x3E00}, U16{0xC000}), (Floats{1.5f, -2.0f}));
  EXPECT_EQ(convert(DType::kF8E4M3, U8{0x3C}, U8{0xC0}, U8{0x7E}), (Floats{1.5f, -2.0f, 448.0f}));
  EXPECT_EQ(convert(DType::kF32), Floats());
}

TEST(ConvertToFloat, RefusesSizesThatDisagree) {
  const std::vector<std::byte> bytes(5);
  std::vector<float> result(2);
  EXPECT_THROW(convert_to_float(DType::kBF16, bytes, result), LogicError);
}

TEST(ConvertFromFloat, RoundsRowsOfAnyLengthLikeOneElement) {
  for (std::size_t n = 0; n < 100; ++n) {
    std::vector<float> source(n);
    for (std::size_t i = 0; i < n; ++i) {
      // Small and large, ties, infinities and NaN.
      source[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i * n) * 0x0A3B8000u);
    }
    if (n > 7) source[7] = std::bit_cast<float>(0xFF800001u);
    std::vector<std::uint16_t> rounded(n);
    convert_from_float(DType::kBF16, source, std::as_writable_bytes(std::span(rounded)));
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(rounded[i], float_to_bf16(source[i])) << n;
  }
}

TEST(ConvertFromFloat, CopiesF32AndRoundsBf16AtAnyAlignment) {
  const std::vector<float> values = {1.0F, -2.5F, 1.00390625F, 1.01171875F, 3e38F};
  std::vector<std::byte> bytes(1 + values.size() * 4);
  convert_from_float(DType::kF32, values, std::span(bytes).subspan(1));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(load_element(DType::kF32, bytes.data() + 1 + i * 4), values[i]);
  }
  convert_from_float(DType::kBF16, values, std::span(bytes).subspan(1, values.size() * 2));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(load_element(DType::kBF16, bytes.data() + 1 + i * 2),
              bf16_to_float(float_to_bf16(values[i])));
  }
}

TEST(ConvertFromFloat, RefusesOtherTypesAndSizesThatDisagree) {
  const std::vector<float> values(3);
  std::vector<std::byte> bytes(12);
  EXPECT_THROW(convert_from_float(DType::kBF16, values, bytes), LogicError);
  EXPECT_THROW(convert_from_float(DType::kF16, values, std::span(bytes).first(6)), LogicError);
}

TEST(DTypeNames, AreInvertible) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3}) {
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_name(DType::kF8E4M3), "F8_E4M3");
  EXPECT_EQ(dtype_from_name("F8_E5M2"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
  EXPECT_EQ(element_bytes(DType::kF32), 4u);
  EXPECT_EQ(element_bytes(DType::kF8E4M3), 1u);
}

}  // namespace
}  // namespace ft
