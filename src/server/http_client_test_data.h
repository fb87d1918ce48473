// Tests only: a client that sends what it is told, byte by byte if need be.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

namespace ft::server {

class TestClient {
 public:
  explicit TestClient(std::uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{20, 0};  // a test that fails must not hang
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket API's own way
    is_connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(TestClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        is_connected_(other.is_connected_),
        rest_(std::move(other.rest_)) {}
  TestClient& operator=(TestClient&&) = delete;
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool is_connected() const { return is_connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  /// A close that the other side takes for a broken connection.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  void half_close() { ::shutdown(socket_, SHUT_WR); }
  /// Sends what can be sent at once and returns how much; nullopt: the other side has gone.
  std::optional<std::size_t> try_send(std::string_view text) {
    const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN) return 0;
    return std::nullopt;
  }
  /// Throws away up to `n` bytes that are there. False: the other side has gone.
  bool skip(std::size_t n) {
    std::string bytes(n, '\0');
    const ssize_t got = ::recv(socket_, bytes.data(), n, MSG_DONTWAIT);
    return got > 0 || (got < 0 && errno == EAGAIN);
  }
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Up to and with `end`, or all there is.
  std::string read_until(std::string_view end) {
    while (rest_.find(end) == std::string::npos && read_more()) {
    }
    const std::size_t at = rest_.find(end);
    return take(at == std::string::npos ? rest_.size() : at + end.size());
  }
  std::string read_all() {
    while (read_more()) {
    }
    return take(rest_.size());
  }
  /// One reply, its chunks put together.
  std::string read_reply() {
    std::string reply = read_until("\r\n\r\n");
    const std::string_view kLength = "Content-Length: ";
    if (const std::size_t at = reply.find(kLength); at != std::string::npos) {
      const std::size_t n = std::strtoul(reply.c_str() + at + kLength.size(), nullptr, 10);
      while (rest_.size() < n && read_more()) {
      }
      return reply + take(std::min(n, rest_.size()));
    }
    if (reply.find("chunked") == std::string::npos) return reply;
    while (true) {
      const std::string size = read_until("\r\n");
      const std::size_t n = std::strtoul(size.c_str(), nullptr, 16);
      while (rest_.size() < n + 2 && read_more()) {
      }
      if (rest_.size() < n + 2) return reply + " (cut)";
      reply += take(n);
      take(2);
      if (n == 0) return reply;
    }
  }

 private:
  bool read_more() {
    char block[65536];
    const ssize_t n = ::recv(socket_, block, sizeof block, 0);
    if (n <= 0) return false;
    rest_.append(block, static_cast<std::size_t>(n));
    return true;
  }
  std::string take(std::size_t n) {
    std::string out = rest_.substr(0, n);
    rest_.erase(0, n);
    return out;
  }

  int socket_;
  bool is_connected_ = false;
  std::string rest_;
};

}  // namespace ft::server
