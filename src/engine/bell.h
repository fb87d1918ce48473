// Wakes the engine thread. Whoever has news for it rings; rings that nobody waits for are kept as
// one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>

namespace ft::engine {

/// Thread-safe. Shared by the engine and the channels of its requests, which outlive it.
class Bell {
 public:
  void ring() noexcept {
    {
      const std::lock_guard lock(mutex_);
      has_rung_ = true;
    }
    rung_.notify_one();
  }
  /// Until it has rung since the last wait(), a stop, or the time is over.
  void wait(const std::stop_token& stop, std::optional<std::chrono::microseconds> limit) {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return has_rung_; };
    limit ? rung_.wait_for(lock, stop, *limit, is_over) : rung_.wait(lock, stop, is_over);
    has_rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any rung_;
  bool has_rung_ = false;
};

}  // namespace ft::engine
