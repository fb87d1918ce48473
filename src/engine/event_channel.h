// The bounded queue between the engine thread and the owner of a TokenStream. Events cross it,
// nothing else: no pointers into caches, no drafts.
#pragma once

#include "foretoken/foretoken.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>

namespace ft::engine {

/// One producer (the engine thread), one consumer; cancel() may come from any thread.
class EventChannel {
 public:
  /// At most `capacity` >= 1 events wait to be read.
  explicit EventChannel(std::size_t capacity) : capacity_(capacity) {}

  // --- engine thread ---
  /// Hands an event over. Waits while the queue is full; a cancelled request never waits, an
  /// abandoned one drops it.
  void push(foretoken::Event event);
  /// The last event, or the error in its place. Never waits.
  void finish(foretoken::Completion completion);
  void fail(const foretoken::Error& error);
  /// Fires on cancel() and abandon().
  std::stop_token stop_token() const noexcept { return stop_.get_token(); }

  // --- consumer ---
  /// Waits for the next event; nullopt after the Completion. Throws the error of fail() once all
  /// events before it were read, and again on every later call.
  std::optional<foretoken::Event> next();
  void cancel() noexcept;
  /// cancel(), and nobody will read any more.
  void abandon() noexcept;

 private:
  using Time = std::chrono::steady_clock::time_point;

  void close(std::optional<foretoken::Event> last, std::optional<foretoken::Error> error);
  void wait_for_event(std::unique_lock<std::mutex>& lock);

  const std::size_t capacity_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable readable_;
  std::condition_variable writable_;
  std::deque<foretoken::Event> events_;
  std::optional<foretoken::Error> error_;
  bool is_closed_ = false;
  bool is_cancelled_ = false;
  bool is_abandoned_ = false;
  // A wake-up costs a system call, and the consumer it starts takes a core from a compute thread.
  // So each side is woken only while it waits, and the consumer at most once per kPace: between
  // wake-ups it looks by itself.
  bool consumer_waits_ = false;
  bool producer_waits_ = false;
  Time last_wake_;  // of the consumer
  Time last_read_;
};

}  // namespace ft::engine
