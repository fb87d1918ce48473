// The lines of --trace: one JSON object per round. Field by field in docs/speculation.md.
#pragma once

#include "engine/session.h"

#include <cstddef>
#include <string>

namespace ft::engine {

/// `round` counts from 0; `position` is that of the round's pending token.
std::string trace_line(const RoundReport& report, std::size_t round, std::size_t position);

}  // namespace ft::engine
