#include "apps/progress.h"

#include "apps/message.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr auto kFirstDraw = std::chrono::milliseconds(200);
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr std::size_t kWidth = 30;
// Before that the speed is a guess.
constexpr double kSecondsBeforeEstimate = 3;

}  // namespace

ProgressBar::ProgressBar(std::string label, bool is_wanted)
    : label_(std::move(label)),
      is_shown_(is_wanted && ::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      next_draw_(start_ + kFirstDraw) {}

std::string ProgressBar::time_left(std::uint64_t done, std::uint64_t total) const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  if (elapsed.count() < kSecondsBeforeEstimate || done <= first_done_ || done >= total) return "";
  const double seconds =
      elapsed.count() * static_cast<double>(total - done) / static_cast<double>(done - first_done_);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  return whole < 3600 ? fmt::format(", {}:{:02} left", whole / 60, whole % 60)
                      : fmt::format(", {} h {:02} min left", whole / 3600, whole / 60 % 60);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!is_shown_ || total == 0) return;
  if (!has_update_) first_done_ = done;
  has_update_ = true;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kInterval;
  const double share = static_cast<double>(std::min(done, total)) / static_cast<double>(total);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kWidth));
  print_message("\r{} [{}{}] {:3.0f} %{}\x1b[K",
                label_,
                std::string(filled, '#'),
                std::string(kWidth - filled, ' '),
                share * 100,
                time_left(done, total));
  std::fflush(stderr);
  is_drawn_ = true;
}

void ProgressBar::clear() {
  if (!is_drawn_) return;
  print_message("\r\x1b[K");
  std::fflush(stderr);
  is_drawn_ = false;
}

}  // namespace ft::apps
