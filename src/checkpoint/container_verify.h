// Re-reads a container and compares every byte with its checksums.
#pragma once

#include "base/function_ref.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ft::checkpoint {

/// One line per damaged tensor, expert or file, naming it and where it lies; empty if the container
/// is sound. Damage to the index itself, a missing or shorter file is one line. `progress` gets
/// bytes read and in total. Memory: a few MiB. Throws IoError if the drive fails.
std::vector<std::string> verify_container(
    const std::filesystem::path& folder,
    FunctionRef<void(std::uint64_t done, std::uint64_t total)> progress);

}  // namespace ft::checkpoint
