#include "experts/lookahead_gate.h"

#include <algorithm>

namespace ft::experts {

bool LookaheadGate::begin_pass(std::size_t n_rows, std::int64_t now_us) noexcept {
  is_counted_ = n_rows <= kMaxRows;
  start_us_ = now_us;
  return is_counted_ && (is_trying() ? kWindows[window_] : is_on_);
}

void LookaheadGate::end_pass(std::uint64_t n_experts, std::int64_t now_us) noexcept {
  if (!is_counted_ || n_experts == 0) return;
  is_counted_ = false;
  if (!is_trying()) {
    --n_passes_to_trial_;
    return;
  }
  if (++n_passes_in_window_ > kSettlingPasses) {
    Measure& measure = measures_[kWindows[window_] ? 1 : 0];
    measure.us += static_cast<double>(now_us - start_us_);
    measure.experts += static_cast<double>(n_experts);
  }
  if (is_far_slower()) return decide();
  if (n_passes_in_window_ < kWindowPasses) return;
  n_passes_in_window_ = 0;
  if (++window_ == kWindows.size()) decide();
}

bool LookaheadGate::is_far_slower() const noexcept {
  return !is_on_ && kWindows[window_] && n_passes_in_window_ >= kSettlingPasses + kLeastMeasured &&
         cost(true) > cost(false) * (1 + kFarSlower);
}

double LookaheadGate::cost(bool is_on) const noexcept {
  const Measure& measure = measures_[is_on ? 1 : 0];
  return measure.us / measure.experts;
}

void LookaheadGate::decide() noexcept {
  if (cost(!is_on_) < cost(is_on_) * (1 - kClearlyFaster)) {
    is_on_ = !is_on_;
    pause_ = kPassesBetweenTrials;
  } else {
    pause_ = std::min(pause_ * 2, kMaxPassesBetweenTrials);
  }
  n_passes_to_trial_ = pause_;
  window_ = 0;
  n_passes_in_window_ = 0;
  measures_ = {};
}

}  // namespace ft::experts
