#include "tensor/formats/quantized_matrix.h"

#include "tensor/formats/float_formats.h"
#include "tensor/formats/q4.h"
#include "tensor/formats/q8.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace ft {

std::string_view quant_format_name(QuantFormat format) noexcept {
  switch (format) {
    case QuantFormat::kQ8:
      return "q8";
    case QuantFormat::kQ4:
      return "q4";
  }
  return "";
}

std::optional<QuantFormat> quant_format_from_name(std::string_view name) noexcept {
  for (const QuantFormat format : {QuantFormat::kQ8, QuantFormat::kQ4}) {
    if (name == quant_format_name(format)) {
      return format;
    }
  }
  return std::nullopt;
}

std::size_t block_code_bytes(QuantFormat format) noexcept {
  return format == QuantFormat::kQ8 ? sizeof(Q8Block) : sizeof(Q4Block);
}

std::size_t QuantMatrix::code_bytes() const noexcept {
  return n_panels() * n_blocks() * block_code_bytes(format);
}

std::size_t QuantMatrix::scale_bytes() const noexcept {
  return n_panels() * n_blocks() * kPanelRows * element_bytes(scale_dtype);
}

int QuantMatrix::code(std::size_t r, std::size_t c) const noexcept {
  const std::size_t block = r / kPanelRows * n_blocks() + c / kQuantGroup;
  const std::byte* at = codes + block * block_code_bytes(format);
  return format == QuantFormat::kQ8
             ? reinterpret_cast<const Q8Block*>(at)->code(r % kPanelRows, c % kQuantGroup)
             : reinterpret_cast<const Q4Block*>(at)->code(r % kPanelRows, c % kQuantGroup);
}

float QuantMatrix::scale(std::size_t r, std::size_t c) const noexcept {
  const std::size_t block = r / kPanelRows * n_blocks() + c / kQuantGroup;
  const std::size_t index = block * kPanelRows + r % kPanelRows;
  return load_element(scale_dtype, scales + index * element_bytes(scale_dtype));
}

float QuantMatrix::at(std::size_t r, std::size_t c) const noexcept {
  return static_cast<float>(code(r, c)) * scale(r, c);
}

QuantMatrix QuantMatrix::rows(std::size_t begin, std::size_t n) const noexcept {
  assert(begin % kPanelRows == 0 && begin + n <= n_rows);
  assert(n % kPanelRows == 0 || begin + n == n_rows);
  const std::size_t block = begin / kPanelRows * n_blocks();
  QuantMatrix part = *this;
  part.codes += block * block_code_bytes(format);
  part.scales += block * kPanelRows * element_bytes(scale_dtype);
  part.n_rows = n;
  return part;
}

void store_block(QuantFormat format,
                 const std::int8_t (&codes)[kPanelRows][kQuantGroup],
                 std::byte* to) noexcept {
  const auto store = [&](auto* block) {
    for (std::size_t r = 0; r < kPanelRows; ++r) {
      for (std::size_t c = 0; c < kQuantGroup; ++c) {
        block->set_code(r, c, codes[r][c]);
      }
    }
  };
  if (format == QuantFormat::kQ8) {
    store(reinterpret_cast<Q8Block*>(to));
  } else {
    store(reinterpret_cast<Q4Block*>(to));
  }
}

void quantize_panel(QuantFormat format,
                    const float* rows,
                    std::size_t n_rows,
                    std::size_t n_cols,
                    std::size_t stride,
                    std::byte* codes,
                    std::byte* scales) noexcept {
  for (std::size_t begin = 0; begin < n_cols; begin += kQuantGroup) {
    const std::size_t n = std::min(kQuantGroup, n_cols - begin);
    std::int8_t block[kPanelRows][kQuantGroup] = {};
    std::uint16_t block_scales[kPanelRows] = {};
    for (std::size_t r = 0; r < n_rows; ++r) {
      float group[kQuantGroup] = {};
      std::copy_n(rows + r * stride + begin, n, group);
      const float scale = format == QuantFormat::kQ8 ? quantize_q8_group(group, block[r])
                                                     : quantize_q4_group(group, block[r]);
      block_scales[r] = float_to_bf16(scale);  // exact: it is a bf16 value
    }
    store_block(format, block, codes);
    std::memcpy(scales, block_scales, sizeof block_scales);
    codes += block_code_bytes(format);
    scales += sizeof block_scales;
  }
}

QuantMatrix interleave_gate_up(const QuantMatrix& gate,
                               const QuantMatrix& up,
                               std::byte* codes,
                               std::byte* scales) noexcept {
  assert(gate.format == up.format && gate.scale_dtype == up.scale_dtype);
  assert(gate.n_rows == up.n_rows && gate.n_cols == up.n_cols);
  const std::size_t panel_codes = gate.n_blocks() * block_code_bytes(gate.format);
  const std::size_t panel_scales = gate.n_blocks() * kPanelRows * element_bytes(gate.scale_dtype);
  for (std::size_t panel = 0; panel < 2 * gate.n_panels(); ++panel) {
    const QuantMatrix& part = panel % 2 == 0 ? gate : up;
    std::memcpy(codes + panel * panel_codes, part.codes + panel / 2 * panel_codes, panel_codes);
    std::memcpy(
        scales + panel * panel_scales, part.scales + panel / 2 * panel_scales, panel_scales);
  }
  QuantMatrix pair = gate;
  pair.codes = codes;
  pair.scales = scales;
  pair.n_rows = 2 * kPanelRows * gate.n_panels();
  return pair;
}

}  // namespace ft
