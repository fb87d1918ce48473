// How many cores this process may use, read from /proc and /sys. The one place below io that reads
// files, and it reads only those two kernel trees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace ft {

/// usable_cores() with `root` in place of "/", so that tests can lay out other machines:
/// the physical cores (hyperthread siblings counted once) among Cpus_allowed_list of
/// proc/self/status, bounded by the cgroup v2 or v1 CPU quota of this process and of its ancestors,
/// rounded down. At least 1. A file that is missing or malformed sets no bound.
std::size_t usable_cores_under(const std::filesystem::path& root);

/// The processors this process may use, ascending; empty if unknown.
std::vector<std::int64_t> allowed_cpus_under(const std::filesystem::path& root);

/// cpus_for_threads() with `root` in place of "/".
std::vector<std::int64_t> cpus_for_threads_under(const std::filesystem::path& root,
                                                 std::size_t n_threads);

}  // namespace ft
