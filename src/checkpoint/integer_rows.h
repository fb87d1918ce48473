// Integer matrices by rows, as colibri's files hold them: `<name>` in U8 and `<name>.qs`, f32
// scales. The files do not say what they hold; it follows from byte counts, or it is refused.
#pragma once

#include "checkpoint/checkpoint.h"
#include "tensor/formats/quantized_matrix.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::checkpoint {

/// How such a matrix is to be read.
struct IntegerLayout {
  unsigned bits = 8;        // 8: signed bytes; 4: nibble - 8, the even column in the low one
  std::uint64_t group = 0;  // columns per scale; 0: one scale per row

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 means the 0 that comparisons return
  auto operator<=>(const IntegerLayout&) const = default;
};

/// A view, with a whole group in `group_cols`.
struct IntegerRows {
  unsigned bits = 8;
  std::size_t n_rows = 0;
  std::size_t n_cols = 0;
  std::size_t group_cols = 0;  // columns per scale
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;  // f32, possibly unaligned

  std::size_t row_bytes() const noexcept { return bits == 8 ? n_cols : (n_cols + 1) / 2; }
  int code(std::size_t r, std::size_t c) const noexcept;
  float scale(std::size_t r, std::size_t c) const noexcept;
  /// code * scale: the reference conversion.
  float at(std::size_t r, std::size_t c) const noexcept;
  /// Rows [begin, begin + n).
  IntegerRows rows(std::size_t begin, std::size_t n) const noexcept;
};

/// Whether `name` is stored so.
bool is_integer_matrix(const Checkpoint& checkpoint, std::string_view name);

/// All layouts that fit a matrix [n_rows, n_cols] of so many bytes.
std::vector<IntegerLayout> fitting_layouts(std::uint64_t code_bytes,
                                           std::uint64_t n_scales,
                                           std::uint64_t n_rows,
                                           std::uint64_t n_cols);

/// Decides the layout of every matrix of a checkpoint. What byte counts leave open, the layouts of
/// the checkpoint's other matrices decide: blocks of fp8 and 8 bits by rows can have the same
/// counts, as can two group sizes.
class IntegerLayouts {
 public:
  /// A matrix that the model needs; is_integer_matrix(name) holds.
  void add(const Checkpoint& checkpoint,
           std::string name,
           std::uint64_t n_rows,
           std::uint64_t n_cols);
  /// Throws InvalidInput naming a matrix whose layout is unknown, ambiguous, or in groups that
  /// panels cannot hold (64 columns or a multiple can be).
  void decide();
  bool empty() const noexcept { return matrices_.empty(); }
  /// After decide().
  const IntegerLayout& layout(std::string_view name) const;
  /// Mapped bytes of a matrix. After decide(); the checkpoint is mapped.
  IntegerRows rows(const Checkpoint& checkpoint, std::string_view name) const;
  void merge(IntegerLayouts&& other);

  struct Matrix {
    std::uint64_t n_rows = 0;
    std::uint64_t n_cols = 0;
    std::uint64_t code_bytes = 0;
    std::uint64_t n_scales = 0;
    std::string shard;
    std::vector<IntegerLayout> fitting;  // one after decide()
  };
  const std::map<std::string, Matrix, std::less<>>& matrices() const noexcept { return matrices_; }

 private:
  std::map<std::string, Matrix, std::less<>> matrices_;
};

/// The same values in panels with f32 scales: rows [first_row, first_row + n) of `from` that make
/// one panel; n <= kPanelRows.
void repack_panel(const IntegerRows& from,
                  std::size_t first_row,
                  std::size_t n,
                  std::byte* codes,
                  std::byte* scales) noexcept;

}  // namespace ft::checkpoint
