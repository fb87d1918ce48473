// Which tensors a model needs and where each goes. A family declares its weights once; the
// declaration serves the census (before anything is mapped), the byte counts, the packing, and the
// conversion into a container (conversion.h).
//
// A matrix may lie in a checkpoint in three ways: as elements with the Hugging Face name; in panels
// under the name of the *entry*, the packed weight's own (containers); as integers by rows
// (checkpoint/integer_rows.h).
#pragma once

#include "base/buffer.h"
#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/integer_rows.h"
#include "kernels/kernels.h"
#include "nn/embedding.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::models {

/// What may be done to a matrix.
enum class MatrixUse {
  kExact,          // f32, bf16 or f16 only, kept as stored
  kSensitive,      // kept as stored; fp8 and 8-bit integers are read too
  kFloatInputs,    // may be quantized; what it is multiplied with stays f32
  kRoundedInputs,  // may be quantized; what it is multiplied with may be rounded to 8 bits
};

constexpr bool may_be_quantized(MatrixUse use) noexcept {
  return use == MatrixUse::kFloatInputs || use == MatrixUse::kRoundedInputs;
}

/// Parts of a model that are counted and converted on their own. kMtp: all of the next-token layer.
enum class WeightPart { kDense, kExperts, kMtp, kHead };

/// A part of a stored matrix that becomes a weight of its own.
struct MatrixPart {
  enum class Orientation { kAsStored, kTransposed };
  std::string entry;
  std::size_t first_row = 0;
  std::size_t n_rows = 0;
  Orientation orientation = Orientation::kAsStored;
  kernels::Weight* destination = nullptr;
};

struct WeightTotals {
  std::uint64_t n_parameters = 0;  // scales not counted
  std::uint64_t dense_bytes = 0;   // as stored, scales included: all but experts
  std::uint64_t expert_bytes = 0;
};

/// An expert that a container stores in one extent.
struct ExpertPlace {
  std::size_t layer = 0;
  std::size_t expert = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 means the 0 that comparisons return
  auto operator<=>(const ExpertPlace&) const = default;
};

/// One packed weight: a whole matrix, a part of one, or a gate with its up.
struct Packing {
  enum class Origin {
    kElements,  // of tensor `name` (and `up_name`)
    kEntry,     // elements of a tensor that is this weight, named `entry`
    kPanels,    // named `entry`
    kIntegers,  // by rows, of tensor `name` (and `up_name`)
  };

  std::string name;
  std::string up_name;  // not empty: gate_up()
  MatrixPart part;
  std::size_t n_rows =
      0;  // of the weight: a transposed part's, gate and up each up to whole panels
  std::size_t n_cols = 0;
  MatrixUse use = MatrixUse::kExact;
  WeightPart belongs_to = WeightPart::kDense;
  std::optional<ExpertPlace> expert;
  Origin origin = Origin::kElements;
};

struct WeightMemory {
  std::uint64_t packed_bytes = 0;  // anonymous
  std::uint64_t mapped_bytes = 0;  // of files that weights point into
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
  /// What follows belongs to this part.
  void set_part(WeightPart part) noexcept { part_ = part; }
  WeightPart part() const noexcept { return part_; }
  /// What follows lies in one extent of a container; nullopt ends that.
  void set_expert(std::optional<ExpertPlace> place) noexcept { expert_ = place; }
  void matrix(const std::string& name,
              std::size_t n_out,
              std::size_t n_in,
              MatrixUse use,
              kernels::Weight& destination);
  /// Cuts one matrix into weights.
  void parts(const std::string& name,
             std::size_t n_out,
             std::size_t n_in,
             MatrixUse use,
             const std::vector<MatrixPart>& parts);
  /// "<prefix>gate_proj.weight" and "<prefix>up_proj.weight" [width, n_in], interleaved for
  /// swiglu().
  void gate_up(const std::string& prefix,
               std::size_t width,
               std::size_t n_in,
               MatrixUse use,
               kernels::Weight& destination);
  /// Packs a matrix that mapped() has declared a second time (a head tied to the embedding).
  void also_packed(
      const std::string& name, std::size_t n_out, std::size_t n_in, MatrixPart head, MatrixUse use);
  /// Converted to f32; all values must be finite.
  void vector(const std::string& name, std::size_t n, std::vector<float>& destination);
  /// Rows are looked up, not multiplied. Stays mapped in its stored width, without scales; integers
  /// are put into panels.
  void table(const std::string& name,
             std::size_t n_rows,
             std::size_t n_cols,
             nn::EmbeddingTable& destination);

  // --- what was declared, from headers alone ---
  /// Names that the checkpoint lacks.
  std::vector<std::string> missing() const;
  /// Throws InvalidInput: see Checkpoint::census(); also for panels of a wrong shape and integers
  /// of unknown layout. Must come before everything below.
  void census();
  WeightTotals totals() const;
  /// The formats of the matrices that may be quantized, the head left out: "f32", "bf16", "f16",
  /// "fp8", "q8", "q4", "int8", "int4", or several with '+' between.
  std::string format() const;
  /// Takes over another plan of the same checkpoint.
  void merge(WeightPlan&& other);
  const checkpoint::Checkpoint& checkpoint() const noexcept { return *checkpoint_; }
  const checkpoint::IntegerLayouts& integers() const noexcept { return integers_; }
  std::size_t block_rows() const noexcept { return block_rows_; }
  std::size_t block_cols() const noexcept { return block_cols_; }

  // --- for the conversion, in the order of the declaration ---
  const std::vector<Packing>& packings() const noexcept { return packings_; }
  std::vector<std::string> tables() const;
  std::vector<std::string> vectors() const;

  // --- packing ---
  /// Weights of this part that are made of elements and may be quantized will be, when they are
  /// packed.
  void quantize(WeightPart part, QuantFormat format) { quantized_[part] = format; }
  /// Experts that a container keeps in extents are left out of load().
  void leave_experts() noexcept { leaves_experts_ = true; }
  /// What load() will take for the packings that `counts` says yes to. Needs what load() needs.
  WeightMemory memory(const kernels::Backend& backend,
                      FunctionRef<bool(const Packing&)> counts) const;
  WeightMemory table_memory(const kernels::Backend& backend) const;
  /// Whether the weight `entry` is made from elements (not panels or integers).
  bool is_made_of_elements(std::string_view entry) const;
  /// A declared matrix as stored. The checkpoint must be mapped and have passed census().
  StoredMatrix stored(const std::string& name) const;
  /// Converts vectors, packs matrices into one buffer (which the weights point into, unless they
  /// point into the mapping: panels stay there) and sets every destination. The checkpoint must be
  /// mapped and have passed census(). Blocks; runs on `pool`. Throws InvalidInput naming the tensor
  /// if an fp8 weight, a scale, or a vector's value is not a finite number. Panels of a
  /// container are not read here: their checksums are for verify_container().
  Buffer load(const kernels::Backend& backend, ThreadPool& pool, const Progress& progress) const;

 private:
  struct Tensor {
    checkpoint::TensorRequirement requirement;
    WeightPart part = WeightPart::kDense;
    bool counts_for_format = false;
    bool is_scale = false;
  };
  struct VectorCopy {
    std::string name;
    std::vector<float>* destination = nullptr;
  };
  struct Table {
    std::string name;
    std::size_t n_rows = 0;
    std::size_t n_cols = 0;
    nn::EmbeddingTable* destination = nullptr;
  };
  struct Task;

  void require(const std::string& name, std::vector<std::uint64_t> shape, MatrixUse use);
  /// Where a weight lies; declares integers and elements that are the weight itself.
  Packing::Origin find_origin(const Packing& packing, std::size_t n_out, std::size_t n_in);
  void add_packing(Packing packing, std::size_t n_out, std::size_t n_in);
  void check_panels() const;
  void check_integers() const;
  Task make_task(const Packing& packing, const kernels::Backend& backend) const;
  Task make_elements_task(const Packing& packing, const kernels::Backend& backend) const;
  void quantize_elements(const Packing& packing, QuantFormat format, Task& task) const;
  Task make_integers_task(const Packing& packing, const kernels::Backend& backend) const;
  std::vector<Task> make_tasks(const kernels::Backend& backend) const;
  std::vector<Task> make_table_tasks(const kernels::Backend& backend) const;
  bool is_sound(const checkpoint::TensorInfo& tensor) const;
  void load_vectors() const;
  void run_tasks(const std::vector<Task>& tasks,
                 std::byte* memory,
                 const kernels::Backend& backend,
                 ThreadPool& pool,
                 const Progress& progress) const;

  const checkpoint::Checkpoint* checkpoint_;
  std::size_t block_rows_;
  std::size_t block_cols_;
  WeightPart part_ = WeightPart::kDense;
  std::optional<ExpertPlace> expert_;
  std::vector<Tensor> tensors_;
  std::vector<Packing> packings_;
  std::vector<VectorCopy> vectors_;
  std::vector<Table> tables_;
  checkpoint::IntegerLayouts integers_;
  std::map<WeightPart, QuantFormat> quantized_;
  bool leaves_experts_ = false;
};

}  // namespace ft::models
