// The transport: sockets, HTTP/1.1, timeouts and limits. One coroutine per connection on one
// thread; requests that take long are answered on worker threads. It knows nothing of models.
#pragma once

#include "server/http_types.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ft::server {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or localhost
  std::uint16_t port = 8080;       // 0: any free one
  std::size_t max_connections = 512;
  std::size_t max_requests = 64;  // answered at once; more get status 429
  std::size_t max_header_bytes = std::size_t{16} << 10;
  std::size_t max_body_bytes = std::size_t{16} << 20;
  std::size_t max_all_body_bytes = std::size_t{128} << 20;  // of all requests being read
  std::size_t max_pending_bytes = std::size_t{1} << 20;     // of one reply, not yet sent
  std::chrono::milliseconds header_timeout{10'000};         // from a request's first byte
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};         // between requests
  std::chrono::milliseconds write_timeout{30'000};        // of 64 KiB, for a client that reads
  std::chrono::milliseconds keep_alive_interval{15'000};  // comments in a silent event stream
  /// Called on the transport's thread once a request is over; may be empty.
  std::function<void(const RequestRecord&)> on_request = {};
};

class HttpServer {
 public:
  /// Binds and listens; clients wait until run(). `handler` must outlive this object. Throws
  /// InvalidInput for a host that is no address, IoError if the port is taken.
  HttpServer(HttpOptions options, Handler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  HttpServer(HttpServer&&) = delete;
  HttpServer& operator=(HttpServer&&) = delete;

  std::uint16_t port() const noexcept;
  /// Serves until stop().
  void run();
  /// Refuses new connections and closes idle ones at once, requests being answered after `grace`.
  /// run() returns when none is left. Any thread; a later call may shorten the grace.
  void stop(std::chrono::milliseconds grace);
  /// Open connections. Any thread.
  std::size_t n_connections() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ft::server
