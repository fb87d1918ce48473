#include "io/cpu_times.h"

#include "base/cores.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace ft::io {
namespace {

double own_seconds() {
  std::timespec time{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double wall_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// Ticks of a line "cpu3 user nice system idle iowait irq softirq steal guest ..." that were not
/// idle. Guests' time is already in `user`.
std::uint64_t busy_ticks(std::istringstream& fields) {
  constexpr std::size_t kFields = 8;
  constexpr std::size_t kIdle = 3;
  constexpr std::size_t kWaiting = 4;
  std::uint64_t busy = 0;
  for (std::size_t i = 0; i < kFields; ++i) {
    std::uint64_t ticks = 0;
    if (!(fields >> ticks)) break;
    if (i != kIdle && i != kWaiting) busy += ticks;
  }
  return busy;
}

}  // namespace

std::optional<CpuTimes> cpu_times_under(const std::filesystem::path& root) {
  const std::vector<std::int64_t> cpus = allowed_cpus_under(root);
  std::ifstream file(root / "proc/stat");
  std::uint64_t ticks = 0;
  std::size_t n_cpus = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with("cpu") || name.size() == 3) continue;  // "cpu" alone is the sum
    const bool is_allowed = cpus.empty() || std::any_of(cpus.begin(), cpus.end(), [&](auto cpu) {
                              return name == "cpu" + std::to_string(cpu);
                            });
    if (!is_allowed) continue;
    ticks += busy_ticks(fields);
    ++n_cpus;
  }
  const long ticks_per_second = sysconf(_SC_CLK_TCK);
  if (ticks == 0 || ticks_per_second <= 0) return std::nullopt;
  return CpuTimes{.busy_s = static_cast<double>(ticks) / static_cast<double>(ticks_per_second),
                  .own_s = own_seconds(),
                  .wall_s = wall_seconds(),
                  .n_cpus = n_cpus};
}

std::optional<CpuTimes> cpu_times() {
  return cpu_times_under("/");
}

double others_share(const CpuTimes& before, const CpuTimes& after) noexcept {
  const double whole = (after.wall_s - before.wall_s) * static_cast<double>(after.n_cpus);
  if (!(whole > 0)) return 0;
  const double others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s);
  return std::clamp(others / whole, 0.0, 1.0);
}

std::string cpu_name_under(const std::filesystem::path& root) {
  constexpr std::string_view kKey = "model name";
  std::ifstream file(root / "proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return {};
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? std::string() : line.substr(first);
  }
  return {};
}

std::string cpu_name() {
  return cpu_name_under("/");
}

}  // namespace ft::io
