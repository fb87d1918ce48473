// Rotary position embedding in interleaved pairs (2j, 2j + 1), written de-interleaved: all first
// components, then all second ones. Queries and keys agree on that order, so dot products do not
// see it.
#pragma once

#include "nn/compute.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ft::nn {

/// Widest rotary part any config may ask for; bounds a stack buffer.
inline constexpr std::size_t kMaxRotaryDim = 1024;

/// Frequencies theta^(-2j / rotary_dim). Angles are formed in f64: at a position of 10^6 an f32
/// angle is wrong by 0.06.
class RotaryTable {
 public:
  RotaryTable() = default;
  RotaryTable(double theta, std::size_t rotary_dim);
  std::size_t n_pairs() const noexcept { return frequencies_.size(); }
  /// cos and sin of one position's angles, [n_pairs] each.
  void angles(std::size_t position, float* cos_out, float* sin_out) const noexcept;

 private:
  std::vector<double> frequencies_;
};

/// Consecutive new positions of one sequence.
struct Run {
  std::size_t first_row = 0;
  std::size_t n_rows = 0;
  std::size_t first_position = 0;
};

/// The rows of one call: the runs of its sequences one after another, with their rotary angles.
class Rows {
 public:
  /// Replaces the contents. Runs must be consecutive from row 0.
  void assign(Compute compute, std::span<const Run> runs, const RotaryTable& table);
  std::size_t size() const noexcept { return n_rows_; }
  std::span<const Run> runs() const noexcept { return runs_; }
  std::span<const float> cos_of(std::size_t row) const noexcept { return cos_.row(row); }
  std::span<const float> sin_of(std::size_t row) const noexcept { return sin_.row(row); }

 private:
  std::vector<Run> runs_;
  std::size_t n_rows_ = 0;
  ScratchMatrix cos_memory_;
  ScratchMatrix sin_memory_;
  MutableMatrix cos_;
  MutableMatrix sin_;
};

/// out[0, 2n) = the rotated pairs of in[0, 2n), n = cos.size(). `out` and `in` must not overlap.
void rotate(const float* in,
            std::span<const float> cos,
            std::span<const float> sin,
            float* out) noexcept;
/// The same in place.
void rotate_in_place(float* x, std::span<const float> cos, std::span<const float> sin) noexcept;

}  // namespace ft::nn
