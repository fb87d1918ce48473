// The part of WeightPlan that packs.
#include "base/error.h"
#include "models/weight_plan.h"
#include "tensor/formats/float_formats.h"
#include "tensor/formats/quantized_copy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace ft::models {
namespace {

using Orientation = MatrixPart::Orientation;

/// Packed weights start on cache lines.
constexpr std::size_t kAlignment = 64;
/// Progress reports per load.
constexpr std::uint64_t kReports = 32;

std::string scale_name(const std::string& matrix_name) {
  return matrix_name + "_scale_inv";
}

std::size_t align(std::size_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
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

bool all_finite(DType dtype, std::span<const std::byte> bytes) noexcept {
  const std::size_t step = element_bytes(dtype);
  bool is_finite = true;
  for (std::size_t i = 0; i + step <= bytes.size(); i += step) {
    is_finite &= std::isfinite(load_element(dtype, bytes.data() + i));
  }
  return is_finite;
}

kernels::Activation activation_of(MatrixUse use) {
  return use == MatrixUse::kRoundedInputs ? kernels::Activation::kInt8
                                          : kernels::Activation::kFloat;
}

/// A matrix without its bytes.
QuantMatrix panel_shape(QuantFormat format,
                        DType scale_dtype,
                        std::size_t n_rows,
                        std::size_t n_cols) {
  QuantMatrix panels;
  panels.format = format;
  panels.scale_dtype = scale_dtype;
  panels.n_rows = n_rows;
  panels.n_cols = n_cols;
  return panels;
}

/// Panels for a matrix, codes and scales adjacent in `memory`.
QuantMatrix panels_in(QuantFormat format,
                      DType scale_dtype,
                      std::size_t n_rows,
                      std::size_t n_cols,
                      std::byte* memory) {
  QuantMatrix panels = panel_shape(format, scale_dtype, n_rows, n_cols);
  panels.codes = memory;
  panels.scales = memory + panels.code_bytes();
  return panels;
}

QuantMatrix as_panels(const StoredMatrix& source, QuantFormat format, std::byte* memory) {
  const QuantMatrix panels = panels_in(format, DType::kBF16, source.n_rows, source.n_cols, memory);
  quantize_matrix(format, source, memory, memory + panels.code_bytes());
  return panels;
}

/// Integers by rows as panels in `memory`.
QuantMatrix repack(const checkpoint::IntegerRows& rows, std::byte* memory) {
  const QuantMatrix panels = panels_in(rows.bits == 8 ? QuantFormat::kQ8 : QuantFormat::kQ4,
                                       DType::kF32,
                                       rows.n_rows,
                                       rows.n_cols,
                                       memory);
  const std::size_t panel_codes = panels.n_blocks() * block_code_bytes(panels.format);
  const std::size_t panel_scales = panels.n_blocks() * kPanelRows * sizeof(float);
  for (std::size_t p = 0; p < panels.n_panels(); ++p) {
    checkpoint::repack_panel(rows,
                             p * kPanelRows,
                             std::min(kPanelRows, rows.n_rows - p * kPanelRows),
                             memory + p * panel_codes,
                             memory + panels.code_bytes() + p * panel_scales);
  }
  return panels;
}

}  // namespace

struct WeightPlan::Task {
  // What the weight is made of: one of these.
  StoredMatrix stored;  // with `up` if that has data
  StoredMatrix up;
  std::optional<QuantFormat> quantized;  // of `stored`
  QuantMatrix panels;
  checkpoint::IntegerRows rows;  // with `up_rows` if that has codes
  checkpoint::IntegerRows up_rows;

  Orientation orientation = Orientation::kAsStored;  // of `rows`
  MatrixUse use = MatrixUse::kExact;
  kernels::Weight* destination = nullptr;
  QuantMatrix* table = nullptr;                            // or this
  std::array<const checkpoint::TensorInfo*, 2> checked{};  // tensors to scan for NaN
  std::uint64_t stored_bytes = 0;
  std::size_t packed_bytes = 0;
  std::size_t scratch_bytes = 0;  // of the running thread's
  std::size_t offset = 0;

  void run(const kernels::Backend& backend,
           std::span<std::byte> memory,
           std::span<std::byte> scratch) const;
  /// Gate and up, interleaved in `memory`.
  void view_pair(const QuantMatrix& gate,
                 const QuantMatrix& upper,
                 const kernels::Backend& backend,
                 std::byte* memory) const {
    std::byte* scales = memory + 2 * gate.code_bytes();
    *destination =
        backend.view(interleave_gate_up(gate, upper, memory, scales), activation_of(use));
  }
};

void WeightPlan::Task::run(const kernels::Backend& backend,
                           std::span<std::byte> memory,
                           std::span<std::byte> scratch) const {
  if (panels.codes != nullptr) {
    *destination = backend.view(panels, activation_of(use));
  } else if (quantized) {
    if (up.data == nullptr) {
      *destination = backend.view(as_panels(stored, *quantized, memory.data()), activation_of(use));
    } else {
      view_pair(as_panels(stored, *quantized, scratch.data()),
                as_panels(up, *quantized, scratch.data() + scratch.size() / 2),
                backend,
                memory.data());
    }
  } else if (stored.data != nullptr) {
    *destination = up.data == nullptr ? backend.pack({&stored, 1}, memory)
                                      : backend.pack_gate_up(stored, up, memory);
  } else if (orientation == Orientation::kTransposed) {
    // Scales of rows become scales of columns, which panels do not have.
    auto* values = reinterpret_cast<float*>(scratch.data());
    for (std::size_t r = 0; r < rows.n_rows; ++r) {
      for (std::size_t c = 0; c < rows.n_cols; ++c) values[c * rows.n_rows + r] = rows.at(r, c);
    }
    StoredMatrix transposed;
    transposed.data = scratch.data();
    transposed.n_rows = rows.n_cols;
    transposed.n_cols = transposed.row_stride = rows.n_rows;
    *destination = backend.pack({&transposed, 1}, memory);
  } else if (up_rows.codes != nullptr) {
    view_pair(repack(rows, scratch.data()),
              repack(up_rows, scratch.data() + scratch.size() / 2),
              backend,
              memory.data());
  } else if (table != nullptr) {
    *table = repack(rows, memory.data());
  } else {
    *destination = backend.view(repack(rows, memory.data()), activation_of(use));
  }
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

WeightPlan::Task WeightPlan::make_elements_task(const Packing& packing,
                                                const kernels::Backend& backend) const {
  Task task;
  if (packing.origin == Packing::Origin::kEntry) {
    task.stored = stored(packing.part.entry);
  } else {
    task.stored = stored(packing.name).rows(packing.part.first_row, packing.part.n_rows);
    if (packing.part.orientation == Orientation::kTransposed) {
      task.stored = task.stored.transposed();
    }
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

/// `task` has its elements.
void WeightPlan::quantize_elements(const Packing& packing, QuantFormat format, Task& task) const {
  task.quantized = format;
  const QuantMatrix shape =
      panel_shape(format, DType::kBF16, task.stored.n_rows, task.stored.n_cols);
  task.packed_bytes = shape.code_bytes() + shape.scale_bytes();
  if (task.up.data != nullptr) {
    task.packed_bytes *= 2;
    task.scratch_bytes = task.packed_bytes;
  }
  // Only numbers can be rounded.
  if (packing.part.first_row != 0) return;
  const bool is_entry = packing.origin == Packing::Origin::kEntry;
  task.checked[0] = checkpoint_->find(is_entry ? packing.part.entry : packing.name);
  if (task.up.data != nullptr) task.checked[1] = checkpoint_->find(packing.up_name);
}

WeightPlan::Task WeightPlan::make_integers_task(const Packing& packing,
                                                const kernels::Backend& backend) const {
  Task task;
  const checkpoint::IntegerRows all = integers_.rows(*checkpoint_, packing.name);
  task.rows = all.rows(packing.part.first_row, packing.part.n_rows);
  task.orientation = packing.part.orientation;
  task.stored_bytes = task.rows.n_rows * task.rows.row_bytes();
  if (packing.part.first_row == 0) task.checked[0] = checkpoint_->find(packing.name + ".qs");
  if (task.orientation == Orientation::kTransposed) {
    StoredMatrix shape;
    shape.n_rows = all.n_cols;
    shape.n_cols = shape.row_stride = task.rows.n_rows;
    task.packed_bytes = backend.packed_bytes({&shape, 1});
    task.scratch_bytes = shape.n_rows * shape.n_cols * sizeof(float);
    return task;
  }
  QuantMatrix shape;
  shape.format = all.bits == 8 ? QuantFormat::kQ8 : QuantFormat::kQ4;
  shape.scale_dtype = DType::kF32;
  shape.n_rows = task.rows.n_rows;
  shape.n_cols = all.n_cols;
  task.packed_bytes = shape.code_bytes() + shape.scale_bytes();
  if (packing.up_name.empty()) return task;
  task.up_rows = integers_.rows(*checkpoint_, packing.up_name);
  task.checked[1] = checkpoint_->find(packing.up_name + ".qs");
  task.stored_bytes *= 2;
  task.packed_bytes *= 2;
  task.scratch_bytes = task.packed_bytes;
  return task;
}

WeightPlan::Task WeightPlan::make_task(const Packing& packing,
                                       const kernels::Backend& backend) const {
  Task task;
  switch (packing.origin) {
    case Packing::Origin::kElements:
    case Packing::Origin::kEntry:
      task = make_elements_task(packing, backend);
      if (const auto part = quantized_.find(packing.belongs_to);
          part != quantized_.end() && may_be_quantized(packing.use)) {
        quantize_elements(packing, part->second, task);
      }
      break;
    case Packing::Origin::kPanels:
      task.panels = checkpoint_->panels(*checkpoint_->find_panels(packing.part.entry));
      break;
    case Packing::Origin::kIntegers:
      task = make_integers_task(packing, backend);
      break;
  }
  task.use = packing.use;
  task.destination = packing.part.destination;
  return task;
}

/// Sets the tables that need no packing.
std::vector<WeightPlan::Task> WeightPlan::make_table_tasks(const kernels::Backend& backend) const {
  std::vector<Task> tasks;
  for (const Table& table : tables_) {
    if (const checkpoint::PanelTensor* panels = checkpoint_->find_panels(table.name)) {
      table.destination->panels = checkpoint_->panels(*panels);
    } else if (integers_.matrices().contains(table.name)) {
      Packing packing;
      packing.name = table.name;
      packing.part.n_rows =
          static_cast<std::size_t>(integers_.matrices().find(table.name)->second.n_rows);
      tasks.push_back(make_integers_task(packing, backend));
      tasks.back().table = &table.destination->panels;
    } else {
      table.destination->elements = stored(table.name);
    }
  }
  return tasks;
}

std::vector<WeightPlan::Task> WeightPlan::make_tasks(const kernels::Backend& backend) const {
  std::vector<Task> tasks = make_table_tasks(backend);
  tasks.reserve(packings_.size() + tasks.size());
  for (const Packing& packing : packings_) {
    if (!leaves_experts_ || !packing.expert) tasks.push_back(make_task(packing, backend));
  }
  return tasks;
}

bool WeightPlan::is_sound(const checkpoint::TensorInfo& tensor) const {
  const std::span<const std::byte> bytes = checkpoint_->bytes(tensor);
  if (tensor.dtype != DType::kF8E4M3) return all_finite(tensor.dtype, bytes);
  const checkpoint::TensorInfo* scales = checkpoint_->find(scale_name(tensor.name));
  return !has_fp8_nan(bytes) && all_finite(DType::kF32, checkpoint_->bytes(*scales));
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
  std::size_t scratch_bytes = 0;
  std::uint64_t total = 0;
  for (const Task& task : tasks) {
    total += task.stored_bytes;
    scratch_bytes = std::max(scratch_bytes, align(task.scratch_bytes));
  }
  Buffer scratch(scratch_bytes * pool.n_threads());
  const auto run = [&](std::size_t index, std::size_t thread) {
    const Task& task = tasks[index];
    bool is_good = true;
    for (std::size_t i = 0; i < task.checked.size(); ++i) {
      if (task.checked[i] == nullptr || is_sound(*task.checked[i])) continue;
      is_good = false;
      std::size_t seen = first_bad.load();
      while (2 * index + i < seen && !first_bad.compare_exchange_weak(seen, 2 * index + i)) {
      }
    }
    if (!is_good) return;  // only numbers can be rounded
    task.run(backend,
             {memory + task.offset, task.packed_bytes},
             {scratch.data() + thread * scratch_bytes, task.scratch_bytes});
  };
  std::uint64_t done = 0;
  for (std::size_t begin = 0; begin < tasks.size();) {
    std::size_t end = begin;
    const std::uint64_t report_at = progress ? done + total / kReports : total;
    for (; end < tasks.size() && (end == begin || done < report_at); ++end) {
      done += tasks[end].stored_bytes;
    }
    pool.parallel_for(end - begin, 1, [&](std::size_t from, std::size_t to, std::size_t thread) {
      for (std::size_t i = from; i < to; ++i) run(begin + i, thread);
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

void WeightPlan::load_vectors() const {
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
}

Buffer WeightPlan::load(const kernels::Backend& backend,
                        ThreadPool& pool,
                        const Progress& progress) const {
  load_vectors();
  std::vector<Task> tasks = make_tasks(backend);
  std::size_t n_bytes = 0;
  for (Task& task : tasks) {
    task.offset = n_bytes;
    n_bytes += align(task.packed_bytes);
  }
  Buffer memory(n_bytes);
  run_tasks(tasks, memory.data(), backend, pool, progress);
  return memory;
}

WeightMemory WeightPlan::memory(const kernels::Backend& backend,
                                FunctionRef<bool(const Packing&)> counts) const {
  WeightMemory memory;
  for (const Packing& packing : packings_) {
    if (!counts(packing)) continue;
    memory.packed_bytes += align(make_task(packing, backend).packed_bytes);
    if (packing.origin == Packing::Origin::kPanels) {
      memory.mapped_bytes += checkpoint_->find_panels(packing.part.entry)->size_bytes;
    }
  }
  return memory;
}

WeightMemory WeightPlan::table_memory(const kernels::Backend& backend) const {
  WeightMemory memory;
  for (const Task& task : make_table_tasks(backend))
    memory.packed_bytes += align(task.packed_bytes);
  for (const Table& table : tables_) {
    if (const checkpoint::PanelTensor* panels = checkpoint_->find_panels(table.name)) {
      memory.mapped_bytes += panels->size_bytes;
    } else if (const checkpoint::TensorInfo* tensor = checkpoint_->find(table.name)) {
      memory.mapped_bytes += tensor->size_bytes;
    }
  }
  return memory;
}

}  // namespace ft::models
