// Whether reading ahead pays on this machine: tries passes with and without it and keeps what is
// faster. Pure: time is given.
//
// A trial is four windows of passes, without - with - with - without, so that a steady drift of the
// machine's speed falls on both alike. Its measure is time per expert asked for. What is in force
// stays unless the other is clearly faster; then nothing is tried for long, twice as long after
// every trial that changed nothing. A trial of what turns out far slower ends at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ft::experts {

/// Not thread-safe.
class LookaheadGate {
 public:
  static constexpr std::size_t kWindowPasses = 12;
  static constexpr std::size_t kSettlingPasses = 2;  // at a window's start, not measured
  static constexpr std::size_t kPassesBetweenTrials = 1000;
  static constexpr std::size_t kMaxPassesBetweenTrials = 16000;
  static constexpr double kClearlyFaster = 0.03;
  static constexpr double kFarSlower = 0.25;
  static constexpr std::size_t kLeastMeasured = 4;  // passes before that is believed
  /// Passes of more rows ask for most experts of a layer: nothing to guess, nothing to measure.
  static constexpr std::size_t kMaxRows = 8;

  /// Whether to read ahead in the pass that begins.
  bool begin_pass(std::size_t n_rows, std::int64_t now_us) noexcept;
  /// `n_experts`: asked for in the pass.
  void end_pass(std::uint64_t n_experts, std::int64_t now_us) noexcept;
  /// What is in force between trials.
  bool is_on() const noexcept { return is_on_; }
  bool is_trying() const noexcept { return n_passes_to_trial_ == 0; }

 private:
  struct Measure {
    double us = 0;
    double experts = 0;
  };
  static constexpr std::array<bool, 4> kWindows = {false, true, true, false};

  bool is_far_slower() const noexcept;
  double cost(bool is_on) const noexcept;
  void decide() noexcept;

  bool is_on_ = false;
  std::size_t n_passes_to_trial_ = 0;
  std::size_t pause_ = kPassesBetweenTrials;
  std::size_t window_ = 0;
  std::size_t n_passes_in_window_ = 0;
  std::array<Measure, 2> measures_{};  // without, with
  bool is_counted_ = false;            // the pass under way
  std::int64_t start_us_ = 0;
};

}  // namespace ft::experts
