// One connection: reads its requests, has them answered and sends the replies. Everything here is
// of the transport's thread. Seen by the two sources of the transport alone: it includes Boost.
#pragma once

#include "server/exchange.h"
#include "server/http_server.h"
#include "server/worker_pool.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ft::server {

/// What the connections of a server share.
struct Transport {
  Transport(HttpOptions wanted, Handler& answers);
  std::string new_id();
  /// A whole response that needs no connection; it ends with it.
  std::string refusal_text(const RequestHead& head, int status, std::string_view message);

  const HttpOptions options;
  Handler& handler;
  bool is_stopping = false;
  std::size_t all_body_bytes = 0;  // of requests being read, less what each has for free
  const std::uint64_t start_id;
  std::uint64_t n_ids = 0;
  boost::asio::io_context io{1};
  WorkerPool workers;  // last: its threads use everything above
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, Transport& transport);

  /// Serves until one side ends it. Throws for want of memory.
  boost::asio::awaitable<void> serve();
  /// What is going on fails soon: serve() returns.
  void close();
  /// A reply on its way ends soon, with an error that is still sent.
  void cancel();
  /// As close(), and a handler at work learns that nobody reads any more.
  void abandon();
  bool is_answering() const noexcept { return exchange_ != nullptr; }
  /// Whether the current operation has taken longer than it may.
  bool is_overdue() const { return deadline_ < Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Task = boost::asio::awaitable<void>;
  /// Whether the connection, or the request, goes on.
  using Outcome = boost::asio::awaitable<bool>;
  struct Incoming;

  Outcome serve_one();
  Outcome answer(Incoming& incoming);
  Outcome read_body(Incoming& incoming);
  Outcome read_parts(Incoming& incoming);
  Outcome exchange(Incoming& incoming);
  Task watch(std::shared_ptr<Exchange> reply);
  Outcome pump(Exchange& reply);
  Outcome send_all(std::string_view text);
  Task send_reply(Incoming& incoming, int status, std::string text);
  void end(Incoming& incoming, bool is_all_sent) const;
  Task refuse(Incoming& incoming, int status, std::string message);
  Task discard();
  void expire_after(std::chrono::milliseconds time) { deadline_ = Clock::now() + time; }
  void never_expire() { deadline_ = Clock::time_point::max(); }

  Transport& transport_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer wake_;  // cancelled when there is something to send
  boost::beast::flat_buffer buffer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  std::shared_ptr<Exchange> exchange_;  // while a request is answered
  bool is_watched_ = false;             // a read waits for the client's end
  std::size_t n_sent_ = 0;              // bytes of the reply
};

}  // namespace ft::server
