#include "tensor/matrix.h"

#include "tensor/formats/float_formats.h"

#include <utility>

namespace ft {

float StoredMatrix::at(std::size_t r, std::size_t c) const noexcept {
  const float value =
      load_element(dtype, data + (r * row_stride + c * col_stride) * element_bytes(dtype));
  if (scales == nullptr) {
    return value;
  }
  const std::size_t scale_index = (r + row_origin) / block_rows * scale_row_stride +
                                  (c + col_origin) / block_cols * scale_col_stride;
  return value * load_element(DType::kF32, scales + scale_index * sizeof(float));
}

StoredMatrix StoredMatrix::rows(std::size_t begin, std::size_t n) const noexcept {
  StoredMatrix part = *this;
  part.data = data + begin * row_stride * element_bytes(dtype);
  part.n_rows = n;
  part.row_origin = row_origin + begin;
  return part;
}

StoredMatrix StoredMatrix::transposed() const noexcept {
  StoredMatrix other = *this;
  std::swap(other.n_rows, other.n_cols);
  std::swap(other.row_stride, other.col_stride);
  std::swap(other.block_rows, other.block_cols);
  std::swap(other.scale_row_stride, other.scale_col_stride);
  std::swap(other.row_origin, other.col_origin);
  return other;
}

}  // namespace ft
