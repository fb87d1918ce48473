// A loaded model and the thread that runs it: what the public foretoken::Engine is made of. Built
// from parts, so that tests bring their own model and clock.
#pragma once

#include "engine/engine_core.h"
#include "engine/event_channel.h"
#include "engine/scheduler.h"
#include "foretoken/request.h"

#include <memory>

namespace ft::engine {

/// Requests are served in the order of submission, one at a time. Thread-safe.
class Engine {
 public:
  explicit Engine(EngineParts parts)
      : core_(std::move(parts)), scheduler_([pool = core_.parts().pool.get()] {
          if (pool != nullptr) pool->pin_caller();  // the thread whose loops it runs
        }) {}

  /// Queues a request. Throws InvalidInput (see check_request()). The caller ends its interest with
  /// abandon().
  std::shared_ptr<EventChannel> submit(foretoken::GenerationRequest request);
  /// Waits for its turn and the result. Throws InvalidInput, and foretoken::Error for what fails on
  /// the engine thread.
  foretoken::Evaluation evaluate(const foretoken::EvaluationRequest& request);

  const EngineParts& parts() const noexcept { return core_.parts(); }

 private:
  EngineCore core_;
  Scheduler scheduler_;  // last: its thread uses the core
};

}  // namespace ft::engine
