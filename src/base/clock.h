// Time as a dependency, so that tests and trace replays choose it.
#pragma once

#include <cstdint>

namespace ft {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Microseconds since an arbitrary start; never goes back. Thread-safe.
  virtual std::int64_t now_us() const = 0;
};

class SteadyClock final : public Clock {
 public:
  std::int64_t now_us() const override;
};

}  // namespace ft
