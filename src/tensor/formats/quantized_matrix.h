// Integer weights in panels: the layout of containers on disk and of kernels in memory, the same
// for every instruction set. formats/q8.h and formats/q4.h say how a block's codes lie.
//
// A *panel* is kPanelRows consecutive outputs, a *block* one panel times kQuantGroup columns.
// Codes: panels in order, in each its blocks in order of columns, code_bytes(format) each. Scales:
// in the same order, kPanelRows of `scale_dtype` per block. Value of output o, column k = code(o,
// k) * scale(o, k / kQuantGroup), codes signed integers. Absent outputs and columns of the last
// panel and block have code 0 and scale 0.
#pragma once

#include "tensor/dtype.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ft {

inline constexpr std::size_t kPanelRows = 16;
/// Columns that share a scale.
inline constexpr std::size_t kQuantGroup = 64;
/// Neighbouring columns of one output that lie together in a block.
inline constexpr std::size_t kQuantStep = 4;

enum class QuantFormat : std::uint8_t { kQ8, kQ4 };

/// "q8", "q4".
std::string_view quant_format_name(QuantFormat format) noexcept;
std::optional<QuantFormat> quant_format_from_name(std::string_view name) noexcept;
/// Bytes of the codes of one block: 1024 or 512.
std::size_t block_code_bytes(QuantFormat format) noexcept;

/// A view. `codes` is 64-byte aligned; scales are bf16 in the project's containers, f32 in what is
/// repacked from others.
struct QuantMatrix {
  QuantFormat format = QuantFormat::kQ8;
  DType scale_dtype = DType::kBF16;  // kBF16 or kF32
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;

  std::size_t n_panels() const noexcept { return (n_rows + kPanelRows - 1) / kPanelRows; }
  std::size_t n_blocks() const noexcept {
    return (n_cols + kQuantGroup - 1) / kQuantGroup;
  }  // of a panel
  std::size_t code_bytes() const noexcept;
  std::size_t scale_bytes() const noexcept;
  /// The code of one element, and the scale it shares with its group.
  int code(std::size_t r, std::size_t c) const noexcept;
  float scale(std::size_t r, std::size_t c) const noexcept;
  /// The value of one element in f32: the reference conversion, one rounding.
  float at(std::size_t r, std::size_t c) const noexcept;
  /// Rows [begin, begin + n) of the same matrix; `begin` is a multiple of kPanelRows, and so is n
  /// unless the rows are the last ones.
  QuantMatrix rows(std::size_t begin, std::size_t n) const noexcept;
};

/// Quantizes one panel. `rows`: up to kPanelRows rows of n_cols finite f32, row i at rows + i *
/// stride. Writes all blocks of the panel: codes [n_blocks * block_code_bytes], scales [n_blocks *
/// kPanelRows] of bf16. Deterministic: a function of each row alone. q8: scale = largest magnitude
/// / 127; q4: the scale of least squared error.
void quantize_panel(QuantFormat format,
                    const float* rows,
                    std::size_t n_rows,
                    std::size_t n_cols,
                    std::size_t stride,
                    std::byte* codes,
                    std::byte* scales) noexcept;

/// Writes one block of codes, row-major in `codes`, in the format's order.
void store_block(QuantFormat format,
                 const std::int8_t (&codes)[kPanelRows][kQuantGroup],
                 std::byte* to) noexcept;

/// Gate and up as one matrix for the kernels' swiglu(): panels alternate, panel 2j holds gate's
/// panel j and panel 2j + 1 that of up. Its n_rows counts whole panels, 2 * kPanelRows * n_panels()
/// of either. Both have the same shape, format and scale_dtype; destinations hold twice the
/// code_bytes() and scale_bytes() of either.
QuantMatrix interleave_gate_up(const QuantMatrix& gate,
                               const QuantMatrix& up,
                               std::byte* codes,
                               std::byte* scales) noexcept;

}  // namespace ft
