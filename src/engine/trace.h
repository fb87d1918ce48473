// The lines of --trace: one JSON object for the request, then one per round, with all that the
// planner was given and answered. Field by field in docs/speculation.md.
#pragma once

#include "engine/session.h"

#include <cstddef>
#include <string>

namespace ft::engine {

struct TracePlace {
  std::size_t round = 0;     // from 0
  std::size_t position = 0;  // of the round's pending token
};

/// The first line: who may draft, and the planner's options.
std::string trace_header(const Session& session);

/// `experts`: what the round asked of the store.
std::string trace_line(const RoundReport& report,
                       const foretoken::ExpertStatistics& experts,
                       const TracePlace& place);

}  // namespace ft::engine
