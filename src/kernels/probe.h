// What the processor and its memory do at best, measured now: the scale that speeds are held
// against. Called by benchmarks only.
#pragma once

#include "base/clock.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

#include <cstddef>
#include <span>

namespace ft::kernels {

struct ProbeKernels;

class Probe {
 public:
  /// Measures with `isa`, one of usable_isas(). `pool` and `clock` must outlive it.
  Probe(Isa isa, ThreadPool& pool, const Clock& clock);

  /// Bytes per second that all threads together read, the fastest of n_passes. A `buffer` much
  /// larger than the caches, and touched, measures memory; its contents are floats.
  double read_bytes_per_s(std::span<const float> buffer, std::size_t n_passes) const;
  /// Multiply-adds of f32 in registers, each counted as two operations, for about `budget_us`.
  double f32_ops_per_s(std::size_t n_threads, std::size_t budget_us) const;
  /// Of 8-bit integers with 32-bit sums, all threads; 0 if the instruction set has none here.
  double int8_ops_per_s(std::size_t budget_us) const;

 private:
  template <typename Run>
  double ops_per_s(std::size_t n_threads,
                   std::size_t ops_per_round,
                   std::size_t budget_us,
                   const Run& run) const;

  const ProbeKernels& kernels_;
  ThreadPool& pool_;
  const Clock& clock_;
};

}  // namespace ft::kernels
