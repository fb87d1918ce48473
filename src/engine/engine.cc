#include "engine/engine.h"

#include "engine/errors.h"
#include "engine/evaluation.h"
#include "engine/generation.h"

#include <future>
#include <span>
#include <stop_token>
#include <utility>

namespace ft::engine {
namespace {

// Events a stream may lag behind before the engine waits for its reader.
constexpr std::size_t kChannelCapacity = 256;

class EvaluationJob final : public Job {
 public:
  EvaluationJob(EngineCore& core, const foretoken::EvaluationRequest& request)
      : core_(core), request_(request) {}

  std::future<foretoken::Evaluation> result() { return result_.get_future(); }

  void run() noexcept override {
    try {
      result_.set_value(ft::engine::evaluate(core_, request_, stop_.get_token()));
    } catch (...) {
      fail(public_error(std::current_exception()));
    }
  }
  void cancel() noexcept override { stop_.request_stop(); }
  void abandon() noexcept override {
    fail({foretoken::ErrorCode::kCancelled, "the engine was closed before the request was served"});
  }

 private:
  void fail(const foretoken::Error& error) noexcept {
    result_.set_exception(std::make_exception_ptr(error));
  }

  EngineCore& core_;
  const foretoken::EvaluationRequest& request_;  // lives in the waiting caller
  std::promise<foretoken::Evaluation> result_;
  std::stop_source stop_;
};

}  // namespace

Engine::Engine(EngineParts parts)
    : core_(std::move(parts)),
      batch_(core_, batch_limits(core_.parts())),
      scheduler_(
          {.first =
               [pool = core_.parts().pool.get()] {
                 if (pool != nullptr) pool->pin_caller();  // the thread whose loops it runs
               },
           .step = [this](std::span<Member* const> members,
                          const std::stop_token& stop) { return batch_.step(members, stop); },
           .max_members = core_.parts().max_sessions,
           .max_queued = core_.parts().max_queued,
           .bell = bell_}) {}

std::shared_ptr<EventChannel> Engine::submit(foretoken::GenerationRequest request) {
  check_request(request, parts());
  auto channel = std::make_shared<EventChannel>(kChannelCapacity, parts().clock, bell_);
  scheduler_.submit(make_generation(core_, std::move(request), channel, parts().clock->now_us()));
  return channel;
}

foretoken::Evaluation Engine::evaluate(const foretoken::EvaluationRequest& request) {
  check_prompt(request.tokens, parts());
  auto job = std::make_unique<EvaluationJob>(core_, request);
  std::future<foretoken::Evaluation> result = job->result();
  scheduler_.submit(std::move(job));
  return result.get();
}

}  // namespace ft::engine
