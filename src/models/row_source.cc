#include "models/row_source.h"

#include "base/error.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>

namespace ft::models {

RowSource::RowSource(const checkpoint::Checkpoint& checkpoint,
                     const std::string& name,
                     std::size_t block_rows,
                     std::size_t block_cols)
    : checkpoint_(&checkpoint), name_(name), block_rows_(block_rows), block_cols_(block_cols) {
  const checkpoint::TensorInfo* tensor = checkpoint.find(name);
  FT_CHECK(tensor != nullptr && tensor->shape.size() == 2);
  shard_ = tensor->shard;
  offset_ = tensor->offset_bytes;
  n_rows_ = static_cast<std::size_t>(tensor->shape[0]);
  n_cols_ = static_cast<std::size_t>(tensor->shape[1]);
  dtype_ = tensor->dtype;
  if (dtype_ != DType::kF8E4M3) return;
  const checkpoint::TensorInfo* scales = checkpoint.find(name + "_scale_inv");
  FT_CHECK(scales != nullptr && scales->dtype == DType::kF32);
  scales_.resize(static_cast<std::size_t>(scales->n_elements()));
  checkpoint.read(scales->shard, scales->offset_bytes, std::as_writable_bytes(std::span(scales_)));
}

RowSource::RowSource(const checkpoint::Checkpoint& checkpoint,
                     const std::string& name,
                     const checkpoint::IntegerLayout& layout,
                     std::size_t n_rows,
                     std::size_t n_cols)
    : checkpoint_(&checkpoint), name_(name), n_rows_(n_rows), n_cols_(n_cols), bits_(layout.bits) {
  const checkpoint::ForeignTensor* codes = checkpoint.find_foreign(name);
  const checkpoint::TensorInfo* scales = checkpoint.find(name + ".qs");
  FT_CHECK(codes != nullptr && scales != nullptr);
  shard_ = codes->shard;
  offset_ = codes->offset_bytes;
  scale_shard_ = scales->shard;
  scale_offset_ = scales->offset_bytes;
  group_cols_ = layout.group == 0 ? n_cols : static_cast<std::size_t>(layout.group);
}

std::string RowSource::where() const {
  return fmt::format("tensor {} (shard {})",
                     in_quotes(name_),
                     in_quotes(checkpoint_->shards()[shard_].path.filename().native()));
}

void RowSource::read_elements(std::size_t first,
                              std::size_t n,
                              float* destination,
                              RowScratch& scratch) const {
  const std::size_t row_bytes = n_cols_ * element_bytes(dtype_);
  scratch.bytes.resize(n * row_bytes);
  checkpoint_->read(shard_, offset_ + first * row_bytes, scratch.bytes);
  convert_to_float(dtype_, scratch.bytes, {destination, n * n_cols_});
  if (scales_.empty()) return;
  const std::size_t scales_per_row = (n_cols_ + block_cols_ - 1) / block_cols_;
  for (std::size_t r = 0; r < n; ++r) {
    const float* scales = scales_.data() + (first + r) / block_rows_ * scales_per_row;
    float* row = destination + r * n_cols_;
    for (std::size_t begin = 0; begin < n_cols_; begin += block_cols_) {
      const float scale = scales[begin / block_cols_];
      const std::size_t end = std::min(begin + block_cols_, n_cols_);
      for (std::size_t c = begin; c < end; ++c) row[c] *= scale;
    }
  }
}

checkpoint::IntegerRows RowSource::read_integers(std::size_t first,
                                                 std::size_t n,
                                                 RowScratch& scratch) const {
  checkpoint::IntegerRows rows{
      .bits = bits_, .n_rows = n, .n_cols = n_cols_, .group_cols = group_cols_};
  const std::size_t scale_bytes = (n_cols_ + group_cols_ - 1) / group_cols_ * sizeof(float);
  scratch.bytes.resize(n * rows.row_bytes());
  scratch.scale_bytes.resize(n * scale_bytes);
  checkpoint_->read(shard_, offset_ + first * rows.row_bytes(), scratch.bytes);
  checkpoint_->read(scale_shard_, scale_offset_ + first * scale_bytes, scratch.scale_bytes);
  rows.codes = scratch.bytes.data();
  rows.scales = scratch.scale_bytes.data();
  for (std::size_t i = 0; i < n * scale_bytes; i += sizeof(float)) {
    if (!std::isfinite(load_element(DType::kF32, rows.scales + i))) {
      fail("convert: the scales of {} are not finite numbers (rows {} to {}); the file is damaged",
           where(),
           first,
           first + n);
    }
  }
  return rows;
}

void RowSource::read(std::size_t first,
                     std::size_t n,
                     float* destination,
                     RowScratch& scratch) const {
  if (bits_ == 0) {
    read_elements(first, n, destination, scratch);
  } else {
    const checkpoint::IntegerRows rows = read_integers(first, n, scratch);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n_cols_; ++c) destination[r * n_cols_ + c] = rows.at(r, c);
    }
  }
  const float* end = destination + n * n_cols_;
  const float* bad = std::find_if(
      static_cast<const float*>(destination), end, [](float v) { return !std::isfinite(v); });
  if (bad == end) return;
  const auto at = static_cast<std::size_t>(bad - destination);
  fail("convert: {} holds {} at [{}, {}], expected finite numbers; the file is damaged",
       where(),
       *bad,
       first + at / n_cols_,
       at % n_cols_);
}

}  // namespace ft::models
