// Synthetic matrices for the kernel tests. Linked by tests only.
#pragma once

#include "base/buffer.h"
#include "kernels/kernels.h"
#include "tensor/formats/float_formats.h"
#include "tensor/matrix.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace ft::kernels {

/// Owns what a StoredMatrix views.
struct TestMatrix {
  std::vector<std::byte> bytes;
  std::vector<float> scales;
  StoredMatrix matrix;

  /// Exact value of one element, before any rounding.
  double exact(std::size_t r, std::size_t c) const {
    StoredMatrix raw = matrix;
    raw.scales = nullptr;
    if (matrix.scales == nullptr) {
      return raw.at(r, c);
    }
    const std::size_t index =
        (r + matrix.row_origin) / matrix.block_rows * matrix.scale_row_stride +
        (c + matrix.col_origin) / matrix.block_cols * matrix.scale_col_stride;
    return double{raw.at(r, c)} * double{scales[index]};
  }
};

struct TestMatrixShape {
  DType dtype = DType::kF32;
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;
  std::size_t block = 0;       // 0: no scales
  std::size_t row_origin = 0;  // of the part within its blocks
  std::size_t col_origin = 0;
  bool is_transposed = false;  // columns are contiguous in memory
};

inline float normal(std::mt19937& rng) {
  // Sum of uniforms: the standard distributions differ between libraries.
  float sum = -6;
  for (int i = 0; i < 12; ++i) {
    sum += static_cast<float>(rng()) * 0x1p-32f;
  }
  return sum;
}

inline std::vector<float> random_floats(std::size_t n, std::mt19937& rng) {
  std::vector<float> values(n);
  for (float& value : values) {
    value = normal(rng);
  }
  return values;
}

inline void store_element(DType dtype, float value, std::byte* to) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(to, &value, 4);
      break;
    case DType::kBF16: {
      const std::uint16_t bits = float_to_bf16(value);
      std::memcpy(to, &bits, 2);
      break;
    }
    case DType::kF16: {
      // Every finite half is a fair weight; exponents up to 2^1 keep sums moderate.
      std::uint16_t bits = 0;
      std::uint32_t word = 0;
      std::memcpy(&word, &value, 4);
      bits = static_cast<std::uint16_t>((word >> 16 & 0x8000u) | (word >> 7 & 0x3FFFu));
      std::memcpy(to, &bits, 2);
      break;
    }
    case DType::kF8E4M3: {
      const std::uint8_t bits = float_to_f8e4m3(value);
      std::memcpy(to, &bits, 1);
      break;
    }
  }
}

inline TestMatrix make_matrix(const TestMatrixShape& shape, std::mt19937& rng) {
  TestMatrix test;
  const std::size_t width = element_bytes(shape.dtype);
  const std::size_t row_stride = shape.is_transposed ? 1 : shape.n_cols + 3;
  const std::size_t col_stride = shape.is_transposed ? shape.n_rows + 3 : 1;
  const std::size_t n = shape.is_transposed ? col_stride * shape.n_cols : row_stride * shape.n_rows;
  test.bytes.resize(n * width);
  for (std::size_t i = 0; i < n; ++i) {
    // fp8 values span the whole format, subnormals and zeros included.
    const float spread =
        shape.dtype == DType::kF8E4M3 ? std::exp2(static_cast<float>(rng() % 18) - 11) : 1;
    store_element(shape.dtype, normal(rng) * spread, test.bytes.data() + i * width);
  }
  test.matrix = {.dtype = shape.dtype,
                 .data = test.bytes.data(),
                 .n_rows = shape.n_rows,
                 .n_cols = shape.n_cols,
                 .row_stride = row_stride,
                 .col_stride = col_stride};
  if (shape.block != 0) {
    const std::size_t rows = (shape.row_origin + shape.n_rows + shape.block - 1) / shape.block;
    const std::size_t cols = (shape.col_origin + shape.n_cols + shape.block - 1) / shape.block;
    test.scales.resize(rows * cols);
    for (float& scale : test.scales) {
      scale = std::exp2(normal(rng)) * 0.01f;
    }
    test.matrix.scales = reinterpret_cast<const std::byte*>(test.scales.data());
    test.matrix.block_rows = shape.block;
    test.matrix.block_cols = shape.block;
    test.matrix.scale_row_stride = cols;
    test.matrix.row_origin = shape.row_origin;
    test.matrix.col_origin = shape.col_origin;
  }
  return test;
}

/// A packed weight with its bytes.
struct PackedWeight {
  Buffer bytes;
  Weight weight;
};

inline PackedWeight pack(const Backend& backend, std::span<const StoredMatrix> parts) {
  PackedWeight packed;
  packed.bytes = Buffer(backend.packed_bytes(parts));
  packed.weight = backend.pack(parts, {packed.bytes.data(), packed.bytes.size()});
  return packed;
}

inline PackedWeight pack_gate_up(const Backend& backend,
                                 const StoredMatrix& gate,
                                 const StoredMatrix& up) {
  PackedWeight packed;
  packed.bytes = Buffer(backend.packed_gate_up_bytes(gate, up));
  packed.weight = backend.pack_gate_up(gate, up, {packed.bytes.data(), packed.bytes.size()});
  return packed;
}

}  // namespace ft::kernels
