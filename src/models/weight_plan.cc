#include "models/weight_plan.h"

#include "base/error.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace ft::models {
namespace {

using Orientation = MatrixPart::Orientation;

std::string scale_name(const std::string& matrix_name) {
  return matrix_name + "_scale_inv";
}

std::size_t blocks(std::size_t n, std::size_t block) {
  return (n + block - 1) / block;
}

std::string element_format(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF8E4M3:
      return "fp8";
  }
  return "";
}

void check_shape(const checkpoint::PanelTensor& found, std::size_t n_rows, std::size_t n_cols) {
  if (found.n_rows == n_rows && found.n_cols == n_cols) return;
  fail("checkpoint: tensor '{}' has shape [{}, {}], expected [{}, {}]",
       found.name,
       found.n_rows,
       found.n_cols,
       n_rows,
       n_cols);
}

}  // namespace

WeightPlan::WeightPlan(const checkpoint::Checkpoint& checkpoint,
                       std::size_t block_rows,
                       std::size_t block_cols)
    : checkpoint_(&checkpoint), block_rows_(block_rows), block_cols_(block_cols) {}

void WeightPlan::require(const std::string& name, std::vector<std::uint64_t> shape, MatrixUse use) {
  const bool takes_fp8 = use != MatrixUse::kExact;
  std::vector<DType> dtypes{DType::kF32, DType::kBF16, DType::kF16};
  if (takes_fp8) dtypes.push_back(DType::kF8E4M3);
  const checkpoint::TensorInfo* found = checkpoint_->find(name);
  if (takes_fp8 && found != nullptr && found->dtype == DType::kF8E4M3) {
    Tensor scale;
    scale.requirement = {scale_name(name),
                         {blocks(shape[0], block_rows_), blocks(shape[1], block_cols_)},
                         {DType::kF32}};
    scale.part = part_;
    scale.is_scale = true;
    tensors_.push_back(std::move(scale));
  }
  const bool counts = may_be_quantized(use) && part_ != WeightPart::kHead;
  tensors_.push_back({{name, std::move(shape), std::move(dtypes)}, part_, counts, false});
}

Packing::Origin WeightPlan::find_origin(const Packing& packing,
                                        std::size_t n_out,
                                        std::size_t n_in) {
  if (checkpoint_->find_panels(packing.part.entry) != nullptr) return Packing::Origin::kPanels;
  const bool takes_integers = packing.use != MatrixUse::kExact;
  if (takes_integers && checkpoint::is_integer_matrix(*checkpoint_, packing.name)) {
    integers_.add(*checkpoint_, packing.name, n_out, n_in);
    if (!packing.up_name.empty() && checkpoint::is_integer_matrix(*checkpoint_, packing.up_name)) {
      integers_.add(*checkpoint_, packing.up_name, n_out, n_in);
    }
    return Packing::Origin::kIntegers;
  }
  if (checkpoint_->container() != nullptr && packing.part.entry != packing.name &&
      packing.up_name.empty() && checkpoint_->find(packing.part.entry) != nullptr) {
    require(packing.part.entry, {packing.n_rows, packing.n_cols}, MatrixUse::kExact);
    return Packing::Origin::kEntry;
  }
  return Packing::Origin::kElements;
}

void WeightPlan::add_packing(Packing packing, std::size_t n_out, std::size_t n_in) {
  if (packing.n_cols > kernels::kMaxColumns) {
    fail("checkpoint: tensor '{}' has {} columns, {} are supported",
         packing.name,
         packing.n_cols,
         kernels::kMaxColumns);
  }
  packing.belongs_to = part_;
  packing.expert = expert_;
  packing.origin = find_origin(packing, n_out, n_in);
  packings_.push_back(std::move(packing));
}

void WeightPlan::matrix(const std::string& name,
                        std::size_t n_out,
                        std::size_t n_in,
                        MatrixUse use,
                        kernels::Weight& destination) {
  parts(name, n_out, n_in, use, {{name, 0, n_out, Orientation::kAsStored, &destination}});
}

void WeightPlan::also_packed(
    const std::string& name, std::size_t n_out, std::size_t n_in, MatrixPart head, MatrixUse use) {
  Packing packing;
  packing.name = name;
  packing.part = std::move(head);
  packing.n_rows = n_out;
  packing.n_cols = n_in;
  packing.use = use;
  add_packing(std::move(packing), n_out, n_in);
}

void WeightPlan::parts(const std::string& name,
                       std::size_t n_out,
                       std::size_t n_in,
                       MatrixUse use,
                       const std::vector<MatrixPart>& parts) {
  bool needs_elements = false;
  for (const MatrixPart& part : parts) {
    const bool is_transposed = part.orientation == Orientation::kTransposed;
    Packing packing;
    packing.name = name;
    packing.part = part;
    packing.n_rows = is_transposed ? n_in : part.n_rows;
    packing.n_cols = is_transposed ? part.n_rows : n_in;
    packing.use = use;
    add_packing(std::move(packing), n_out, n_in);
    needs_elements |= packings_.back().origin == Packing::Origin::kElements;
  }
  if (needs_elements) require(name, {n_out, n_in}, use);
}

void WeightPlan::gate_up(const std::string& prefix,
                         std::size_t width,
                         std::size_t n_in,
                         MatrixUse use,
                         kernels::Weight& destination) {
  Packing packing;
  packing.name = prefix + "gate_proj.weight";
  packing.up_name = prefix + "up_proj.weight";
  packing.part = {prefix + "gate_up_proj.weight", 0, width, Orientation::kAsStored, &destination};
  packing.n_rows = 2 * blocks(width, kPanelRows) * kPanelRows;
  packing.n_cols = n_in;
  packing.use = use;
  add_packing(std::move(packing), width, n_in);
  if (packings_.back().origin != Packing::Origin::kElements) return;
  require(prefix + "gate_proj.weight", {width, n_in}, use);
  require(prefix + "up_proj.weight", {width, n_in}, use);
}

void WeightPlan::vector(const std::string& name, std::size_t n, std::vector<float>& destination) {
  require(name, {n}, MatrixUse::kExact);
  vectors_.push_back({name, &destination});
}

void WeightPlan::table(const std::string& name,
                       std::size_t n_rows,
                       std::size_t n_cols,
                       nn::EmbeddingTable& destination) {
  tables_.push_back({name, n_rows, n_cols, &destination});
  if (checkpoint_->find_panels(name) != nullptr) return;
  if (checkpoint::is_integer_matrix(*checkpoint_, name)) {
    integers_.add(*checkpoint_, name, n_rows, n_cols);
  } else {
    require(name, {n_rows, n_cols}, MatrixUse::kExact);
  }
}

std::vector<std::string> WeightPlan::missing() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors_) {
    if (checkpoint_->find(tensor.requirement.name) == nullptr) {
      names.push_back(tensor.requirement.name);
    }
  }
  return names;
}

void WeightPlan::check_panels() const {
  for (const Packing& packing : packings_) {
    if (packing.origin != Packing::Origin::kPanels) continue;
    const checkpoint::PanelTensor* found = checkpoint_->find_panels(packing.part.entry);
    const bool is_wide_enough =
        packing.use != MatrixUse::kSensitive || found->format == QuantFormat::kQ8;
    if (packing.use == MatrixUse::kExact || !is_wide_enough) {
      fail("checkpoint: tensor '{}' is stored in {}, which is too coarse for it",
           found->name,
           quant_format_name(found->format));
    }
    check_shape(*found, packing.n_rows, packing.n_cols);
  }
  for (const Table& table : tables_) {
    if (const checkpoint::PanelTensor* found = checkpoint_->find_panels(table.name)) {
      check_shape(*found, table.n_rows, table.n_cols);
    }
  }
}

void WeightPlan::check_integers() const {
  for (const Packing& packing : packings_) {
    if (packing.origin != Packing::Origin::kIntegers) continue;
    const checkpoint::IntegerLayout& layout = integers_.layout(packing.name);
    if (packing.use == MatrixUse::kSensitive && layout.bits < 8) {
      fail(
          "checkpoint: tensor '{}' is stored in 4 bits, which is too coarse for it: at least 8 are "
          "needed",
          packing.name);
    }
    if (packing.up_name.empty()) continue;
    const bool has_up = integers_.matrices().contains(packing.up_name);
    if (!has_up || integers_.layout(packing.up_name) != layout) {
      fail("checkpoint: tensors '{}' and '{}' must be stored alike", packing.name, packing.up_name);
    }
  }
}

void WeightPlan::census() {
  std::vector<checkpoint::TensorRequirement> required;
  required.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) required.push_back(tensor.requirement);
  checkpoint_->census(required);
  for (const Tensor& tensor : tensors_) {
    const std::string& name = tensor.requirement.name;
    const checkpoint::TensorInfo* found = checkpoint_->find(name);
    if (found->dtype != DType::kF8E4M3 && checkpoint_->find(scale_name(name)) != nullptr) {
      fail("checkpoint: tensor '{}' is {} but has block scales '{}'; only F8_E4M3 takes scales",
           name,
           dtype_name(found->dtype),
           scale_name(name));
    }
  }
  for (const Packing& packing : packings_) {
    if (packing.up_name.empty() || packing.origin != Packing::Origin::kElements) continue;
    const checkpoint::TensorInfo* gate = checkpoint_->find(packing.name);
    const checkpoint::TensorInfo* up = checkpoint_->find(packing.up_name);
    if (gate->dtype != up->dtype) {
      fail("checkpoint: tensors '{}' and '{}' must have one dtype, found {} and {}",
           gate->name,
           up->name,
           dtype_name(gate->dtype),
           dtype_name(up->dtype));
    }
  }
  check_panels();
  integers_.decide();
  check_integers();
}

WeightTotals WeightPlan::totals() const {
  WeightTotals totals;
  const auto add = [&](std::uint64_t n_parameters, std::uint64_t bytes, WeightPart part) {
    totals.n_parameters += n_parameters;
    (part == WeightPart::kExperts ? totals.expert_bytes : totals.dense_bytes) += bytes;
  };
  for (const Tensor& tensor : tensors_) {
    const checkpoint::TensorInfo* found = checkpoint_->find(tensor.requirement.name);
    if (found == nullptr) continue;
    add(tensor.is_scale ? 0 : found->n_elements(), found->size_bytes, tensor.part);
  }
  std::set<std::string_view> counted;  // parts share a matrix of integers
  for (const Packing& packing : packings_) {
    if (packing.origin == Packing::Origin::kPanels) {
      const checkpoint::PanelTensor* found = checkpoint_->find_panels(packing.part.entry);
      // Without the rows that only fill up panels.
      const std::size_t n_rows = packing.up_name.empty() ? packing.n_rows : 2 * packing.part.n_rows;
      add(n_rows * packing.n_cols, found->size_bytes, packing.belongs_to);
    } else if (packing.origin == Packing::Origin::kIntegers) {
      for (const std::string* name : {&packing.name, &packing.up_name}) {
        const auto at = integers_.matrices().find(*name);
        if (at == integers_.matrices().end() || !counted.insert(*name).second) continue;
        add(at->second.n_rows * at->second.n_cols,
            at->second.code_bytes + at->second.n_scales * sizeof(float),
            packing.belongs_to);
      }
    }
  }
  for (const Table& table : tables_) {
    if (const checkpoint::PanelTensor* found = checkpoint_->find_panels(table.name)) {
      add(found->n_rows * found->n_cols, found->size_bytes, WeightPart::kDense);
      continue;
    }
    const auto at = integers_.matrices().find(table.name);
    if (at == integers_.matrices().end() || !counted.insert(table.name).second) continue;
    add(at->second.n_rows * at->second.n_cols,
        at->second.code_bytes + at->second.n_scales * sizeof(float),
        WeightPart::kDense);
  }
  return totals;
}

std::string WeightPlan::format() const {
  std::set<std::string> formats;
  for (const Tensor& tensor : tensors_) {
    const checkpoint::TensorInfo* found = checkpoint_->find(tensor.requirement.name);
    if (found != nullptr && tensor.counts_for_format) formats.insert(element_format(found->dtype));
  }
  for (const Packing& packing : packings_) {
    if (!may_be_quantized(packing.use) || packing.belongs_to == WeightPart::kHead) continue;
    if (packing.origin == Packing::Origin::kPanels) {
      const checkpoint::PanelTensor* found = checkpoint_->find_panels(packing.part.entry);
      formats.emplace(quant_format_name(found->format));
    } else if (packing.origin == Packing::Origin::kIntegers) {
      const auto& matrix = integers_.matrices().find(packing.name)->second;
      if (matrix.fitting.empty()) continue;
      formats.insert(matrix.fitting.front().bits == 4 ? "int4" : "int8");
    }
  }
  std::string text;
  for (const std::string& format : formats) text += (text.empty() ? "" : "+") + format;
  return text;
}

void WeightPlan::merge(WeightPlan&& other) {
  FT_CHECK(checkpoint_ == other.checkpoint_);
  const auto move_all = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    from.clear();
  };
  move_all(tensors_, other.tensors_);
  move_all(packings_, other.packings_);
  move_all(vectors_, other.vectors_);
  move_all(tables_, other.tables_);
  integers_.merge(std::move(other.integers_));
}

std::vector<std::string> WeightPlan::tables() const {
  std::vector<std::string> names;
  for (const Table& table : tables_) names.push_back(table.name);
  return names;
}

std::vector<std::string> WeightPlan::vectors() const {
  std::vector<std::string> names;
  for (const VectorCopy& copy : vectors_) names.push_back(copy.name);
  return names;
}

bool WeightPlan::is_made_of_elements(std::string_view entry) const {
  for (const Packing& packing : packings_) {
    if (packing.part.entry != entry) continue;
    return packing.origin == Packing::Origin::kElements;
  }
  return false;
}

}  // namespace ft::models
