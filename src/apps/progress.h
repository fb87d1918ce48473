// A progress bar on standard error, for people at a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ft::apps {

/// Draws "label [#####     ] 50 %" at most ten times a second and wipes the line when it is done or
/// destroyed; work of more than a few seconds also shows the time that is left. Work that takes
/// less than 0.2 s shows nothing.
class ProgressBar {
 public:
  /// Shown only if `is_wanted` and standard error is a terminal.
  ProgressBar(std::string label, bool is_wanted);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ProgressBar(ProgressBar&&) = delete;
  ProgressBar& operator=(ProgressBar&&) = delete;

  void update(std::uint64_t done, std::uint64_t total);
  void clear();

 private:
  std::string time_left(std::uint64_t done, std::uint64_t total) const;

  std::string label_;
  bool is_shown_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_draw_;
  std::uint64_t first_done_ = 0;  // of the first update: a resumed work starts above 0
  bool has_update_ = false;
};

}  // namespace ft::apps
