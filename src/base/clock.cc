#include "base/clock.h"

#include <chrono>

namespace ft {

std::int64_t SteadyClock::now_us() const {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_start).count();
}

}  // namespace ft
