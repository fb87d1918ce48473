#include "models/weight_plan.h"

#include "base/error.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

namespace ft::models {
namespace {

/// Packed weights start on cache lines.
constexpr std::size_t kAlignment = 64;
/// Progress reports per load.
constexpr std::uint64_t kReports = 32;

std::string scale_name(const std::string& matrix_name) {
  return matrix_name + "_scale_inv";
}

std::size_t blocks(std::size_t n, std::size_t block) {
  return (n + block - 1) / block;
}

/// Whether one byte is 0x7f or 0xff, the two NaN codes of E4M3. Eight bytes at a time: a byte
/// without its sign bit carries into bit 7 when 1 is added exactly if it is 0x7f.
bool has_fp8_nan(std::span<const std::byte> bytes) noexcept {
  constexpr std::uint64_t kLow7 = 0x7f7f7f7f7f7f7f7f;
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  std::uint64_t carried = 0;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    carried |= (word & kLow7) + kOnes;
  }
  bool found = (carried & ~kLow7) != 0;
  for (; i < bytes.size(); ++i) found |= (std::to_integer<unsigned>(bytes[i]) & 0x7fU) == 0x7fU;
  return found;
}

bool all_finite_f32(std::span<const std::byte> bytes) noexcept {
  bool is_finite = true;
  for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    is_finite &= std::isfinite(load_element(DType::kF32, bytes.data() + i));
  }
  return is_finite;
}

}  // namespace

struct WeightPlan::Task {
  StoredMatrix stored;
  StoredMatrix up;  // data not null: gate_up
  kernels::Weight* destination = nullptr;
  std::array<const checkpoint::TensorInfo*, 2> checked{};  // fp8 tensors to scan for NaN
  std::uint64_t stored_bytes = 0;
  std::size_t packed_bytes = 0;
  std::size_t offset = 0;
};

WeightPlan::WeightPlan(const checkpoint::Checkpoint& checkpoint,
                       std::size_t block_rows,
                       std::size_t block_cols)
    : checkpoint_(&checkpoint), block_rows_(block_rows), block_cols_(block_cols) {}

void WeightPlan::require(const std::string& name,
                         std::vector<std::uint64_t> shape,
                         Storage storage) {
  std::vector<DType> dtypes{DType::kF32, DType::kBF16, DType::kF16};
  if (storage != Storage::kUnquantized) dtypes.push_back(DType::kF8E4M3);
  const checkpoint::TensorInfo* found = checkpoint_->find(name);
  const bool is_fp8 = found != nullptr && found->dtype == DType::kF8E4M3;
  if (is_fp8 && storage != Storage::kUnquantized) {
    Tensor scale;
    scale.requirement = {scale_name(name),
                         {blocks(shape[0], block_rows_), blocks(shape[1], block_cols_)},
                         {DType::kF32}};
    scale.kind = kind_;
    scale.is_scale = true;
    tensors_.push_back(std::move(scale));
  }
  tensors_.push_back({{name, std::move(shape), std::move(dtypes)}, kind_, storage, false});
}

void WeightPlan::matrix(const std::string& name,
                        std::size_t n_out,
                        std::size_t n_in,
                        Storage storage,
                        kernels::Weight& destination) {
  require(name, {n_out, n_in}, storage);
  packings_.push_back({name, "", {0, n_out, MatrixPart::Orientation::kAsStored, &destination}});
}

void WeightPlan::also_packed(const std::string& name,
                             std::size_t n_out,
                             kernels::Weight& destination) {
  packings_.push_back({name, "", {0, n_out, MatrixPart::Orientation::kAsStored, &destination}});
}

void WeightPlan::parts(const std::string& name,
                       std::size_t n_out,
                       std::size_t n_in,
                       const std::vector<MatrixPart>& parts) {
  require(name, {n_out, n_in}, Storage::kFollowsFormat);
  for (const MatrixPart& part : parts) packings_.push_back({name, "", part});
}

void WeightPlan::gate_up(const std::string& gate_name,
                         const std::string& up_name,
                         std::size_t width,
                         std::size_t n_in,
                         kernels::Weight& destination) {
  require(gate_name, {width, n_in}, Storage::kFollowsFormat);
  require(up_name, {width, n_in}, Storage::kFollowsFormat);
  packings_.push_back(
      {gate_name, up_name, {0, width, MatrixPart::Orientation::kAsStored, &destination}});
}

void WeightPlan::vector(const std::string& name, std::size_t n, std::vector<float>& destination) {
  require(name, {n}, Storage::kUnquantized);
  vectors_.push_back({name, &destination});
}

void WeightPlan::mapped(const std::string& name,
                        std::size_t n_rows,
                        std::size_t n_cols,
                        StoredMatrix& destination) {
  require(name, {n_rows, n_cols}, Storage::kUnquantized);
  tables_.push_back({name, &destination});
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

void WeightPlan::census() const {
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
    if (packing.up_name.empty()) continue;
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
}

WeightTotals WeightPlan::totals() const {
  WeightTotals totals;
  for (const Tensor& tensor : tensors_) {
    const checkpoint::TensorInfo* found = checkpoint_->find(tensor.requirement.name);
    if (found == nullptr) continue;
    if (!tensor.is_scale) totals.n_parameters += found->n_elements();
    const bool is_expert = tensor.kind == WeightKind::kExpert;
    (is_expert ? totals.expert_bytes : totals.dense_bytes) += found->size_bytes;
  }
  return totals;
}

std::string WeightPlan::format() const {
  std::set<DType> dtypes;
  for (const Tensor& tensor : tensors_) {
    const checkpoint::TensorInfo* found = checkpoint_->find(tensor.requirement.name);
    if (found != nullptr && tensor.storage == Storage::kFollowsFormat) dtypes.insert(found->dtype);
  }
  if (dtypes.size() != 1) return "mixed";
  switch (*dtypes.begin()) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF8E4M3:
      return "fp8";
  }
  return "mixed";
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
}

StoredMatrix WeightPlan::stored(const std::string& name) const {
  const checkpoint::TensorInfo* tensor = checkpoint_->find(name);
  FT_CHECK(tensor != nullptr && tensor->shape.size() == 2);
  StoredMatrix matrix;
  matrix.dtype = tensor->dtype;
  matrix.data = checkpoint_->bytes(*tensor).data();
  matrix.n_rows = tensor->shape[0];
  matrix.n_cols = tensor->shape[1];
  matrix.row_stride = matrix.n_cols;
  if (tensor->dtype == DType::kF8E4M3) {
    const checkpoint::TensorInfo* scales = checkpoint_->find(scale_name(name));
    FT_CHECK(scales != nullptr);
    matrix.scales = checkpoint_->bytes(*scales).data();
    matrix.block_rows = block_rows_;
    matrix.block_cols = block_cols_;
    matrix.scale_row_stride = scales->shape[1];
  }
  return matrix;
}

WeightPlan::Task WeightPlan::make_task(const Packing& packing,
                                       const kernels::Backend& backend) const {
  Task task;
  task.destination = packing.part.destination;
  task.stored = stored(packing.name).rows(packing.part.first_row, packing.part.n_rows);
  if (packing.part.orientation == MatrixPart::Orientation::kTransposed) {
    task.stored = task.stored.transposed();
  }
  const std::size_t n_elements = task.stored.n_rows * task.stored.n_cols;
  task.stored_bytes = n_elements * element_bytes(task.stored.dtype);
  // Every part's rows are checked with the first part.
  if (task.stored.dtype == DType::kF8E4M3 && packing.part.first_row == 0) {
    task.checked[0] = checkpoint_->find(packing.name);
  }
  if (packing.up_name.empty()) {
    task.packed_bytes = backend.packed_bytes({&task.stored, 1});
    return task;
  }
  task.up = stored(packing.up_name);
  task.stored_bytes *= 2;
  if (task.up.dtype == DType::kF8E4M3) task.checked[1] = checkpoint_->find(packing.up_name);
  task.packed_bytes = backend.packed_gate_up_bytes(task.stored, task.up);
  return task;
}

bool WeightPlan::is_fp8_sound(const checkpoint::TensorInfo& tensor) const {
  const checkpoint::TensorInfo* scales = checkpoint_->find(scale_name(tensor.name));
  return !has_fp8_nan(checkpoint_->bytes(tensor)) && all_finite_f32(checkpoint_->bytes(*scales));
}

void WeightPlan::run_tasks(const std::vector<Task>& tasks,
                           std::byte* memory,
                           const kernels::Backend& backend,
                           ThreadPool& pool,
                           const Progress& progress) const {
  // The first bad tensor is 2 * task + its place in `checked`, so that the message does not depend
  // on the threads.
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::atomic<std::size_t> first_bad{kNone};
  const auto run = [&](std::size_t index) {
    const Task& task = tasks[index];
    for (std::size_t i = 0; i < task.checked.size(); ++i) {
      if (task.checked[i] == nullptr || is_fp8_sound(*task.checked[i])) continue;
      std::size_t seen = first_bad.load();
      while (2 * index + i < seen && !first_bad.compare_exchange_weak(seen, 2 * index + i)) {
      }
    }
    const std::span<std::byte> destination{memory + task.offset, task.packed_bytes};
    *task.destination = task.up.data == nullptr
                            ? backend.pack({&task.stored, 1}, destination)
                            : backend.pack_gate_up(task.stored, task.up, destination);
  };
  std::uint64_t total = 0;
  for (const Task& task : tasks) total += task.stored_bytes;
  std::uint64_t done = 0;
  for (std::size_t begin = 0; begin < tasks.size();) {
    std::size_t end = begin;
    const std::uint64_t report_at = progress ? done + total / kReports : total;
    for (; end < tasks.size() && (end == begin || done < report_at); ++end) {
      done += tasks[end].stored_bytes;
    }
    pool.parallel_for(end - begin, 1, [&](std::size_t from, std::size_t to, std::size_t) {
      for (std::size_t i = from; i < to; ++i) run(begin + i);
    });
    if (const std::size_t bad = first_bad; bad != kNone) {
      fail(
          "checkpoint: tensor '{}' or its scales hold values that are no numbers; the file is "
          "damaged",
          tasks[bad / 2].checked[bad % 2]->name);
    }
    begin = end;
    if (progress) progress(done, total);
  }
}

Buffer WeightPlan::load(const kernels::Backend& backend,
                        ThreadPool& pool,
                        const Progress& progress) const {
  for (const VectorCopy& copy : vectors_) {
    const checkpoint::TensorInfo* tensor = checkpoint_->find(copy.name);
    copy.destination->resize(tensor->n_elements());
    convert_to_float(tensor->dtype, checkpoint_->bytes(*tensor), *copy.destination);
    if (!std::all_of(copy.destination->begin(), copy.destination->end(), [](float value) {
          return std::isfinite(value);
        })) {
      fail("checkpoint: tensor '{}' holds values that are not finite; the file is damaged",
           copy.name);
    }
  }
  for (const MappedTable& table : tables_) *table.destination = stored(table.name);

  std::vector<Task> tasks;
  tasks.reserve(packings_.size());
  std::size_t n_bytes = 0;
  for (const Packing& packing : packings_) {
    tasks.push_back(make_task(packing, backend));
    tasks.back().offset = n_bytes;
    n_bytes += blocks(tasks.back().packed_bytes, kAlignment) * kAlignment;
  }
  Buffer memory(n_bytes);
  run_tasks(tasks, memory.data(), backend, pool, progress);
  return memory;
}

}  // namespace ft::models
