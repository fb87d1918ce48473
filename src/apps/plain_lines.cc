#include "apps/line_source.h"
#include "base/error.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <poll.h>
#include <system_error>
#include <unistd.h>

namespace ft::apps {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

class PlainLines final : public LineSource {
 public:
  explicit PlainLines(int interrupt_fd) : interrupt_fd_(interrupt_fd) {}

  LineRead read(std::string_view /*prompt*/) override {
    while (true) {
      const std::size_t newline = pending_.find('\n', searched_);
      if (newline != std::string::npos) return {LineRead::Kind::kLine, take(newline)};
      searched_ = pending_.size();
      if (has_ended_) {
        if (pending_.empty()) return {};
        return {LineRead::Kind::kLine, take(pending_.size())};
      }
      if (pending_.size() > kMaxLineBytes) {
        fail("a line of standard input is longer than {} bytes", kMaxLineBytes);
      }
      if (!wait_for_input(interrupt_fd_)) return {LineRead::Kind::kInterrupted, {}};
      fill();
    }
  }
  void remember(const std::string& /*input*/) override {}

 private:
  // The first n bytes; a newline behind them goes too.
  std::string take(std::size_t n) {
    std::string out = pending_.substr(0, n);
    pending_.erase(0, n + 1);
    searched_ = 0;
    return out;
  }

  void fill() {
    std::array<char, 65536> block{};
    const ssize_t n = ::read(STDIN_FILENO, block.data(), block.size());
    if (n > 0) {
      pending_.append(block.data(), static_cast<std::size_t>(n));
    } else if (n == 0) {
      has_ended_ = true;
    } else if (errno != EINTR && errno != EAGAIN) {
      throw IoError("cannot read standard input: " + std::generic_category().message(errno));
    }
  }

  int interrupt_fd_;
  std::string pending_;
  std::size_t searched_ = 0;  // no newline before
  bool has_ended_ = false;
};

}  // namespace

bool wait_for_input(int interrupt_fd) {
  std::array<pollfd, 2> ends = {pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{interrupt_fd, POLLIN, 0}};
  while (poll(ends.data(), ends.size(), -1) < 0) {
    if (errno != EINTR) {
      throw IoError("cannot wait for input: " + std::generic_category().message(errno));
    }
  }
  return ends[1].revents == 0;
}

std::unique_ptr<LineSource> make_plain_lines(int interrupt_fd) {
  return std::make_unique<PlainLines>(interrupt_fd);
}

}  // namespace ft::apps
