// Ctrl-C as an event instead of a signal handler.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace ft::apps {

/// Exit status of an interrupted command.
inline constexpr int kInterruptedStatus = 130;

/// Watches SIGINT and SIGTERM while it lives. Make one before any other thread starts: it blocks
/// them, threads inherit that. Without a handler an interrupt says so in one line and ends the
/// process with 128 + its number; so does the second interrupt in any case.
class InterruptWatcher {
 public:
  InterruptWatcher();
  ~InterruptWatcher();
  InterruptWatcher(const InterruptWatcher&) = delete;
  InterruptWatcher& operator=(const InterruptWatcher&) = delete;
  InterruptWatcher(InterruptWatcher&&) = delete;
  InterruptWatcher& operator=(InterruptWatcher&&) = delete;

  /// Called on the watcher's thread, at the first interrupt. An empty handler restores the
  /// default. Returns when the handler before is not running.
  void set_handler(std::function<void()> handler);
  /// The next interrupt counts as the first one again. A handler that goes on for good calls it.
  void rearm() noexcept { was_interrupted_ = false; }
  bool was_interrupted() const noexcept { return was_interrupted_; }

 private:
  void watch();

  std::atomic<bool> is_closing_ = false;
  std::atomic<bool> was_interrupted_ = false;
  std::mutex mutex_;
  std::function<void()> handler_;
  std::thread thread_;
};

/// Installs a handler for a scope.
class InterruptScope {
 public:
  InterruptScope(InterruptWatcher& watcher, std::function<void()> handler) : watcher_(watcher) {
    watcher_.set_handler(std::move(handler));
  }
  ~InterruptScope() { watcher_.set_handler({}); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  InterruptScope(InterruptScope&&) = delete;
  InterruptScope& operator=(InterruptScope&&) = delete;

 private:
  InterruptWatcher& watcher_;
};

}  // namespace ft::apps
