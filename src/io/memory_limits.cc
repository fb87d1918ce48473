#include "io/memory_limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ft::io {
namespace {

namespace fs = std::filesystem;

// Version 1 writes "no limit" as the largest multiple of a page below 2^63.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return number_of(word);
}

/// The number after `key` in lines such as "MemTotal: 123 kB" or "cache 123".
std::optional<std::uint64_t> number_after(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::string number;
    words >> name >> number;
    if (name == key) return number_of(number);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> kib_after(const fs::path& path, std::string_view key) {
  const auto kib = number_after(path, key);
  if (!kib || *kib > std::numeric_limits<std::uint64_t>::max() / 1024) return std::nullopt;
  return *kib * 1024;
}

/// The smaller of what is there.
std::optional<std::uint64_t> least(std::optional<std::uint64_t> a, std::optional<std::uint64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

enum class Version { kV1, kV2 };

/// A hierarchy of groups: where it is seen, and this process's place in it.
struct Hierarchy {
  Version version = Version::kV2;
  fs::path top;    // the highest group to be seen
  fs::path group;  // at or below it
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A path of mountinfo, where blanks are written \040.
fs::path unescaped(const std::string& text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size();
    int value = 0;
    const char* const digits = text.data() + i + 1;
    if (is_escape && std::from_chars(digits, digits + 3, value, 8).ptr == digits + 3) {
      path += static_cast<char>(value);
      i += 3;
    } else {
      path += text[i];
    }
  }
  return path;
}

/// This process's path in the hierarchy of the memory controller, by /proc/self/cgroup.
std::optional<fs::path> path_in(const fs::path& root, Version version) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = version == Version::kV2 ? line.starts_with("0:") && controllers.empty()
                                               : contains(split(controllers, ','), "memory");
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// Where `path` of a hierarchy is below a mount that shows it from `mount_root` on. The mount
/// itself if it is not there: a container often sees its own group as the top, under its outer
/// name.
fs::path folder_of(const fs::path& path, const fs::path& mount_root, const fs::path& mount) {
  const fs::path relative = path.lexically_relative(mount_root);
  const bool is_outside = relative.empty() || relative.begin()->native() == "..";
  std::error_code ignored;
  if (is_outside || relative == "." || !fs::is_directory(mount / relative, ignored)) return mount;
  return mount / relative;
}

std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // "36 35 98:0 ROOT MOUNT OPTIONS [tags] - TYPE SOURCE SUPER_OPTIONS", proc(5).
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto left = split(line.substr(0, dash), ' ');
    const auto right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool is_v1 = right[0] == "cgroup" && contains(split(right[2], ','), "memory");
    if (!is_v1 && right[0] != "cgroup2") continue;
    const Version version = is_v1 ? Version::kV1 : Version::kV2;
    const auto path = path_in(root, version);
    if (!path) continue;
    const fs::path mount = root / unescaped(left[4]).relative_path();
    found.push_back(
        {.version = version, .top = mount, .group = folder_of(*path, unescaped(left[3]), mount)});
  }
  return found;
}

std::optional<std::uint64_t> limit_of(const fs::path& group, Version version) {
  const auto limit = version == Version::kV1
                         ? least(number_in(group / "memory.limit_in_bytes"),
                                 number_after(group / "memory.stat", "hierarchical_memory_limit"))
                         : least(number_in(group / "memory.max"), number_in(group / "memory.high"));
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

std::optional<std::uint64_t> cache_of(const fs::path& group, Version version) {
  const std::string prefix = version == Version::kV1 ? "total_" : "";
  const auto active = number_after(group / "memory.stat", prefix + "active_file");
  const auto inactive = number_after(group / "memory.stat", prefix + "inactive_file");
  if (!active || !inactive) return std::nullopt;
  return *active + *inactive;
}

/// Orders limits by what they leave; by themselves where the use is unknown.
std::uint64_t room_of(const GroupLimit& limit) {
  return limit.available_bytes().value_or(limit.limit_bytes);
}

/// The share from the line "some avg10=1.23 ...".
std::optional<double> pressure_in(const fs::path& path) {
  constexpr std::string_view kKey = "avg10=";
  std::ifstream file(path);
  std::string kind;
  std::string average;
  if (!(file >> kind >> average) || kind != "some" || !average.starts_with(kKey)) {
    return std::nullopt;
  }
  std::istringstream number(average.substr(kKey.size()));
  number.imbue(std::locale::classic());
  double percent = 0;
  if (!(number >> percent)) return std::nullopt;
  return std::clamp(percent / 100, 0.0, 1.0);
}

/// Takes in one group and those above it.
void read_groups(const Hierarchy& hierarchy, MemoryLimits& limits) {
  const bool is_v1 = hierarchy.version == Version::kV1;
  for (fs::path group = hierarchy.group;; group = group.parent_path()) {
    const auto used = number_in(group / (is_v1 ? "memory.usage_in_bytes" : "memory.current"));
    const auto limit = limit_of(group, hierarchy.version);
    limits.are_groups_known |= used.has_value() || limit.has_value();
    if (limit) {
      const GroupLimit found{.folder = group,
                             .limit_bytes = *limit,
                             .used_bytes = used,
                             .cache_bytes = cache_of(group, hierarchy.version)};
      if (!limits.group || room_of(found) < room_of(*limits.group)) limits.group = found;
    }
    if (!limits.pressure) limits.pressure = pressure_in(group / "memory.pressure");
    if (group == hierarchy.top || !group.has_relative_path()) return;
  }
}

}  // namespace

std::optional<std::uint64_t> GroupLimit::available_bytes() const noexcept {
  if (!used_bytes) return std::nullopt;
  const std::uint64_t held = *used_bytes - std::min(*used_bytes, cache_bytes.value_or(0));
  return limit_bytes - std::min(limit_bytes, held);
}

std::optional<std::uint64_t> MemoryLimits::most_bytes() const noexcept {
  return least(total_bytes, group ? std::optional(group->limit_bytes) : std::nullopt);
}

std::optional<std::uint64_t> MemoryLimits::allocatable_bytes() const noexcept {
  return least(available_bytes, group ? group->available_bytes() : std::nullopt);
}

MemoryLimits memory_limits_under(const fs::path& root) {
  MemoryLimits limits{.total_bytes = kib_after(root / "proc/meminfo", "MemTotal:"),
                      .available_bytes = kib_after(root / "proc/meminfo", "MemAvailable:"),
                      .are_groups_known = false,
                      .group = std::nullopt,
                      .pressure = std::nullopt};
  for (const Hierarchy& hierarchy : hierarchies(root)) read_groups(hierarchy, limits);
  if (!limits.pressure) limits.pressure = pressure_in(root / "proc/pressure/memory");
  return limits;
}

MemoryLimits memory_limits() {
  return memory_limits_under("/");
}

}  // namespace ft::io
