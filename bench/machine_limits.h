// What the machine can do at most, measured beside the kernels that are judged by it.
#pragma once

#include "base/thread_pool.h"

#include <cstddef>
#include <span>

namespace ft {

/// Seconds to read the bytes once with all threads, in stretches of the kernels' size.
double read_seconds(ThreadPool& pool, std::span<const std::byte> bytes);

/// Multiply-adds per second of all threads from registers alone: int8 pairs into 32 bits and f32,
/// by the widest instructions of this processor that the kernels use. 0 if this program has no
/// loop for it.
double int8_peak(ThreadPool& pool);
double f32_peak(ThreadPool& pool);

}  // namespace ft
