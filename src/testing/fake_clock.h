// A clock that tests move.
#pragma once

#include "base/clock.h"

#include <atomic>
#include <cstdint>

namespace ft::testing {

class FakeClock final : public Clock {
 public:
  /// Each reading moves the clock on by step_us afterwards.
  explicit FakeClock(std::int64_t step_us = 0) : step_us_(step_us) {}
  std::int64_t now_us() const override { return now_us_.fetch_add(step_us_); }
  void advance(std::int64_t us) { now_us_ += us; }

 private:
  std::int64_t step_us_;
  mutable std::atomic<std::int64_t> now_us_{0};
};

}  // namespace ft::testing
