// Inputs to int8 (int8_rows.h), for any vector width. Included after vec.h.
#pragma once

#include "kernels/cpu/int8_rows.h"

namespace ft::kernels::FT_ISA {

/// Up to kQuantGroup values to codes.
FT_INLINE Int8Group quantize_group(const Vec (&x)[kQuantGroup / kLanes],
                                   std::int8_t* codes) noexcept {
  Vec magnitude = zero();
  Vec defect = zero();  // not 0 if a value is not finite
  for (const Vec& v : x) {
    magnitude = max(magnitude, max(v, sub(zero(), v)));
    defect = fma(v, zero(), defect);
  }
  const float largest = max_lanes(magnitude);
  const bool is_finite = sum_lanes(defect) == 0;
  const bool has_codes = is_finite && largest >= kSmallestInput;
  const Vec inverse = broadcast(has_codes ? kLargestInt8 / largest : 0.0f);
  Vec sum = zero();  // exact
  for (std::size_t i = 0; i < kQuantGroup / kLanes; ++i) {
    const Vec code = has_codes ? round(mul(x[i], inverse)) : zero();
    store_int8(codes + i * kLanes, code);
    sum = add(sum, code);
  }
  const float scale = has_codes ? largest / kLargestInt8 : 0.0f;
  return {is_finite ? scale : __builtin_nanf(""), -static_cast<std::int32_t>(sum_lanes(sum))};
}

// Included once per instruction set, so each namespace gets one definition.
// NOLINTNEXTLINE(misc-definitions-in-headers): see above
void quantize_row(const float* x, std::size_t n, std::byte* row) noexcept {
  const std::size_t n_blocks = (n + kQuantGroup - 1) / kQuantGroup;
  auto* codes = reinterpret_cast<std::int8_t*>(row);
  auto* groups = reinterpret_cast<Int8Group*>(row + n_blocks * kQuantGroup);
  for (std::size_t block = 0; block < n_blocks; ++block) {
    Vec values[kQuantGroup / kLanes];
    for (std::size_t i = 0; i < kQuantGroup / kLanes; ++i) {
      const std::size_t k = block * kQuantGroup + i * kLanes;
      values[i] = k + kLanes <= n ? load(x + k) : k < n ? load_partial(x + k, n - k) : zero();
    }
    groups[block] = quantize_group(values, codes + block * kQuantGroup);
  }
}

}  // namespace ft::kernels::FT_ISA
