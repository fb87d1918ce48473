// Reads what trace.h writes.
#pragma once

#include "speculation/replay.h"

#include <filesystem>
#include <string_view>

namespace ft::engine {

/// `text`: the lines of a trace. Fields that planning does not need may be missing. Throws
/// InvalidInput naming `what` and the line for anything that no trace can hold: missing fields,
/// wrong types, numbers that contradict each other.
speculation::RecordedTrace parse_trace(std::string_view text, std::string_view what);
/// The same of a file. Throws InvalidInput if it cannot be read.
speculation::RecordedTrace read_trace(const std::filesystem::path& path);

}  // namespace ft::engine
