#include "models/tensor_encoder.h"

#include "base/error.h"
#include "tensor/formats/float_formats.h"
#include "tensor/formats/quantized_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ft::models {
namespace {

using Orientation = MatrixPart::Orientation;

constexpr float kLargestF16 = 65504;
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

RowSource source_of(const WeightPlan& plan, const std::string& name) {
  const auto integers = plan.integers().matrices().find(name);
  if (integers == plan.integers().matrices().end()) {
    return {plan.checkpoint(), name, plan.block_rows(), plan.block_cols()};
  }
  return {plan.checkpoint(),
          name,
          plan.integers().layout(name),
          static_cast<std::size_t>(integers->second.n_rows),
          static_cast<std::size_t>(integers->second.n_cols)};
}

std::vector<RowSource> sources_of(const WeightPlan& plan, const Packing& packing) {
  std::vector<RowSource> sources{source_of(plan, packing.name)};
  if (!packing.up_name.empty()) sources.push_back(source_of(plan, packing.up_name));
  return sources;
}

template <typename T>
void store(std::byte* to, std::size_t index, T value) {
  std::memcpy(to + index * sizeof value, &value, sizeof value);
}

}  // namespace

void TensorEncoder::set_rows(std::size_t n_rows,
                             std::size_t n_cols,
                             std::size_t strip_rows) noexcept {
  n_rows_ = n_rows;
  n_cols_ = n_cols;
  strip_rows_ = strip_rows;
  n_strips_ = sources_.size() * ((n_rows + strip_rows - 1) / strip_rows);
}

TensorEncoder TensorEncoder::quantized(const WeightPlan& plan,
                                       const Packing& packing,
                                       QuantFormat to) {
  TensorEncoder encoder = weight_as_f32(plan, packing);
  encoder.kind_ = Kind::kQuantize;
  encoder.format_ = to;
  return encoder;
}

TensorEncoder TensorEncoder::repacked(const WeightPlan& plan, const Packing& packing) {
  FT_CHECK(packing.part.orientation == Orientation::kAsStored);
  TensorEncoder encoder = weight_as_f32(plan, packing);
  encoder.kind_ = Kind::kRepack;
  encoder.format_ =
      plan.integers().layout(packing.name).bits == 8 ? QuantFormat::kQ8 : QuantFormat::kQ4;
  return encoder;
}

TensorEncoder TensorEncoder::weight_as_f32(const WeightPlan& plan, const Packing& packing) {
  TensorEncoder encoder;
  encoder.kind_ = Kind::kConvert;
  encoder.sources_ = sources_of(plan, packing);
  encoder.orientation_ = packing.part.orientation;
  encoder.first_row_ = packing.part.first_row;
  const bool is_pair = encoder.sources_.size() == 2;
  encoder.set_rows(is_pair ? packing.part.n_rows : packing.n_rows, packing.n_cols, kPanelRows);
  return encoder;
}

TensorEncoder TensorEncoder::converted(const WeightPlan& plan, const std::string& name, DType to) {
  TensorEncoder encoder;
  encoder.kind_ = Kind::kConvert;
  encoder.sources_.push_back(source_of(plan, name));
  encoder.set_rows(encoder.sources_[0].n_rows(), encoder.sources_[0].n_cols(), kPanelRows);
  encoder.dtype_ = to;
  return encoder;
}

TensorEncoder TensorEncoder::copied(const checkpoint::Checkpoint& checkpoint,
                                    const std::string& name) {
  const checkpoint::TensorInfo* tensor = checkpoint.find(name);
  FT_CHECK(tensor != nullptr);
  TensorEncoder encoder;
  encoder.kind_ = Kind::kCopy;
  encoder.checkpoint_ = &checkpoint;
  encoder.shard_ = tensor->shard;
  encoder.offset_ = tensor->offset_bytes;
  encoder.bytes_ = tensor->size_bytes;
  encoder.n_strips_ = static_cast<std::size_t>((tensor->size_bytes + kCopyBytes - 1) / kCopyBytes);
  return encoder;
}

TensorEncoder::Strip TensorEncoder::strip(std::size_t index) const noexcept {
  const std::size_t n_blocks = (n_cols_ + kQuantGroup - 1) / kQuantGroup;
  const std::size_t first = index / std::max<std::size_t>(sources_.size(), 1) * strip_rows_;
  switch (kind_) {
    case Kind::kQuantize:
      return {n_blocks * block_code_bytes(format_), n_blocks * kPanelRows * sizeof(std::uint16_t)};
    case Kind::kRepack:
      return {n_blocks * block_code_bytes(format_), n_blocks * kPanelRows * sizeof(float)};
    case Kind::kConvert:
      return {std::min(strip_rows_, n_rows_ - first) * n_cols_ * element_bytes(dtype_), 0};
    case Kind::kCopy:
      return {static_cast<std::size_t>(
                  std::min<std::uint64_t>(kCopyBytes, bytes_ - index * kCopyBytes)),
              0};
  }
  return {};
}

std::size_t TensorEncoder::read_strip(std::size_t index, RowScratch& scratch) const {
  const std::size_t first = index / sources_.size() * strip_rows_;
  const RowSource& source = sources_[index % sources_.size()];
  const std::size_t n = std::min(strip_rows_, n_rows_ - first);
  if (orientation_ == Orientation::kAsStored) {
    scratch.rows.resize(n * n_cols_);
    source.read(first_row_ + first, n, scratch.rows.data(), scratch);
    return n;
  }
  // Rows of the weight are columns of the part, which is small: all of it is read for each strip.
  const std::size_t stride = source.n_cols();
  scratch.rows.resize(n * n_cols_ + n_cols_ * stride);
  float* part = scratch.rows.data() + n * n_cols_;
  source.read(first_row_, n_cols_, part, scratch);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t c = 0; c < n_cols_; ++c) {
      scratch.rows[r * n_cols_ + c] = part[c * stride + first + r];
    }
  }
  return n;
}

void TensorEncoder::convert_strip(std::size_t n, std::byte* head, const RowScratch& scratch) const {
  const std::size_t n_values = n * n_cols_;
  const float* values = scratch.rows.data();
  switch (dtype_) {
    case DType::kF32:
      std::memcpy(head, values, n_values * sizeof(float));
      return;
    case DType::kBF16:
      for (std::size_t i = 0; i < n_values; ++i) store(head, i, float_to_bf16(values[i]));
      return;
    case DType::kF16:
      for (std::size_t i = 0; i < n_values; ++i) {
        if (std::fabs(values[i]) > kLargestF16) {
          fail("convert: {} holds {}, which f16 cannot; choose bf16 or f32",
               sources_[0].where(),
               values[i]);
        }
        store(head, i, float_to_f16(values[i]));
      }
      return;
    case DType::kF8E4M3:
      break;  // never a target
  }
}

void TensorEncoder::encode(std::size_t index,
                           std::byte* head,
                           std::byte* tail,
                           RowScratch& scratch) const {
  switch (kind_) {
    case Kind::kQuantize: {
      const std::size_t n = read_strip(index, scratch);
      quantize_panel(format_, scratch.rows.data(), n, n_cols_, n_cols_, head, tail);
      return;
    }
    case Kind::kRepack: {
      const std::size_t first = index / sources_.size() * strip_rows_;
      const std::size_t n = std::min(strip_rows_, n_rows_ - first);
      const RowSource& source = sources_[index % sources_.size()];
      checkpoint::repack_panel(
          source.read_integers(first_row_ + first, n, scratch), 0, n, head, tail);
      return;
    }
    case Kind::kConvert:
      convert_strip(read_strip(index, scratch), head, scratch);
      return;
    case Kind::kCopy:
      checkpoint_->read(shard_, offset_ + index * kCopyBytes, {head, strip(index).head_bytes});
      return;
  }
}

}  // namespace ft::models
