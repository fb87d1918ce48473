// The engine thread and its queue of work. It is the only thread that runs a model, so jobs own
// what they touch while they run. One job at a time, in the order of submission.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

namespace ft::engine {

/// A unit of work for the engine thread.
class Job {
 public:
  virtual ~Job() = default;
  /// Does the work on the engine thread; reports errors to whoever waits for the job.
  virtual void run() noexcept = 0;
  /// The engine is closing: stop soon. Any thread, also while run() runs.
  virtual void cancel() noexcept = 0;
  /// The engine closed before run() was called.
  virtual void abandon() noexcept = 0;
};

class Scheduler {
 public:
  /// The engine thread calls `first`, which may be empty, before any job.
  explicit Scheduler(std::function<void()> first = {});
  /// Cancels the running job and waits for it; jobs that did not start are abandoned.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  Scheduler(Scheduler&&) = delete;
  Scheduler& operator=(Scheduler&&) = delete;

  /// Queues a job. Thread-safe.
  void submit(std::unique_ptr<Job> job);

 private:
  void serve(const std::stop_token& stop);

  std::function<void()> first_;
  std::mutex mutex_;
  std::condition_variable_any work_;
  std::deque<std::unique_ptr<Job>> jobs_;
  std::unique_ptr<Job> running_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace ft::engine
