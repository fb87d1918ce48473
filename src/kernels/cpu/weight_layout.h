// How the CPU backends lay out weights. Owns packing; knows no instruction set, only the
// description each one gives.
//
// Outputs run across vector lanes and K is sequential. A *unit* is `unit_outputs` consecutive
// outputs; a *group* is one unit times kGroupCols columns, stored in the order that suits the
// unit's decoder. A *tile* is `tile_units` units: for each column group in order, the groups of its
// units. The last tile may hold fewer units; absent outputs and columns are zeros. So a tile is one
// sequential stream, read once for however many rows.
//
// Behind the tiles of an fp8 weight stand its scales, expanded to one f32 per output and segment:
// [n_segments, padded outputs]. A segment is a run of columns that share a scale; borders need not
// fall on column groups. If the format asks for them, marks follow: [n_units, words of kMarkedCols
// columns]; bit i of a word is set if its group i holds a code of exponent 0 (zero or subnormal),
// about one group in a hundred of trained weights.
//
// For gate and up the units alternate: unit 2j holds gate outputs, unit 2j + 1 the up outputs of
// the same columns of y.
#pragma once

#include "kernels/kernels.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ft::kernels {

inline constexpr std::size_t kGroupCols = 4;
inline constexpr std::size_t kMaxUnitOutputs = 16;
inline constexpr std::size_t kMaxGroup = kMaxUnitOutputs * kGroupCols;

/// One instruction set's choice.
struct WeightFormat {
  std::size_t unit_outputs = 1;
  std::size_t tile_units = 1;
  /// Per dtype: where element (output o, column k) of a group goes, in elements, at index k *
  /// unit_outputs + o.
  const std::uint8_t* positions[4] = {nullptr, nullptr, nullptr, nullptr};
  /// The decoder's results times this are the fp8 values; folded into the scales. A power of two.
  float f8_factor = 1;
  /// The decoder is faster where no fp8 code is tiny and wants to know where one is.
  bool marks_tiny_f8 = false;
};

/// Columns whose groups share a word of marks, a bit per group.
inline constexpr std::size_t kMarkedCols = 32 * kGroupCols;

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) noexcept {
  return (n + multiple - 1) / multiple * multiple;
}

/// Units of a weight with n_out outputs; of gate and up together if `interleaved`.
std::size_t count_units(const WeightFormat& format, std::size_t n_out, bool interleaved) noexcept;
/// Tiles of a packed weight.
std::size_t count_tiles(const WeightFormat& format, std::size_t n_units) noexcept;
/// Bytes of one full tile.
std::size_t tile_bytes(const WeightFormat& format, const Weight& weight) noexcept;

/// Bytes for pack_weight(), scales included. Parts as in Backend::pack, or {gate, up} if
/// `interleaved`. Throws LogicError unless the parts agree in columns, dtype and scale layout along
/// columns.
std::size_t packed_weight_bytes(const WeightFormat& format,
                                std::span<const StoredMatrix> parts,
                                bool interleaved);
/// Writes tiles and scales. A NaN code of fp8 makes its output's scale NaN, so the result is NaN as
/// it must be.
Weight pack_weight(const WeightFormat& format,
                   std::span<const StoredMatrix> parts,
                   bool interleaved,
                   std::span<std::byte> destination);

}  // namespace ft::kernels
