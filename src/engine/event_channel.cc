#include "engine/event_channel.h"

#include <utility>

namespace ft::engine {

bool WakePace::is_within_pace(std::optional<std::int64_t> since_us) const {
  return since_us && std::chrono::microseconds(clock_->now_us() - *since_us) < kPace;
}

bool WakePace::wakes_now(Need need) {
  if (need == Need::kCanWait && is_within_pace(last_wake_us_)) return false;
  last_wake_us_ = clock_->now_us();
  return true;
}

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
    const bool must_wake = consumer_sleeps_ || events_.size() >= capacity_;
    wake = consumer_waits_ &&
           pace_.wakes_now(must_wake ? WakePace::Need::kMustWake : WakePace::Need::kCanWait);
  }
  if (wake) readable_.notify_one();
}

bool EventChannel::has_room() {
  const std::lock_guard lock(mutex_);
  wants_ring_ = !is_cancelled_ && events_.size() + kMostPerStep > capacity_;
  return !wants_ring_;
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
  bool ring = false;
  {
    std::unique_lock lock(mutex_);
    if (events_.empty() && !is_closed_) wait_for_event(lock);
    if (events_.empty()) {
      if (error_) throw foretoken::Error(*error_);
      return std::nullopt;
    }
    event = std::move(events_.front());
    events_.pop_front();
    pace_.on_read();
    wake = producer_waits_;
    ring = wants_ring_ && events_.size() <= capacity_ / 2;
    if (ring) wants_ring_ = false;
  }
  if (wake) writable_.notify_one();
  if (ring && bell_) bell_->ring();
  return event;
}

void EventChannel::wait_for_event(std::unique_lock<std::mutex>& lock) {
  const auto is_ready = [this] { return !events_.empty() || is_closed_; };
  consumer_waits_ = true;
  if (!pace_.looks_itself() || !readable_.wait_for(lock, WakePace::kPace, is_ready)) {
    consumer_sleeps_ = true;
    readable_.wait(lock, is_ready);
    consumer_sleeps_ = false;
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
  if (bell_) bell_->ring();
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
  if (bell_) bell_->ring();
}

}  // namespace ft::engine
