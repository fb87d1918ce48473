// A loaded model and the thread that runs it: what the public foretoken::Engine is made of. Built
// from parts, so that tests bring their own model and clock.
#pragma once

#include "engine/batch.h"
#include "engine/bell.h"
#include "engine/engine_core.h"
#include "engine/event_channel.h"
#include "engine/scheduler.h"
#include "foretoken/request.h"
#include "foretoken/result.h"

#include <memory>

namespace ft::engine {

/// Requests start in the order of submission and go on together, EngineParts::max_sessions at most.
/// Thread-safe.
class Engine {
 public:
  explicit Engine(EngineParts parts);

  /// Queues a request. Throws InvalidInput (see check_request()) and foretoken::Busy. The caller
  /// ends its interest with abandon().
  std::shared_ptr<EventChannel> submit(foretoken::GenerationRequest request);
  /// Waits for its turn and the result. Throws InvalidInput, and foretoken::Error for what fails on
  /// the engine thread.
  foretoken::Evaluation evaluate(const foretoken::EvaluationRequest& request);

  Scheduler::Load load() const { return scheduler_.load(); }
  const EngineParts& parts() const noexcept { return core_.parts(); }

 private:
  EngineCore core_;
  Batch batch_;
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  Scheduler scheduler_;  // last: its thread uses the core
};

}  // namespace ft::engine
