// Which tensors a model needs and where each goes. A family declares its weights once; the
// declaration serves the census (before anything is mapped), the byte counts, and the packing.
#pragma once

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::models {

/// How a matrix may be stored. kFollowsFormat: any dtype, and it counts for the name of the weight
/// format. kAny: any dtype. kUnquantized: f32, bf16 or f16 only.
enum class Storage { kFollowsFormat, kAny, kUnquantized };

/// For the byte counts.
enum class WeightKind { kDense, kExpert };

/// A part of a stored matrix that becomes a weight of its own.
struct MatrixPart {
  enum class Orientation { kAsStored, kTransposed };
  std::size_t first_row = 0;
  std::size_t n_rows = 0;
  Orientation orientation = Orientation::kAsStored;
  kernels::Weight* destination = nullptr;
};

struct WeightTotals {
  std::uint64_t n_parameters = 0;  // scales not counted
  std::uint64_t dense_bytes = 0;   // as stored, scales included
  std::uint64_t expert_bytes = 0;
};

/// Destinations must stay where they are until load() has returned.
class WeightPlan {
 public:
  using Progress = std::function<void(std::uint64_t, std::uint64_t)>;

  /// `checkpoint` must outlive the plan. Scales of fp8 matrices cover blocks of block_rows x
  /// block_cols.
  WeightPlan(const checkpoint::Checkpoint& checkpoint,
             std::size_t block_rows,
             std::size_t block_cols);

  // --- declaration: tensor names without a prefix of ours, shapes as stored ---
  /// What follows counts as this kind.
  void set_kind(WeightKind kind) noexcept { kind_ = kind; }
  void matrix(const std::string& name,
              std::size_t n_out,
              std::size_t n_in,
              Storage storage,
              kernels::Weight& destination);
  /// Cuts one matrix into weights.
  void parts(const std::string& name,
             std::size_t n_out,
             std::size_t n_in,
             const std::vector<MatrixPart>& parts);
  /// Two matrices [width, n_in] interleaved for swiglu().
  void gate_up(const std::string& gate_name,
               const std::string& up_name,
               std::size_t width,
               std::size_t n_in,
               kernels::Weight& destination);
  /// Packs a matrix that is already declared (a head tied to the embedding).
  void also_packed(const std::string& name, std::size_t n_out, kernels::Weight& destination);
  /// Converted to f32; all values must be finite.
  void vector(const std::string& name, std::size_t n, std::vector<float>& destination);
  /// Stays mapped in its stored width, without scales.
  void mapped(const std::string& name,
              std::size_t n_rows,
              std::size_t n_cols,
              StoredMatrix& destination);

  // --- what was declared, from headers alone ---
  /// Names that the checkpoint lacks.
  std::vector<std::string> missing() const;
  /// Throws InvalidInput: see Checkpoint::census().
  void census() const;
  WeightTotals totals() const;
  /// "f32", "bf16", "f16", "fp8", or "mixed".
  std::string format() const;
  /// Takes over another plan of the same checkpoint.
  void merge(WeightPlan&& other);

  // --- packing ---
  /// A declared matrix as stored. The checkpoint must be mapped and have passed census().
  StoredMatrix stored(const std::string& name) const;
  /// Converts vectors, packs all matrices into one buffer (which the weights point into) and sets
  /// every destination. The checkpoint must be mapped and have passed census(). Blocks; runs on
  /// `pool`. Throws InvalidInput naming the tensor if an fp8 weight or scale, or a vector's value,
  /// is not a finite number.
  Buffer load(const kernels::Backend& backend, ThreadPool& pool, const Progress& progress) const;

 private:
  struct Tensor {
    checkpoint::TensorRequirement requirement;
    WeightKind kind = WeightKind::kDense;
    Storage storage = Storage::kUnquantized;
    bool is_scale = false;
  };
  /// One packed weight: a whole matrix, a part of one, or a gate with its up.
  struct Packing {
    std::string name;
    std::string up_name;  // not empty: gate_up()
    MatrixPart part;
  };
  struct VectorCopy {
    std::string name;
    std::vector<float>* destination = nullptr;
  };
  struct MappedTable {
    std::string name;
    StoredMatrix* destination = nullptr;
  };
  struct Task;

  void require(const std::string& name, std::vector<std::uint64_t> shape, Storage storage);
  Task make_task(const Packing& packing, const kernels::Backend& backend) const;
  bool is_fp8_sound(const checkpoint::TensorInfo& tensor) const;
  void run_tasks(const std::vector<Task>& tasks,
                 std::byte* memory,
                 const kernels::Backend& backend,
                 ThreadPool& pool,
                 const Progress& progress) const;

  const checkpoint::Checkpoint* checkpoint_;
  std::size_t block_rows_;
  std::size_t block_cols_;
  WeightKind kind_ = WeightKind::kDense;
  std::vector<Tensor> tensors_;
  std::vector<Packing> packings_;
  std::vector<VectorCopy> vectors_;
  std::vector<MappedTable> tables_;
};

}  // namespace ft::models
