// The compute threads. Owned by the Engine, lent to the kernels; nothing else in the program runs
// in parallel.
#pragma once

#include "base/function_ref.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ft {

/// Fixed set of threads for fork-join loops of microseconds. Workers spin briefly, then sleep.
/// One caller at a time; calls do not nest. Which thread runs which item is unspecified, so bodies
/// must not let results depend on it.
class ThreadPool {
 public:
  /// n_threads counts the caller, so 1 starts no thread. n_threads >= 1. With `cpus`, one per
  /// thread (see cpus_for_threads()), each worker stays on its processor for good.
  explicit ThreadPool(std::size_t n_threads, std::vector<std::int64_t> cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ThreadPool(ThreadPool&&) = delete;
  ThreadPool& operator=(ThreadPool&&) = delete;

  std::size_t n_threads() const noexcept;

  /// Binds the calling thread, the one that calls parallel_for() from now on, to the first of
  /// `cpus`; nothing without them. Threads that it starts afterwards inherit the bond.
  void pin_caller() const noexcept;

  /// Calls body(begin, end, thread) for consecutive ranges of at most `grain` items that cover [0,
  /// n_items) exactly once; thread < n_threads() names the running thread (for scratch memory).
  /// Returns when all are done. Runs on the caller alone if everything fits into one range. Body
  /// must not throw.
  void parallel_for(std::size_t n_items,
                    std::size_t grain,
                    FunctionRef<void(std::size_t begin, std::size_t end, std::size_t thread)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Physical cores this process may run on: affinity mask and cgroup v1/v2 CPU quota, at least 1.
std::size_t usable_cores();

/// How many compute threads a user gets who asked for `n_wanted`; 0 asks for usable_cores(). Throws
/// InvalidInput beyond 1024.
std::size_t compute_threads(std::size_t n_wanted);

/// Processors to pin n_threads threads to, as distant from one another as allowed: one of each
/// physical core first, then their hyperthread siblings. Empty if threads would have to share one
/// or exceed the CPU quota: then pinning stalls all of them, and nothing is to be pinned.
std::vector<std::int64_t> cpus_for_threads(std::size_t n_threads);

}  // namespace ft
