#include "kernels/cpu/int8_inputs.h"

#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/weight_layout.h"

#include <algorithm>

namespace ft::kernels {
namespace {

constexpr std::size_t kRowAlignment = 64;

std::size_t padded_row_bytes(std::size_t n_cols) noexcept {
  return round_up(int8_row_bytes(n_cols), kRowAlignment);
}

}  // namespace

std::size_t Int8Inputs::most_rows(std::size_t n_cols) const noexcept {
  return std::max<std::size_t>(1, buffer_.size() / padded_row_bytes(n_cols));
}

std::size_t Int8Inputs::most_bytes(std::uint64_t n_values) const noexcept {
  // A row fills up its last group and line: narrow rows take up to so many bytes per value.
  constexpr std::uint64_t kMostPerValue = 2;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(buffer_.size(), n_values * kMostPerValue));
}

bool Int8Inputs::add_input(std::size_t index,
                           ConstMatrix x,
                           const std::uint32_t* rows,
                           std::size_t n_rows,
                           std::size_t n_wanted) noexcept {
  const std::size_t row_bytes = padded_row_bytes(x.n_cols);
  const std::size_t room = (buffer_.size() - n_bytes_) / row_bytes;
  for (std::size_t i = 0; i < n_inputs_; ++i) {
    const Input& input = inputs_[i];
    if (input.rows == nullptr && input.x.data == x.data && input.x.n_cols == x.n_cols &&
        input.x.stride == x.stride && input.n_rows >= (rows == nullptr ? n_rows : x.n_rows)) {
      views_[index] = {input.codes, input.row_bytes, rows};
      return true;
    }
  }
  // Ops that gather from one input share a copy of all of it, unless they want fewer rows than it
  // has or it is too large.
  const bool is_whole = rows == nullptr || (x.n_rows <= n_wanted && x.n_rows <= room);
  const std::size_t n = rows == nullptr ? n_rows : is_whole ? x.n_rows : n_rows;
  if (n > room) {
    return false;
  }
  Input& input = inputs_[n_inputs_++];
  input = {x, is_whole ? nullptr : rows, n, buffer_.data() + n_bytes_, row_bytes};
  n_bytes_ += n * row_bytes;
  views_[index] = {input.codes, row_bytes, is_whole ? rows : nullptr};
  return true;
}

}  // namespace ft::kernels
