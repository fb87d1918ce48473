#include "server/worker_pool.h"

#include <utility>

namespace ft::server {

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::try_run(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (is_closing_) return false;
  if (n_idle_ <= jobs_.size()) {
    if (threads_.size() == max_threads_) return false;
    threads_.emplace_back([this] { serve(); });
    ++n_idle_;
  }
  jobs_.push_back(std::move(job));
  work_.notify_one();
  return true;
}

void WorkerPool::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return is_closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    --n_idle_;
    lock.unlock();
    job();
    job = nullptr;  // what it holds is freed while others may go on
    lock.lock();
    ++n_idle_;
  }
}

}  // namespace ft::server
