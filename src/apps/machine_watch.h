// The machine a benchmark runs on: what it can do at best, and whether others use it meanwhile.
#pragma once

#include "base/clock.h"
#include "base/thread_pool.h"
#include "io/cpu_times.h"
#include "kernels/probe.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace ft::apps {

struct MachineReport {
  std::string cpu;
  std::size_t n_threads = 0;
  double read_bytes_per_s = 0;  // of memory, all threads
  double f32_ops_per_s = 0;     // all threads; a multiply-add is two operations
  double int8_ops_per_s = 0;    // 0: not measured
  double others_share = 0;      // of the allowed processors' time during the run
  double thread_scaling = 1;    // speed of n threads over n times that of one, the worse reading
  bool is_busy = false;
};

/// Others may use so much of the processors before a figure no longer counts.
inline constexpr double kMostOthersShare = 0.05;
/// All threads together reach this part of n times one thread on a quiet machine, clock rates that
/// fall with load included.
inline constexpr double kLeastThreadScaling = 0.75;

/// Whether figures of such a run are not to be trusted.
bool is_busy(const MachineReport& report) noexcept;

class MachineWatch {
 public:
  /// Measures for about a second, with threads of its own that sleep afterwards. The buffer for the
  /// read bandwidth is freed again. Throws ResourceExhausted.
  MachineWatch(std::size_t n_threads, std::uint64_t buffer_bytes);
  /// Measures once more and looks back at the time between.
  MachineReport finish();

  /// Bytes per second that the pool's threads together read of a buffer of that size. Throws
  /// ResourceExhausted.
  static double read_bandwidth(ThreadPool& pool, std::uint64_t buffer_bytes);

 private:
  double thread_scaling() const;

  SteadyClock clock_;
  ThreadPool pool_;
  kernels::Probe probe_;
  MachineReport report_;
  std::optional<io::CpuTimes> start_;
};

}  // namespace ft::apps
