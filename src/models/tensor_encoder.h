// Makes the bytes of one tensor of a container, strip by strip, so that threads share the work and
// memory stays bounded.
#pragma once

#include "checkpoint/checkpoint.h"
#include "models/row_source.h"
#include "models/weight_plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ft::models {

/// A tensor is `head` bytes of all strips in order, then `tail` bytes of all strips (the scales of
/// panels). Immutable; encode() may run in several threads.
class TensorEncoder {
 public:
  struct Strip {
    std::size_t head_bytes = 0;
    std::size_t tail_bytes = 0;
  };

  /// `packing` in panels with bf16 scales.
  static TensorEncoder quantized(const WeightPlan& plan, const Packing& packing, QuantFormat to);
  /// `packing`, which is of integers by rows, in panels with f32 scales: the same values.
  static TensorEncoder repacked(const WeightPlan& plan, const Packing& packing);
  /// The weight of `packing` as f32.
  static TensorEncoder weight_as_f32(const WeightPlan& plan, const Packing& packing);
  /// A whole matrix as elements of another type: f32, bf16 or f16.
  static TensorEncoder converted(const WeightPlan& plan, const std::string& name, DType to);
  /// A tensor as it is.
  static TensorEncoder copied(const checkpoint::Checkpoint& checkpoint, const std::string& name);

  std::size_t n_strips() const noexcept { return n_strips_; }
  Strip strip(std::size_t index) const noexcept;
  /// Throws InvalidInput naming the tensor and its shard, IoError.
  void encode(std::size_t index, std::byte* head, std::byte* tail, RowScratch& scratch) const;

 private:
  enum class Kind { kQuantize, kRepack, kConvert, kCopy };

  TensorEncoder() = default;
  void set_rows(std::size_t n_rows, std::size_t n_cols, std::size_t strip_rows) noexcept;
  /// Rows of one strip of the weight, [rows, n_cols_] in scratch.rows.
  std::size_t read_strip(std::size_t index, RowScratch& scratch) const;
  void convert_strip(std::size_t n, std::byte* head, const RowScratch& scratch) const;

  Kind kind_ = Kind::kCopy;
  std::vector<RowSource> sources_;  // one, or gate and up
  MatrixPart::Orientation orientation_ = MatrixPart::Orientation::kAsStored;
  std::size_t first_row_ = 0;  // of the part, in the source
  std::size_t n_rows_ = 0;     // of the weight, of each source
  std::size_t n_cols_ = 0;
  std::size_t strip_rows_ = 0;
  std::size_t n_strips_ = 0;
  QuantFormat format_ = QuantFormat::kQ8;
  DType dtype_ = DType::kF32;
  const checkpoint::Checkpoint* checkpoint_ = nullptr;  // kCopy
  std::size_t shard_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace ft::models
