// The bounded queue between the engine thread and the owner of a TokenStream. Events cross it,
// nothing else: no pointers into caches, no drafts.
#pragma once

#include "base/clock.h"
#include "engine/bell.h"
#include "foretoken/foretoken.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

namespace ft::engine {

/// When a waiting consumer is woken. A wake-up costs a system call, and the consumer it starts
/// takes a core from a compute thread: a fast producer wakes at most once per kPace. Between
/// wake-ups the consumer looks by itself.
class WakePace {
 public:
  /// Below what a reader notices, above what a token takes.
  static constexpr std::chrono::milliseconds kPace{4};

  explicit WakePace(std::shared_ptr<const Clock> clock) : clock_(std::move(clock)) {}

  enum class Need : std::uint8_t { kCanWait, kMustWake };
  /// An event was queued and the consumer waits: whether to wake it now.
  bool wakes_now(Need need);
  /// The consumer took an event.
  void on_read() { last_read_us_ = clock_->now_us(); }
  /// Whether the consumer should wait for kPace only: having read so lately, it may not be woken
  /// for the next event.
  bool looks_itself() const { return is_within_pace(last_read_us_); }

 private:
  bool is_within_pace(std::optional<std::int64_t> since_us) const;

  std::shared_ptr<const Clock> clock_;
  std::optional<std::int64_t> last_wake_us_;
  std::optional<std::int64_t> last_read_us_;
};

/// One producer (the engine thread), one consumer; cancel() may come from any thread.
class EventChannel {
 public:
  /// At most `capacity` >= 1 events wait to be read. `bell`, which may be null, rings for the
  /// engine thread: see has_room().
  EventChannel(std::size_t capacity,
               std::shared_ptr<const Clock> clock,
               std::shared_ptr<Bell> bell = nullptr)
      : capacity_(capacity), bell_(std::move(bell)), pace_(std::move(clock)) {}

  // --- engine thread ---
  /// Hands an event over. Waits while the queue is full; a cancelled request never waits, an
  /// abandoned one drops it.
  void push(foretoken::Event event);
  /// Whether the next kMostPerStep events can be pushed without waiting. If not, the bell rings
  /// when half of the queue is read. It rings on cancel() and abandon() in any case.
  bool has_room();
  /// What a step of a request pushes, at most.
  static constexpr std::size_t kMostPerStep = 4;
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
  void close(std::optional<foretoken::Event> last, std::optional<foretoken::Error> error);
  void wait_for_event(std::unique_lock<std::mutex>& lock);

  const std::size_t capacity_;
  const std::shared_ptr<Bell> bell_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable readable_;
  std::condition_variable writable_;
  std::deque<foretoken::Event> events_;
  std::optional<foretoken::Error> error_;
  bool is_closed_ = false;
  bool is_cancelled_ = false;
  bool is_abandoned_ = false;
  // Each side is woken only while it waits.
  bool consumer_waits_ = false;
  bool consumer_sleeps_ = false;  // it waits and will not look by itself
  bool producer_waits_ = false;
  bool wants_ring_ = false;
  WakePace pace_;
};

}  // namespace ft::engine
