// The table that each instruction set fills, and the tasks its functions get. Called by CpuBackend
// only.
//
// How an instruction set's files are built. cpu/<isa>/vec.h wraps its vector type in namespace
// ft::kernels::<isa>: Vec, kLanes, load, store, load_partial, store_partial, fma, max, select_less,
// sum_lanes and so on, the same vocabulary in each, and defines FT_ISA as the namespace's name.
// Source that is the same for every vector width lives in cpu/simd/<topic>-inl.h in namespace
// ft::kernels::FT_ISA; cpu/<isa>/<topic>.cc includes it after vec.h, so that every function exists
// once per instruction set under its own name (static, or declared in <isa>_kernels.h). A new topic
// needs those files, one word per instruction set in CMakeLists.txt and one line in each
// cpu/<isa>/kernels.cc, which fills the table; entries without a fast version keep the portable one
// from ref.
//
// Code compiled with an instruction set's flags must not instantiate or inline anything that other
// files share (std containers, std::min, member functions of project headers): the linker keeps one
// copy of such a function and could give the whole program one that needs this instruction set.
// Types, constants and built-ins are fine.
//
// Every function is noexcept, allocates nothing and computes each row alone: which rows, outputs or
// heads share a task never changes a number.
#pragma once

#include "kernels/cpu/weight_layout.h"
#include "kernels/kernels.h"

#include <cstddef>
#include <cstdint>

namespace ft::kernels {

/// Working memory of each thread, 64-byte aligned, contents undefined.
inline constexpr std::size_t kScratchFloats = std::size_t{256} * 1024;
/// A tile of 16 widened cache rows, and what the dots and sums of one head need.
static_assert(17 * kMaxKeyDim + 16 * kKeyChunk <= kScratchFloats);
static_assert(kMaxColumns <= kScratchFloats * sizeof(float));
/// Rows of one LinearTask at most, so that accumulators of a block of rows fit into the scratch
/// memory.
inline constexpr std::size_t kMaxTaskRows = 256;

/// Panels of a tile of integer weights, on every instruction set: gate and up stay together.
inline constexpr std::size_t kTilePanels = 2;

/// Rows [row_begin, row_end) times the weight's tiles [tile_begin, tile_end) of one product. For
/// swiglu a tile's outputs are alternating units of gate and up.
struct LinearTask {
  std::size_t row_begin = 0;
  std::size_t row_end = 0;
  std::size_t tile_begin = 0;
  std::size_t tile_end = 0;
  float* scratch = nullptr;

  const Weight* weight = nullptr;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const std::byte* x_int8 = nullptr;      // int8 products only: the rows of x as int8_rows.h says
  std::size_t x_int8_stride = 0;          // bytes
  const std::uint32_t* x_rows = nullptr;  // or nullptr
  float* y = nullptr;
  std::size_t y_stride = 0;
  std::size_t n_y = 0;  // columns of y
  bool adds = false;    // y += product
};

/// Some heads of one row; fields as in AttentionArgs.
struct AttendTask {
  KeySet set;
  const float* q;  // [n_heads, key_dim]
  float* z;        // [n_heads, latent_dim]
  std::size_t n_heads;
  std::size_t key_dim;
  std::size_t latent_dim;
  float scale;
  float* scratch;
};

/// Some keys of one row; fields as in IndexScoreArgs.
struct IndexScoreTask {
  const void* keys;  // [n_keys, head_dim] of `dtype`
  DType dtype;
  const float* q;      // [n_heads, head_dim]
  const float* gates;  // [n_heads]
  float* scores;       // [n_keys]
  std::size_t n_keys;
  std::size_t n_heads;
  std::size_t head_dim;
  float scale;
  float* scratch;
};

/// One row of MoeCombineArgs.
struct CombineTask {
  const float* expert_out;
  std::size_t expert_stride;
  const std::uint32_t* slots;  // [n_ranks]
  const float* weights;        // [n_ranks]
  std::size_t n_ranks;
  const float* shared;  // or nullptr
  float* x;
  std::size_t n;  // columns
};

struct NormArgs {
  float* y;
  const float* x;
  const float* weight;
  const float* bias;  // layer norm only
  std::size_t n;
  float eps;
};

struct CpuKernels {
  WeightFormat weight_format;

  void (*matmul)(const LinearTask& task) noexcept;
  void (*swiglu)(const LinearTask& task) noexcept;
  /// Integer weights whose activation is kInt8.
  void (*matmul_int8)(const LinearTask& task) noexcept;
  void (*swiglu_int8)(const LinearTask& task) noexcept;
  /// One row of n inputs as int8_rows.h says.
  void (*quantize_row)(const float* x, std::size_t n, std::byte* row) noexcept;
  void (*moe_combine)(const CombineTask& task) noexcept;

  /// One row.
  void (*rms_norm)(const NormArgs& args) noexcept;
  void (*layer_norm)(const NormArgs& args) noexcept;

  void (*attend)(const AttendTask& task) noexcept;
  void (*index_scores)(const IndexScoreTask& task) noexcept;
  /// n bf16 elements as floats, exactly.
  void (*widen)(const std::uint16_t* from, std::size_t n, float* to) noexcept;
  /// The k largest of scores[0, n) as ascending positions, ties to the lower one.
  void (*top_k)(const float* scores, std::size_t n, std::size_t k, std::int32_t* out) noexcept;
};

namespace ref {
/// Plain loops: the judge of all others, and what runs where nothing else does.
CpuKernels kernels() noexcept;
}  // namespace ref

}  // namespace ft::kernels
