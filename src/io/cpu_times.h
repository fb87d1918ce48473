// Processor time, this process's and everybody's, so that a benchmark can tell a quiet machine from
// a busy one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace ft::io {

/// A reading of clocks that only grow.
struct CpuTimes {
  double busy_s = 0;  // of the processors this process may use, whoever used them, the host too
  double own_s = 0;   // this process on any processor
  double wall_s = 0;
  std::size_t n_cpus = 0;  // processors this process may use
};

/// Now; nullopt where the kernel does not say (no /proc/stat, or one of zeros).
std::optional<CpuTimes> cpu_times();

/// The share of those processors' time that others used between two readings, 0 … 1.
double others_share(const CpuTimes& before, const CpuTimes& after) noexcept;

/// What the processor calls itself; empty where the kernel does not say.
std::string cpu_name();

// The same with `root` in place of "/", so that tests can lay out other machines.
std::optional<CpuTimes> cpu_times_under(const std::filesystem::path& root);
std::string cpu_name_under(const std::filesystem::path& root);

}  // namespace ft::io
