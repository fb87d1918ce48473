// The engine thread and its queue of work. It is the only thread that runs a model. Requests go on
// together, as many as there are sessions for; other jobs run alone. All start in the order of
// submission.
#pragma once

#include "engine/batch.h"
#include "engine/bell.h"

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

namespace ft::engine {

/// A unit of work that has the engine thread for itself.
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

struct SchedulerOptions {
  /// The engine thread calls it before anything else; may be empty.
  std::function<void()> first = {};
  /// Batch::step(), or what stands in for it; may be empty if there are no members.
  std::function<bool(std::span<Member* const>, const std::stop_token&)> step = {};
  std::size_t max_members = 1;                                       // that go on together
  std::size_t max_queued = std::numeric_limits<std::size_t>::max();  // members that wait
  std::shared_ptr<Bell> bell = std::make_shared<Bell>();
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerOptions options = {});
  /// Cancels what runs and waits for it; what did not start is abandoned.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  Scheduler(Scheduler&&) = delete;
  Scheduler& operator=(Scheduler&&) = delete;

  /// Queues a job, which runs when those submitted before are over. Thread-safe.
  void submit(std::unique_ptr<Job> job);
  /// Queues a request. It starts when a session is free and those submitted before have started; a
  /// measured one runs alone. Throws foretoken::Busy if too many wait. Thread-safe.
  void submit(std::unique_ptr<Member> member);

  /// Requests that have a session, and those that wait. Thread-safe.
  struct Load {
    std::size_t n_running = 0;
    std::size_t n_waiting = 0;
  };
  Load load() const;

 private:
  /// Of the two one is set.
  struct Work {
    std::unique_ptr<Job> job;
    std::unique_ptr<Member> member;
  };

  void serve(const std::stop_token& stop);
  void start_what_may();
  void end_cancelled();
  std::optional<Work> take_next();
  bool may_start(const Work& work) const;
  void run(std::unique_ptr<Job> job);
  void start(std::unique_ptr<Member> member);
  void drop_finished();
  std::optional<std::chrono::microseconds> time_left() const;

  SchedulerOptions options_;
  mutable std::mutex mutex_;
  std::deque<Work> waiting_;
  std::size_t n_waiting_members_ = 0;
  bool is_closing_ = false;
  // Changed by the engine thread alone, under the mutex.
  std::unique_ptr<Job> running_;
  std::vector<std::unique_ptr<Member>> members_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace ft::engine
