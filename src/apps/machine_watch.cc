#include "apps/machine_watch.h"

#include "base/buffer.h"

#include <algorithm>
#include <span>

namespace ft::apps {
namespace {

constexpr std::size_t kReadPasses = 5;
// Long against a scheduler's slice, so that a competitor is met.
constexpr std::size_t kScalingBudgetUs = 100'000;
constexpr std::size_t kPeakBudgetUs = 50'000;
constexpr std::size_t kPageFloats = 1024;

}  // namespace

bool is_busy(const MachineReport& report) noexcept {
  return report.others_share > kMostOthersShare || report.thread_scaling < kLeastThreadScaling;
}

double MachineWatch::read_bandwidth(ThreadPool& pool, std::uint64_t buffer_bytes) {
  const SteadyClock clock;
  const kernels::Probe probe(kernels::usable_isas().front(), pool, clock);
  const std::size_t n = buffer_bytes / sizeof(float);
  Buffer buffer(n * sizeof(float));
  const std::span<float> floats = buffer.as<float>(n);
  // Untouched pages would all be the kernel's one page of zeros.
  pool.parallel_for(
      n, std::size_t{256} * kPageFloats, [&](std::size_t begin, std::size_t end, std::size_t) {
        std::fill(floats.begin() + static_cast<std::ptrdiff_t>(begin),
                  floats.begin() + static_cast<std::ptrdiff_t>(end),
                  1.0F);
      });
  return probe.read_bytes_per_s(floats, kReadPasses);
}

MachineWatch::MachineWatch(std::size_t n_threads, std::uint64_t buffer_bytes)
    : pool_(n_threads), probe_(kernels::usable_isas().front(), pool_, clock_) {
  start_ = io::cpu_times();
  report_.cpu = io::cpu_name();
  report_.n_threads = n_threads;
  report_.read_bytes_per_s = read_bandwidth(pool_, buffer_bytes);
  report_.f32_ops_per_s = probe_.f32_ops_per_s(n_threads, kPeakBudgetUs);
  report_.int8_ops_per_s = probe_.int8_ops_per_s(kPeakBudgetUs);
  report_.thread_scaling = thread_scaling();
}

double MachineWatch::thread_scaling() const {
  if (pool_.n_threads() == 1) return 1;
  const double one = probe_.f32_ops_per_s(1, kScalingBudgetUs);
  const double all = probe_.f32_ops_per_s(pool_.n_threads(), kScalingBudgetUs);
  return all / (one * static_cast<double>(pool_.n_threads()));
}

MachineReport MachineWatch::finish() {
  report_.thread_scaling = std::min(report_.thread_scaling, thread_scaling());
  const std::optional<io::CpuTimes> end = io::cpu_times();
  if (start_ && end) report_.others_share = io::others_share(*start_, *end);
  report_.is_busy = is_busy(report_);
  return report_;
}

}  // namespace ft::apps
