// The lines of --trace: one JSON object for the request, then one per round, with all that the
// planner was given and answered. Field by field in docs/speculation.md.
#pragma once

#include "engine/session.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace ft::engine {

struct TracePlace {
  std::size_t round = 0;     // from 0
  std::size_t position = 0;  // of the round's pending token
  Token token = 0;           // the model's own, behind the accepted drafts
};

struct TraceMemory {
  std::uint64_t anonymous_bytes = 0;  // of the process, a moment ago
  std::uint64_t budget_bytes = 0;     // 0: no bound was set
  std::uint64_t kv_bytes = 0;         // used by the request, drafts included
  std::uint64_t expert_cache_bytes = 0;
};

/// The first line: who may draft, the planner's options and what it inherited. Of a session whose
/// first round has begun, or that has none.
std::string trace_header(const Session& session);

/// `experts`: what the round asked of the store.
std::string trace_line(const RoundReport& report,
                       const foretoken::ExpertStatistics& experts,
                       const TracePlace& place,
                       const TraceMemory& memory);

}  // namespace ft::engine
