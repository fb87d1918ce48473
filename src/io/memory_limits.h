// What memory this process may use, as the machine and its control groups (v1 and v2) say. What the
// kernel does not say is absent, never 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ft::io {

/// A control group that limits the memory of this process.
struct GroupLimit {
  std::filesystem::path folder;  // where the kernel shows it
  std::uint64_t limit_bytes = 0;
  std::optional<std::uint64_t> used_bytes;   // by all processes of the group, page cache included
  std::optional<std::uint64_t> cache_bytes;  // the part of it that is page cache of files

  /// What may still be allocated before the limit; page cache makes room. Absent if the use is.
  std::optional<std::uint64_t> available_bytes() const noexcept;
};

struct MemoryLimits {
  std::optional<std::uint64_t> total_bytes;      // MemTotal
  std::optional<std::uint64_t> available_bytes;  // MemAvailable
  /// False: no group of this process could be read, so `group` tells nothing.
  bool are_groups_known = false;
  /// Of the groups with a limit the one that leaves the least; absent if none has one.
  std::optional<GroupLimit> group;
  /// Share of the last 10 s, 0 … 1, in which some process waited for memory: of the nearest group
  /// that says, else of the machine.
  std::optional<double> pressure;

  /// The size of the memory: that of the machine or of the tightest group.
  std::optional<std::uint64_t> most_bytes() const noexcept;
  /// What may be allocated now by machine and group together.
  std::optional<std::uint64_t> allocatable_bytes() const noexcept;
};

/// Reads about ten small files of /proc and /sys: 0.2 ms.
MemoryLimits memory_limits();

// The same with `root` in place of "/", so that tests can lay out other machines.
MemoryLimits memory_limits_under(const std::filesystem::path& root);

}  // namespace ft::io
