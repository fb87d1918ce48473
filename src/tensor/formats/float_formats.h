// Reference conversions between stored floating-point formats and f32. Every other implementation
// is tested against these.
#pragma once

#include "tensor/dtype.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ft {

/// Exact: bf16 is the upper half of an f32.
float bf16_to_float(std::uint16_t bits) noexcept;
/// Round to nearest, ties to even; NaN stays NaN.
std::uint16_t float_to_bf16(float value) noexcept;
/// IEEE binary16, exact, subnormals included.
float f16_to_float(std::uint16_t bits) noexcept;
/// Round to nearest, ties to even; beyond the largest value infinity; NaN stays NaN.
std::uint16_t float_to_f16(float value) noexcept;
/// OCP 8-bit E4M3 (no infinities, 0x7f and 0xff are NaN, largest 448), exact.
float f8e4m3_to_float(std::uint8_t bits) noexcept;
/// Round to nearest, ties to even; saturates at 448; NaN stays NaN.
std::uint8_t float_to_f8e4m3(float value) noexcept;

/// One element of a stored array: `data` points at its first byte (any alignment).
float load_element(DType dtype, const std::byte* data) noexcept;

/// destination[i] = element i of `source` (contiguous, any alignment). source.size() = n *
/// element_bytes(dtype).
void convert_to_float(DType dtype, std::span<const std::byte> source, std::span<float> destination);

/// The other way for kF32 and kBF16: copied, or rounded to nearest, ties to even.
/// destination.size() = n * element_bytes(dtype), any alignment.
void convert_from_float(DType dtype,
                        std::span<const float> source,
                        std::span<std::byte> destination);

}  // namespace ft
