#include "kernels/cpu/weight_layout.h"

#include "base/error.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace ft::kernels {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr unsigned kF8Nan = 0x7F;  // without the sign
constexpr unsigned kF8Exponent = 0x78;
/// Columns copied out of the source at once: a cache line of fp8 per row, so that each line is read
/// once and rows a power of two apart do not evict each other while they are shuffled.
constexpr std::size_t kBlockCols = 64;
static_assert(kBlockCols % kGroupCols == 0);

/// Columns of equal scale.
struct Segments {
  std::size_t first = 0;  // columns before the first border
  std::size_t block = 0;  // columns from border to border
  std::size_t count = 0;

  /// First column of segment i.
  std::size_t begin(std::size_t i) const { return i == 0 ? 0 : first + (i - 1) * block; }
};

struct Shape {
  DType dtype = DType::kF32;
  std::size_t n_out = 0;
  std::size_t n_cols = 0;
  std::size_t n_units = 0;
  Segments segments;

  std::size_t padded_cols() const { return round_up(n_cols, kGroupCols); }
};

Segments segments_of(std::span<const StoredMatrix> parts) {
  Segments segments{parts[0].n_cols, parts[0].n_cols, 1};
  for (const StoredMatrix& part : parts) {
    if (part.scales != nullptr) {
      segments.block = part.block_cols;
      segments.first = std::min(part.n_cols, part.block_cols - part.col_origin % part.block_cols);
      segments.count =
          1 + round_up(part.n_cols - segments.first, part.block_cols) / part.block_cols;
      break;
    }
  }
  return segments;
}

Shape shape_of(const WeightFormat& format, std::span<const StoredMatrix> parts, bool interleaved) {
  FT_CHECK(!parts.empty());
  FT_CHECK(!interleaved || (parts.size() == 2 && parts[0].n_rows == parts[1].n_rows));
  Shape shape;
  shape.dtype = parts[0].dtype;
  shape.n_cols = parts[0].n_cols;
  const StoredMatrix* scaled = nullptr;
  for (const StoredMatrix& part : parts) {
    FT_CHECK(part.dtype == shape.dtype && part.n_cols == shape.n_cols);
    if (part.scales != nullptr) {
      FT_CHECK(part.dtype == DType::kF8E4M3 && part.block_rows > 0 && part.block_cols > 0);
      scaled = scaled == nullptr ? &part : scaled;
      FT_CHECK(part.block_cols == scaled->block_cols &&
               part.col_origin % part.block_cols == scaled->col_origin % scaled->block_cols);
    }
    shape.n_out += part.n_rows;
  }
  shape.n_units = count_units(format, shape.n_out, interleaved);
  shape.segments = segments_of(parts);
  return shape;
}

std::size_t weight_bytes(const WeightFormat& format, const Shape& shape) {
  return round_up(
      shape.n_units * format.unit_outputs * shape.padded_cols() * element_bytes(shape.dtype),
      kAlignment);
}

/// A stored row that becomes a packed output.
struct SourceRow {
  const StoredMatrix* part = nullptr;  // nullptr: padding
  std::size_t row = 0;
};

/// The stored rows behind the outputs of one unit.
void find_rows(const WeightFormat& format,
               std::span<const StoredMatrix> parts,
               bool interleaved,
               std::size_t unit,
               SourceRow* rows) {
  for (std::size_t o = 0; o < format.unit_outputs; ++o) {
    rows[o] = {};
    if (interleaved) {
      const StoredMatrix& part = parts[unit % 2];
      const std::size_t row = unit / 2 * format.unit_outputs + o;
      if (row < part.n_rows) {
        rows[o] = {&part, row};
      }
      continue;
    }
    std::size_t row = unit * format.unit_outputs + o;
    for (const StoredMatrix& part : parts) {
      if (row < part.n_rows) {
        rows[o] = {&part, row};
        break;
      }
      row -= part.n_rows;
    }
  }
}

/// Copies columns [begin, begin + n) of the rows into block[column][output].
template <typename T>
void copy_block(
    const SourceRow* rows, std::size_t n_rows, std::size_t begin, std::size_t n, T* block) {
  for (std::size_t o = 0; o < n_rows; ++o) {
    const StoredMatrix* part = rows[o].part;
    if (part == nullptr) {
      for (std::size_t k = 0; k < n; ++k) {
        block[k * n_rows + o] = T{0};
      }
      continue;
    }
    const std::byte* source =
        part->data + (rows[o].row * part->row_stride + begin * part->col_stride) * sizeof(T);
    const std::size_t step = part->col_stride * sizeof(T);
    for (std::size_t k = 0; k < n; ++k) {
      std::memcpy(&block[k * n_rows + o], source + k * step, sizeof(T));
    }
  }
}

/// True if the rows of a unit are neighbours in memory along each column: a transposed matrix.
bool is_transposed(const SourceRow* rows, std::size_t n_rows) {
  const StoredMatrix* part = rows[0].part;
  return part != nullptr && part->row_stride == 1 && rows[n_rows - 1].part == part;
}

template <typename T>
void copy_transposed(
    const SourceRow* rows, std::size_t n_rows, std::size_t begin, std::size_t n, T* block) {
  const StoredMatrix* part = rows[0].part;
  for (std::size_t k = 0; k < n; ++k) {
    std::memcpy(block + k * n_rows,
                part->data + (rows[0].row + (begin + k) * part->col_stride) * sizeof(T),
                n_rows * sizeof(T));
  }
}

/// Words of marks of one unit.
std::size_t mark_words(const WeightFormat& format, const Shape& shape) {
  return format.marks_tiny_f8 ? round_up(shape.n_cols, kMarkedCols) / kMarkedCols : 0;
}

std::size_t scale_bytes(const WeightFormat& format, const Shape& shape) {
  return round_up(shape.segments.count * shape.n_units * format.unit_outputs * sizeof(float),
                  kAlignment);
}

/// Sets the marks of columns [begin, begin + n) from their codes, n_rows outputs of each.
void mark_tiny_codes(const std::uint8_t* codes,
                     std::size_t n_rows,
                     std::size_t begin,
                     std::size_t n,
                     std::uint32_t* marks) {
  for (std::size_t k = 0; k < n; ++k) {
    unsigned tiny = 0;
    for (std::size_t o = 0; o < n_rows; ++o) {
      tiny |= (codes[k * n_rows + o] & kF8Exponent) == 0 ? 1u : 0u;
    }
    marks[(begin + k) / kMarkedCols] |= tiny << ((begin + k) % kMarkedCols / kGroupCols);
  }
}

/// One unit's column groups, `group_stride` elements apart in the tile. True if an fp8 code is NaN.
/// `marks`: words for the unit, all zero; or nullptr.
template <typename T>
bool pack_unit(const WeightFormat& format,
               const SourceRow* rows,
               const Shape& shape,
               T* destination,
               std::size_t group_stride,
               [[maybe_unused]] std::uint32_t* marks) {
  T block[kBlockCols * kMaxUnitOutputs];
  const std::size_t n_rows = format.unit_outputs;
  const std::uint8_t* positions = format.positions[static_cast<std::size_t>(shape.dtype)];
  const bool transposed = is_transposed(rows, n_rows);
  bool has_nan = false;
  for (std::size_t begin = 0; begin < shape.n_cols; begin += kBlockCols) {
    const std::size_t n = std::min(kBlockCols, shape.n_cols - begin);
    transposed ? copy_transposed(rows, n_rows, begin, n, block)
               : copy_block(rows, n_rows, begin, n, block);
    const std::size_t padded = round_up(n, kGroupCols);
    std::fill(block + n * n_rows, block + padded * n_rows, T{0});
    if constexpr (sizeof(T) == 1) {
      unsigned nan_codes = 0;
      for (std::size_t i = 0; i < padded * n_rows; ++i) {
        nan_codes |= (block[i] & kF8Nan) == kF8Nan ? 1u : 0u;
      }
      has_nan = has_nan || nan_codes != 0;
      if (marks != nullptr) mark_tiny_codes(block, n_rows, begin, n, marks);
    }
    const std::size_t group_size = kGroupCols * n_rows;
    for (std::size_t k = 0; k < padded; k += kGroupCols) {
      T* group = destination + (begin + k) / kGroupCols * group_stride;
      for (std::size_t i = 0; i < group_size; ++i) {
        group[positions[i]] = block[k * n_rows + i];
      }
    }
  }
  return has_nan;
}

bool has_nan_code(const StoredMatrix& part, std::size_t row, std::size_t begin, std::size_t end) {
  for (std::size_t c = begin; c < end; ++c) {
    const auto code = static_cast<unsigned>(part.data[row * part.row_stride + c * part.col_stride]);
    if ((code & kF8Nan) == kF8Nan) {
      return true;
    }
  }
  return false;
}

void write_scales(const WeightFormat& format,
                  const SourceRow* rows,
                  const Shape& shape,
                  bool has_nan,
                  float* scales) {
  const std::size_t stride = shape.n_units * format.unit_outputs;
  for (std::size_t s = 0; s < shape.segments.count; ++s) {
    const std::size_t begin = shape.segments.begin(s);
    const std::size_t end =
        s + 1 == shape.segments.count ? shape.n_cols : shape.segments.begin(s + 1);
    for (std::size_t o = 0; o < format.unit_outputs; ++o) {
      float scale = 0;
      if (const StoredMatrix* part = rows[o].part) {
        scale = format.f8_factor;
        if (part->scales != nullptr) {
          const std::size_t index =
              (rows[o].row + part->row_origin) / part->block_rows * part->scale_row_stride +
              (begin + part->col_origin) / part->block_cols * part->scale_col_stride;
          scale *= load_element(DType::kF32, part->scales + index * sizeof(float));
        }
        if (has_nan && has_nan_code(*part, rows[o].row, begin, end)) {
          scale = std::numeric_limits<float>::quiet_NaN();
        }
      }
      scales[s * stride + o] = scale;
    }
  }
}

struct UnitPlace {
  std::byte* data = nullptr;     // of its first group
  std::size_t group_stride = 0;  // elements from one of its groups to the next
};

/// Tiles follow one another; within one, the groups of its units alternate.
UnitPlace place_of(const WeightFormat& format,
                   const Shape& shape,
                   std::size_t unit,
                   std::byte* weight) {
  const std::size_t first = unit / format.tile_units * format.tile_units;  // of the tile
  const std::size_t units_here = std::min(format.tile_units, shape.n_units - first);
  const std::size_t group = format.unit_outputs * kGroupCols;
  const std::size_t unit_elements = format.unit_outputs * shape.padded_cols();
  return {weight + (first * unit_elements + (unit - first) * group) * element_bytes(shape.dtype),
          group * units_here};
}

}  // namespace

std::size_t count_units(const WeightFormat& format, std::size_t n_out, bool interleaved) noexcept {
  const std::size_t n = interleaved ? n_out / 2 : n_out;
  return (interleaved ? 2 : 1) * (round_up(n, format.unit_outputs) / format.unit_outputs);
}

std::size_t count_tiles(const WeightFormat& format, std::size_t n_units) noexcept {
  return round_up(n_units, format.tile_units) / format.tile_units;
}

std::size_t tile_bytes(const WeightFormat& format, const Weight& weight) noexcept {
  return format.tile_units * format.unit_outputs * round_up(weight.n_in, kGroupCols) *
         element_bytes(weight.dtype);
}

std::size_t packed_weight_bytes(const WeightFormat& format,
                                std::span<const StoredMatrix> parts,
                                bool interleaved) {
  const Shape shape = shape_of(format, parts, interleaved);
  std::size_t bytes = weight_bytes(format, shape);
  if (shape.dtype == DType::kF8E4M3) {
    bytes += scale_bytes(format, shape);
    bytes +=
        round_up(shape.n_units * mark_words(format, shape) * sizeof(std::uint32_t), kAlignment);
  }
  return bytes;
}

Weight pack_weight(const WeightFormat& format,
                   std::span<const StoredMatrix> parts,
                   bool interleaved,
                   std::span<std::byte> destination) {
  const Shape shape = shape_of(format, parts, interleaved);
  FT_CHECK(destination.size() >= packed_weight_bytes(format, parts, interleaved));
  FT_CHECK(reinterpret_cast<std::uintptr_t>(destination.data()) % kAlignment == 0);
  float* scales = nullptr;
  std::uint32_t* marks = nullptr;
  const std::size_t n_words = mark_words(format, shape);
  if (shape.dtype == DType::kF8E4M3) {
    std::byte* tail = destination.data() + weight_bytes(format, shape);
    scales = reinterpret_cast<float*>(tail);
    if (n_words > 0) {
      marks = reinterpret_cast<std::uint32_t*>(tail + scale_bytes(format, shape));
      std::fill_n(marks, shape.n_units * n_words, 0);
    }
  }
  for (std::size_t unit = 0; unit < shape.n_units; ++unit) {
    SourceRow rows[kMaxUnitOutputs];
    find_rows(format, parts, interleaved, unit, rows);
    const auto [to, stride] = place_of(format, shape, unit, destination.data());
    switch (shape.dtype) {
      case DType::kF32:
        pack_unit(format, rows, shape, reinterpret_cast<std::uint32_t*>(to), stride, nullptr);
        break;
      case DType::kBF16:
      case DType::kF16:
        pack_unit(format, rows, shape, reinterpret_cast<std::uint16_t*>(to), stride, nullptr);
        break;
      case DType::kF8E4M3: {
        const bool has_nan = pack_unit(format,
                                       rows,
                                       shape,
                                       reinterpret_cast<std::uint8_t*>(to),
                                       stride,
                                       marks == nullptr ? nullptr : marks + unit * n_words);
        write_scales(format, rows, shape, has_nan, scales + unit * format.unit_outputs);
        break;
      }
    }
  }
  Weight weight;
  weight.data = destination.data();
  weight.scales = scales;
  weight.n_out = shape.n_out;
  weight.n_in = shape.n_cols;
  weight.first_segment = shape.segments.first;
  weight.block_cols = shape.segments.block;
  weight.tiny_marks = marks;
  weight.dtype = shape.dtype;
  return weight;
}

}  // namespace ft::kernels
