// Cache rows as the attention kernels read them. Included by an instruction set's files after its
// vec.h.
//
// f32 rows are read in place. bf16 rows are widened, exactly, into scratch memory that stays in the
// L1 cache: once for all heads of a task, where widening in registers would cost two operations per
// key vector and block of heads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ft::kernels::FT_ISA {

/// Keys that are taken together, so that they stay in the L1 cache while all heads pass.
constexpr std::size_t kKeyTile = 16;
/// Keys of one run of a strip of columns.
constexpr std::size_t kRunKeys = 64;

/// Some columns of some rows: column c of row j is rows[j][column + c].
struct KeyView {
  const float* const* rows;
  std::size_t column;
};

/// Where widened rows go.
struct KeyScratch {
  float* values;  // room for all of a view
  const float* rows[kRunKeys];
};

/// n rows from `column` on, n <= kRunKeys. Rows up to a multiple of kKeyTile must be readable.
FT_INLINE KeyView view_keys(const float* const* keys,
                            std::size_t /*n*/,
                            std::size_t column,
                            std::size_t /*n_columns*/,
                            KeyScratch& /*scratch*/) noexcept {
  return {keys, column};
}

FT_INLINE void widen_elements(const std::uint16_t* from, std::size_t n, float* to) noexcept {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(to + i, widen_bf16(from + i));
  }
  for (; i < n; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(from[i]) << 16;
    __builtin_memcpy(to + i, &bits, sizeof(bits));
  }
}

static inline KeyView view_keys(const std::uint16_t* const* keys,
                                std::size_t n,
                                std::size_t column,
                                std::size_t n_columns,
                                KeyScratch& scratch) noexcept {
  float* to = scratch.values;
  for (std::size_t j = 0; j < n; ++j, to += n_columns) {
    widen_elements(keys[j] + column, n_columns, to);
    scratch.rows[j] = to;
  }
  for (std::size_t j = n; j % kKeyTile != 0; ++j) {
    scratch.rows[j] = scratch.rows[n - 1];
  }
  return {scratch.rows, 0};
}

}  // namespace ft::kernels::FT_ISA
