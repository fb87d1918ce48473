// The one compute header: what a device can do, in about a dozen verbs. No model knowledge here, no
// instruction sets above here.
//
// The contract every implementation keeps: a row's result never depends on how many rows travel
// with it, nor on the number of threads, nor on the order of operations in a call. Per output
// element there is one fixed order over K, keys are taken in chunks of kKeyChunk in the order of
// the row's key set, ties go to the lowest index. Results may differ between instruction sets,
// never within one.
//
// Verbs are noexcept and check nothing but debug assertions: callers in nn/ have checked shapes.
// All activations are f32 (products of Activation::kInt8 round theirs), accumulation is f32. Verbs
// return when the result is complete. One thread calls a backend at a time.
#pragma once

#include "base/thread_pool.h"
#include "tensor/dtype.h"
#include "tensor/formats/quantized_matrix.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ft::kernels {

/// Keys per chunk of attend(): scores of a chunk are reduced on their own, chunks are merged in
/// order.
inline constexpr std::size_t kKeyChunk = 256;
/// The longest cache row of attend() and index_scores(): bounds the scratch memory of a tile of
/// rows.
inline constexpr std::size_t kMaxKeyDim = std::size_t{8} * 1024;
/// Columns of a weight at most: a row of codes fits the scratch memory of a kernel.
inline constexpr std::size_t kMaxColumns = std::size_t{1} << 20;

/// How a product with integer weights sees its inputs.
enum class Activation : std::uint8_t {
  kFloat,  // as they are
  /// In 8 bits: per row and group of kQuantGroup columns the nearest of 127 steps to the largest
  /// magnitude. Faster; not for inputs of latents, queries and indexers.
  kInt8
};

/// A weight matrix [n_out, n_in], made by Backend::pack in a backend's own layout or by
/// Backend::view. A view: the bytes belong to whoever passed them. Stored width is kept (fp8 stays
/// one byte per weight).
struct Weight {
  const std::byte* data = nullptr;
  const float* scales = nullptr;  // fp8: [n_segments, n_out padded]; null for other types
  std::size_t n_out = 0;
  std::size_t n_in = 0;
  std::size_t first_segment =
      0;  // fp8: columns before the first scale border; others follow every block_cols
  std::size_t block_cols = 0;
  const std::uint32_t* tiny_marks = nullptr;  // fp8: see weight_layout.h; null if nobody asked
  DType dtype = DType::kF32;

  QuantMatrix quant;  // integer weights, the fields above but the shape unused; else codes is null
  Activation activation = Activation::kFloat;
};

/// Bytes that a product reads of the weight; padding counts in panels only.
std::size_t weight_bytes(const Weight& weight) noexcept;

/// y[i] = W x[x_rows ? x_rows[i] : i] for every row i of y; y.n_cols = W.n_out, x.n_cols = W.n_in.
struct MatmulOp {
  enum class Store { kAssign, kAdd };  // kAdd: y += the finished product, one addition per element

  MutableMatrix y;
  ConstMatrix x;
  const Weight* weight = nullptr;
  const std::uint32_t* x_rows = nullptr;
  Store store = Store::kAssign;
};

/// y[i] = silu(G x[r]) * (U x[r]), r = x_rows ? x_rows[i] : i; weight made by pack_gate_up (n_out =
/// 2 * y.n_cols) or a view of interleave_gate_up()'s matrix (n_out counts whole panels).
struct SwigluOp {
  MutableMatrix y;
  ConstMatrix x;
  const Weight* weight = nullptr;
  const std::uint32_t* x_rows = nullptr;
};

/// The cache rows one query row attends: positions ascending, or nullptr for all of 0 … n - 1 (same
/// result as the list). Rows of bf16 count as the f32 values they stand for: the result is that of
/// a cache of these, bit for bit.
struct KeySet {
  const void* keys = nullptr;  // first cache row of this row's sequence
  const std::int32_t* positions = nullptr;
  std::size_t n = 0;
  DType dtype = DType::kF32;  // of the rows: kF32 or kBF16
};

/// Absorbed latent attention. Per row and head: s_j = scale * q . key_j over key_dim, p =
/// softmax(s) over the set, z = sum_j p_j * key_j[0, latent_dim).
struct AttentionArgs {
  ConstMatrix q;                 // [n_rows, n_heads * key_dim]
  std::span<const KeySet> sets;  // one per row, n >= 1
  std::size_t n_heads = 0;
  std::size_t key_dim = 0;  // latent_dim + rope_dim; also the stride of cache rows
  std::size_t latent_dim = 0;
  float scale = 1;
  MutableMatrix z;  // [n_rows, n_heads * latent_dim]
};

/// Lightning-indexer scores: scores(i, s) = sum_h gate(i, h) * relu(scale * q(i, h) . key_s), heads
/// in order.
struct IndexScoreArgs {
  ConstMatrix q;     // [n_rows, n_heads * head_dim]
  ConstMatrix gate;  // [n_rows, n_heads]
  std::span<const KeySet>
      sets;  // one per row; positions must be nullptr: keys 0 … n - 1, stride head_dim
  std::size_t n_heads = 0;
  std::size_t head_dim = 0;
  float scale = 1;
  MutableMatrix scores;  // [n_rows, >= max n]; entries from n on are untouched
};

/// Per row the k largest of scores[0, n), ties to the lower position, as ascending positions.
struct TopKArgs {
  ConstMatrix scores;
  std::span<const std::size_t> n;  // one per row, n >= k
  std::size_t k = 0;
  std::int32_t* positions = nullptr;  // [n_rows, k]
};

/// Routed experts' outputs into the residual: per row t = sum over ranks in order of weight(row,
/// rank) * expert_out[slot(row, rank)], then t += shared[row], then x[row] += t.
struct MoeCombineArgs {
  ConstMatrix expert_out;                // [n_slots, d]
  std::span<const std::uint32_t> slots;  // [n_rows * n_ranks]: row of expert_out
  ConstMatrix weights;                   // [n_rows, n_ranks]
  ConstMatrix shared;                    // [n_rows, d], or data == nullptr
  MutableMatrix x;                       // [n_rows, d]
};

/// One device. Implementations: the CPU backend of each instruction set.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;  // "ref", "avx2", "avx512", "neon"
  /// Memory that its verbs will use at most, if no call has more than `n_rounded` values of inputs
  /// that are rounded to 8 bits.
  virtual std::size_t scratch_bytes(std::uint64_t n_rounded) const noexcept = 0;

  // --- weights ---
  /// Bytes that pack() of these parts needs (64-byte aligned destination).
  virtual std::size_t packed_bytes(std::span<const StoredMatrix> parts) const = 0;
  /// Packs matrices stacked by rows (same n_cols, dtype and scale layout along columns).
  /// Thread-safe.
  virtual Weight pack(std::span<const StoredMatrix> parts,
                      std::span<std::byte> destination) const = 0;
  virtual std::size_t packed_gate_up_bytes(const StoredMatrix& gate,
                                           const StoredMatrix& up) const = 0;
  /// Interleaves gate and up for swiglu(). Same shape and dtype. Thread-safe.
  virtual Weight pack_gate_up(const StoredMatrix& gate,
                              const StoredMatrix& up,
                              std::span<std::byte> destination) const = 0;
  /// Integer weights where they lie, a mapped file for example: nothing is copied or changed.
  virtual Weight view(const QuantMatrix& matrix, Activation activation) const noexcept = 0;

  // --- linear ---
  /// Independent products, run together: one call costs one fork-join. Destinations must not
  /// overlap.
  virtual void matmul(std::span<const MatmulOp> ops) noexcept = 0;
  virtual void swiglu(std::span<const SwigluOp> ops) noexcept = 0;
  virtual void moe_combine(const MoeCombineArgs& args) noexcept = 0;

  // --- rows ---
  /// y = x * rsqrt(mean(x^2) + eps) * weight in f32; y may be x.
  virtual void rms_norm(MutableMatrix y,
                        ConstMatrix x,
                        std::span<const float> weight,
                        float eps) noexcept = 0;
  /// Mean-subtracting layer norm with bias; y may be x.
  virtual void layer_norm(MutableMatrix y,
                          ConstMatrix x,
                          std::span<const float> weight,
                          std::span<const float> bias,
                          float eps) noexcept = 0;

  // --- attention ---
  virtual void attend(const AttentionArgs& args) noexcept = 0;
  virtual void index_scores(const IndexScoreArgs& args) noexcept = 0;
  virtual void top_k(const TopKArgs& args) noexcept = 0;
};

/// Instruction sets of the CPU backend, slowest first.
enum class Isa { kRef, kNeon, kAvx2, kAvx512 };

/// "ref", "neon", "avx2", "avx512".
std::string_view isa_name(Isa isa) noexcept;
std::optional<Isa> isa_from_name(std::string_view name) noexcept;
/// What this program was built with and this processor can run, fastest first; ref is always last.
std::vector<Isa> usable_isas();

/// The CPU backend. `pool` must outlive it. Throws InvalidInput if this processor or build lacks
/// `isa`.
std::unique_ptr<Backend> make_cpu_backend(Isa isa, ThreadPool& pool);

}  // namespace ft::kernels
