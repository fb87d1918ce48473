#include "apps/progress.h"

#include <algorithm>
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

}  // namespace

ProgressBar::ProgressBar(std::string label, bool is_wanted)
    : label_(std::move(label)),
      is_shown_(is_wanted && ::isatty(STDERR_FILENO) == 1),
      next_draw_(std::chrono::steady_clock::now() + kFirstDraw) {}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!is_shown_ || total == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kInterval;
  const double share = static_cast<double>(std::min(done, total)) / static_cast<double>(total);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kWidth));
  fmt::print(stderr,
             "\r{} [{}{}] {:3.0f} %",
             label_,
             std::string(filled, '#'),
             std::string(kWidth - filled, ' '),
             share * 100);
  std::fflush(stderr);
  is_drawn_ = true;
}

void ProgressBar::clear() {
  if (!is_drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  is_drawn_ = false;
}

}  // namespace ft::apps
