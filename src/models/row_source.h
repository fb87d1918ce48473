// Rows of a stored matrix as f32, read from its shard when they are asked for. Used by the
// conversion, which never maps a checkpoint.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/integer_rows.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ft::models {

/// Memory of one thread.
struct RowScratch {
  std::vector<std::byte> bytes;
  std::vector<std::byte> scale_bytes;
  std::vector<float> rows;
};

/// Immutable; safe to read from several threads, each with its scratch.
class RowSource {
 public:
  /// A matrix of elements. Reads the block scales of an fp8 matrix.
  RowSource(const checkpoint::Checkpoint& checkpoint,
            const std::string& name,
            std::size_t block_rows,
            std::size_t block_cols);
  /// A matrix of integers by rows.
  RowSource(const checkpoint::Checkpoint& checkpoint,
            const std::string& name,
            const checkpoint::IntegerLayout& layout,
            std::size_t n_rows,
            std::size_t n_cols);

  /// "tensor 'x' (shard 'y')", for errors.
  std::string where() const;
  std::size_t n_rows() const noexcept { return n_rows_; }
  std::size_t n_cols() const noexcept { return n_cols_; }
  /// destination [n, n_cols] = rows [first, first + n). Throws InvalidInput naming tensor and shard
  /// if a value is not finite, IoError.
  void read(std::size_t first, std::size_t n, float* destination, RowScratch& scratch) const;
  /// Of integers: rows [first, first + n) as they are; the view lives in `scratch`.
  checkpoint::IntegerRows read_integers(std::size_t first,
                                        std::size_t n,
                                        RowScratch& scratch) const;

 private:
  void read_elements(std::size_t first,
                     std::size_t n,
                     float* destination,
                     RowScratch& scratch) const;

  const checkpoint::Checkpoint* checkpoint_;
  std::string name_;
  std::size_t shard_ = 0;
  std::uint64_t offset_ = 0;
  std::size_t n_rows_ = 0;
  std::size_t n_cols_ = 0;
  DType dtype_ = DType::kF32;
  std::vector<float> scales_;  // fp8: [ceil(n_rows / block_rows), ceil(n_cols / block_cols)]
  std::size_t block_rows_ = 1;
  std::size_t block_cols_ = 1;
  unsigned bits_ = 0;  // of integers; 0: elements
  std::size_t group_cols_ = 0;
  std::size_t scale_shard_ = 0;
  std::uint64_t scale_offset_ = 0;
};

}  // namespace ft::models
