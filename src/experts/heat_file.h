// What was learned about the use of experts, kept from run to run in a text file beside the model:
//
//   foretoken-heat 1 PASSES
//   LAYER EXPERT USES
//   ...
//
// USES of PASSES forwards, older ones counting less. Losing the file costs some misses, so nothing
// in it is ever an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ft::experts {

struct HeatEntry {
  std::size_t layer = 0;
  std::uint32_t expert = 0;
  double uses = 0;
};

struct Heat {
  double passes = 0;
  std::vector<HeatEntry> entries;
  std::string warning;  // one line: why the file was not used; then all else is empty
};

/// Any text: entries, or a warning that starts with `where`.
Heat parse_heat(std::string_view text, std::string_view where);
/// A file that does not exist is empty heat without a warning.
Heat read_heat_file(const std::filesystem::path& path);
/// In one step: a kill leaves the old file or the new one. Throws IoError.
void write_heat_file(const std::filesystem::path& path, const Heat& heat);

}  // namespace ft::experts
