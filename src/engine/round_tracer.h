// A request's rounds on their way to its trace: what is measured between two rounds, and when.
#pragma once

#include "engine/engine_core.h"
#include "engine/session.h"
#include "engine/trace.h"
#include "experts/expert_store.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace ft::engine {

/// Used by the engine thread. Costs nothing without a trace. Passes on what the trace throws.
class RoundTracer {
 public:
  /// The references must outlive this object.
  RoundTracer(const std::function<void(std::string_view)>& trace, EngineCore& core)
      : trace_(trace), core_(core) {}

  /// When the first round has begun, or there will be none. Later calls do nothing.
  void begin(const Session& session) {
    if (trace_ && !std::exchange(has_begun_, true)) trace_(trace_header(session));
  }
  void before_round() {
    if (trace_) before_ = core_.expert_stats();
  }
  /// `session` has committed the round's tokens.
  void after_round(const Session& session, const RoundReport& report);

 private:
  TraceMemory memory(const Session& session, const experts::ExpertStats& experts);

  const std::function<void(std::string_view)>& trace_;
  EngineCore& core_;
  experts::ExpertStats before_;
  bool has_begun_ = false;
  std::size_t n_rounds_ = 0;
  std::uint64_t anonymous_bytes_ = 0;
  std::int64_t looked_us_ = 0;  // at the process; 0: not yet
};

}  // namespace ft::engine
