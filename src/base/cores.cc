#include "base/cores.h"

#include "base/thread_pool.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ft {
namespace {

namespace fs = std::filesystem;

// Linux numbers CPUs below 8192 (CONFIG_NR_CPUS); a list that names more is not believed.
constexpr std::int64_t kMaxCpu = 1 << 16;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) {
    text << file.rdbuf();
  }
  return std::move(text).str();
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream stream(line);
  for (std::string part; stream >> part;) {
    parts.push_back(part);
  }
  return parts;
}

/// "0-3,8" as {0, 1, 2, 3, 8}; empty if malformed.
std::vector<std::int64_t> parse_cpu_list(const std::string& text) {
  std::vector<std::int64_t> cpus;
  for (const std::string& range : split(text, ',')) {
    const std::size_t dash = range.find('-');
    const auto first = parse_integer(std::string_view(range).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : parse_integer(std::string_view(range).substr(dash + 1));
    if (!first || !last || *first < 0 || *last > kMaxCpu) {
      return {};
    }
    for (std::int64_t cpu = *first; cpu <= *last; ++cpu) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

struct CpusByCore {
  std::vector<std::int64_t> firsts;    // one processor of each physical core
  std::vector<std::int64_t> siblings;  // the others
};

/// A core is named by its lowest hyperthread, allowed or not.
CpusByCore by_core(const fs::path& root, const std::vector<std::int64_t>& cpus) {
  std::set<std::int64_t> cores;
  CpusByCore out;
  for (const std::int64_t cpu : cpus) {
    const fs::path topology =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    const std::vector<std::string> text = words(read_file(topology / "thread_siblings_list"));
    const std::vector<std::int64_t> siblings =
        text.size() == 1 ? parse_cpu_list(text[0]) : std::vector<std::int64_t>{};
    const std::int64_t core =
        siblings.empty() ? cpu : *std::min_element(siblings.begin(), siblings.end());
    (cores.insert(core).second ? out.firsts : out.siblings).push_back(cpu);
  }
  return out;
}

/// quota / period rounded down, at least 1: with more threads than quota a fork-join loop stalls
/// each period.
std::optional<std::size_t> cores_of_quota(const std::string& quota, const std::string& period) {
  const auto quota_us = parse_integer(quota);
  const auto period_us = parse_integer(period);
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) {
    return std::nullopt;  // "max" in v2, -1 in v1
  }
  return static_cast<std::size_t>(std::max<std::int64_t>(1, *quota_us / *period_us));
}

std::optional<std::size_t> quota_of_group(const fs::path& group) {
  if (const std::vector<std::string> v2 = words(read_file(group / "cpu.max")); v2.size() == 2) {
    return cores_of_quota(v2[0], v2[1]);
  }
  const std::vector<std::string> quota = words(read_file(group / "cpu.cfs_quota_us"));
  const std::vector<std::string> period = words(read_file(group / "cpu.cfs_period_us"));
  return quota.size() == 1 && period.size() == 1 ? cores_of_quota(quota[0], period[0])
                                                 : std::nullopt;
}

bool contains(const std::string& comma_list, std::string_view word) {
  const std::vector<std::string> parts = split(comma_list, ',');
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

/// The process's path in the hierarchy that governs CPU time: v2 (`0::PATH`) or v1
/// (`N:...cpu...:PATH`).
std::string group_path(const fs::path& root, bool is_v2) {
  for (const std::string& line : split(read_file(root / "proc/self/cgroup"), '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_v2 ? controllers.empty() : contains(controllers, "cpu")) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

/// Smallest quota from the process's group up to the root of the mount.
std::size_t quota_of_mount(const fs::path& root,
                           const std::string& mount_point,
                           const std::string& mount_root,
                           const std::string& group) {
  // A container may see only its own subtree mounted: then the group's path starts with the mount's
  // root. A group outside of it cannot be seen, and the mount's own quota is not its own.
  std::string inside = group;
  if (mount_root != "/") {
    const bool is_inside = inside.starts_with(mount_root) &&
                           (inside.size() == mount_root.size() || inside[mount_root.size()] == '/');
    if (!is_inside && inside != "/") {
      return std::numeric_limits<std::size_t>::max();
    }
    inside.erase(0, is_inside ? mount_root.size() : 0);
  }
  const fs::path top = root / fs::path(mount_point).relative_path();
  fs::path relative = fs::path(inside).relative_path();
  std::size_t cores = std::numeric_limits<std::size_t>::max();
  while (true) {
    cores = std::min(cores, quota_of_group(top / relative).value_or(cores));
    if (relative.empty()) {
      return cores;
    }
    relative = relative.parent_path();
  }
}

std::size_t quota_cores(const fs::path& root) {
  std::size_t cores = std::numeric_limits<std::size_t>::max();
  for (const std::string& line : split(read_file(root / "proc/self/mountinfo"), '\n')) {
    // "36 35 98:0 ROOT MOUNT_POINT options [optional...] - TYPE SOURCE SUPER_OPTIONS", see proc(5).
    const std::vector<std::string> fields = words(line);
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) {
      continue;
    }
    const bool is_v2 = dash[1] == "cgroup2";
    if (is_v2 || (dash[1] == "cgroup" && contains(dash[3], "cpu"))) {
      const std::string group = group_path(root, is_v2);
      cores = std::min(cores, quota_of_mount(root, fields[4], fields[3], group));
    }
  }
  return cores;
}

}  // namespace

std::vector<std::int64_t> allowed_cpus_under(const fs::path& root) {
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  for (const std::string& line : split(read_file(root / "proc/self/status"), '\n')) {
    if (line.starts_with(kKey)) {
      const std::vector<std::string> value = words(line.substr(kKey.size()));
      return value.size() == 1 ? parse_cpu_list(value[0]) : std::vector<std::int64_t>{};
    }
  }
  return {};
}

std::size_t usable_cores_under(const std::filesystem::path& root) {
  const std::vector<std::int64_t> cpus = allowed_cpus_under(root);
  const std::size_t cores =
      cpus.empty() ? std::thread::hardware_concurrency() : by_core(root, cpus).firsts.size();
  return std::max<std::size_t>(1, std::min(cores, quota_cores(root)));
}

std::vector<std::int64_t> cpus_for_threads_under(const std::filesystem::path& root,
                                                 std::size_t n_threads) {
  CpusByCore cpus = by_core(root, allowed_cpus_under(root));
  std::vector<std::int64_t> out = std::move(cpus.firsts);
  out.insert(out.end(), cpus.siblings.begin(), cpus.siblings.end());
  if (n_threads > std::min(out.size(), quota_cores(root))) return {};
  out.resize(n_threads);
  return out;
}

std::size_t usable_cores() {
  return usable_cores_under("/");
}

std::vector<std::int64_t> cpus_for_threads(std::size_t n_threads) {
  return cpus_for_threads_under("/", n_threads);
}

}  // namespace ft
