// The CPU backend: divides a call's work among the pool's threads and runs the chosen instruction
// set's functions.
#pragma once

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/int8_inputs.h"
#include "kernels/cpu/wide_keys.h"
#include "kernels/kernels.h"

namespace ft::kernels {

class CpuBackend final : public Backend {
 public:
  CpuBackend(Isa isa, const CpuKernels& kernels, ThreadPool& pool);

  std::string_view name() const noexcept override { return isa_name(isa_); }
  std::size_t scratch_bytes(std::uint64_t n_rounded) const noexcept override {
    return scratch_.size() + int8_inputs_.most_bytes(n_rounded) + wide_keys_.size_bytes();
  }

  std::size_t packed_bytes(std::span<const StoredMatrix> parts) const override;
  Weight pack(std::span<const StoredMatrix> parts, std::span<std::byte> destination) const override;
  std::size_t packed_gate_up_bytes(const StoredMatrix& gate, const StoredMatrix& up) const override;
  Weight pack_gate_up(const StoredMatrix& gate,
                      const StoredMatrix& up,
                      std::span<std::byte> destination) const override;
  Weight view(const QuantMatrix& matrix, Activation activation) const noexcept override;

  void matmul(std::span<const MatmulOp> ops) noexcept override;
  void swiglu(std::span<const SwigluOp> ops) noexcept override;
  void moe_combine(const MoeCombineArgs& args) noexcept override;
  void rms_norm(MutableMatrix y,
                ConstMatrix x,
                std::span<const float> weight,
                float eps) noexcept override;
  void layer_norm(MutableMatrix y,
                  ConstMatrix x,
                  std::span<const float> weight,
                  std::span<const float> bias,
                  float eps) noexcept override;
  void attend(const AttentionArgs& args) noexcept override;
  void index_scores(const IndexScoreArgs& args) noexcept override;
  void top_k(const TopKArgs& args) noexcept override;

 private:
  float* scratch(std::size_t thread) noexcept;
  template <typename Op>
  void run_linear(std::span<const Op> ops) noexcept;
  /// One product whose int8 inputs have no room at once.
  template <typename Op>
  void run_in_parts(const Op& op) noexcept;
  void quantize_inputs() noexcept;
  /// Ops whose inputs are laid out.
  template <typename Op>
  void run_planned(std::span<const Op> ops) noexcept;
  /// Fills the task's operands from `op` and runs it.
  template <typename Op>
  void run_tiles(const Op& op, const Int8Inputs::View& int8, LinearTask task) const noexcept;
  /// Some rows with some keys, which must be those of one sequence if the rows are more than one.
  struct KeyItem {
    std::size_t row_begin;
    std::size_t row_end;
    std::size_t key_begin;
    std::size_t key_end;
  };
  void score_keys(const IndexScoreArgs& args, KeyItem item, std::size_t thread) noexcept;
  /// body(row) for every row; on the caller alone if the whole costs less than a fork.
  void for_rows(std::size_t n_rows,
                std::size_t row_cost,
                FunctionRef<void(std::size_t)> body) noexcept;

  Isa isa_;
  CpuKernels kernels_;
  ThreadPool& pool_;
  Buffer scratch_;
  Int8Inputs int8_inputs_;
  WideKeys wide_keys_;
};

}  // namespace ft::kernels
