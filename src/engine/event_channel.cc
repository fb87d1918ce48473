#include "engine/event_channel.h"

#include <chrono>
#include <utility>

namespace ft::engine {
namespace {

using Clock = std::chrono::steady_clock;

/// How long events of a fast producer may wait: below what a reader notices, above what a token
/// takes.
constexpr std::chrono::milliseconds kPace{4};

}  // namespace

void EventChannel::push(foretoken::Event event) {
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    if (events_.size() >= capacity_ && !is_cancelled_) {
      producer_waits_ = true;
      writable_.wait(lock, [this] { return events_.size() < capacity_ || is_cancelled_; });
      producer_waits_ = false;
    }
    if (is_abandoned_) return;
    events_.push_back(std::move(event));
    const Time now = Clock::now();
    wake = consumer_waits_ && (now - last_wake_ >= kPace || events_.size() >= capacity_);
    if (wake) last_wake_ = now;
  }
  if (wake) readable_.notify_one();
}

void EventChannel::finish(foretoken::Completion completion) {
  close(foretoken::Event(std::move(completion)), std::nullopt);
}

void EventChannel::fail(const foretoken::Error& error) {
  close(std::nullopt, error);
}

void EventChannel::close(std::optional<foretoken::Event> last,
                         std::optional<foretoken::Error> error) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    if (last && !is_abandoned_) events_.push_back(*std::move(last));
    error_ = std::move(error);
    is_closed_ = true;
  }
  readable_.notify_one();
}

std::optional<foretoken::Event> EventChannel::next() {
  std::optional<foretoken::Event> event;
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    if (events_.empty() && !is_closed_) wait_for_event(lock);
    if (events_.empty()) {
      if (error_) throw foretoken::Error(*error_);
      return std::nullopt;
    }
    event = std::move(events_.front());
    events_.pop_front();
    last_read_ = Clock::now();
    wake = producer_waits_;
  }
  if (wake) writable_.notify_one();
  return event;
}

void EventChannel::wait_for_event(std::unique_lock<std::mutex>& lock) {
  const auto is_ready = [this] { return !events_.empty() || is_closed_; };
  consumer_waits_ = true;
  // Having read an event within kPace, the consumer may not be woken for the next: it looks again
  // when kPace is over. After that the producer's next event wakes it.
  if (Clock::now() - last_read_ >= kPace || !readable_.wait_for(lock, kPace, is_ready)) {
    readable_.wait(lock, is_ready);
  }
  consumer_waits_ = false;
}

void EventChannel::cancel() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
  }
  writable_.notify_one();
  stop_.request_stop();
}

void EventChannel::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    is_abandoned_ = true;
    events_.clear();
  }
  writable_.notify_one();
  stop_.request_stop();
}

}  // namespace ft::engine
