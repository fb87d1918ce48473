// Threads for requests that take long: started when they are needed, at most so many, kept for the
// next.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ft::server {

/// Thread-safe.
class WorkerPool {
 public:
  explicit WorkerPool(std::size_t max_threads) : max_threads_(max_threads) {}
  /// Waits for the jobs that run.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  WorkerPool(WorkerPool&&) = delete;
  WorkerPool& operator=(WorkerPool&&) = delete;

  /// Runs a job, which must not throw, on a thread of its own. False, and nothing is kept, while
  /// all threads are busy. Throws std::system_error if no thread can be started.
  bool try_run(std::function<void()> job);

 private:
  void serve();

  const std::size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::function<void()>> jobs_;
  std::size_t n_idle_ = 0;  // of them, those that no queued job will take are free
  bool is_closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ft::server
