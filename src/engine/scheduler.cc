#include "engine/scheduler.h"

#include <utility>

namespace ft::engine {

Scheduler::Scheduler(std::function<void()> first)
    : first_(std::move(first)), thread_([this](const std::stop_token& stop) { serve(stop); }) {}

Scheduler::~Scheduler() {
  thread_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    if (running_) running_->cancel();
  }
  thread_.join();
  for (const std::unique_ptr<Job>& job : jobs_) job->abandon();
}

void Scheduler::submit(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  work_.notify_one();
}

void Scheduler::serve(const std::stop_token& stop) {
  if (first_) first_();
  while (true) {
    Job* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      if (!work_.wait(lock, stop, [this] { return !jobs_.empty(); }) || stop.stop_requested())
        return;
      running_ = std::move(jobs_.front());
      jobs_.pop_front();
      job = running_.get();
    }
    job->run();
    std::unique_ptr<Job> done;
    {
      const std::lock_guard lock(mutex_);
      done = std::move(running_);
    }
  }
}

}  // namespace ft::engine
