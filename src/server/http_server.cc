// The only source that includes Boost.
#include "server/http_server.h"

#include "base/error.h"
#include "server/exchange.h"
#include "server/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <exception>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// What a client may send ahead while its request is answered.
constexpr std::size_t kMaxReadAhead = std::size_t{64} << 10;
constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kWriteBytes = std::size_t{64} << 10;
// After a refusal the client may still be sending: it reads the reply only if this reads on.
constexpr std::size_t kMaxDiscarded = std::size_t{32} << 20;
constexpr milliseconds kDiscardTimeout{2'000};
constexpr milliseconds kAcceptPause{50};

/// A socket, and until when its current operation may take.
struct Connection {
  explicit Connection(tcp::socket connected)
      : socket(std::move(connected)), wake(socket.get_executor()) {}

  void expire_after(milliseconds time) { deadline = steady_clock::now() + time; }
  void never_expire() { deadline = steady_clock::time_point::max(); }
  void close() {
    boost::system::error_code ignored;
    socket.close(ignored);
  }

  tcp::socket socket;
  asio::steady_timer wake;  // cancelled when there is something to send
  boost::beast::flat_buffer buffer{kMaxReadAhead + kWriteBytes};
  steady_clock::time_point deadline = steady_clock::time_point::max();
  std::shared_ptr<Exchange> exchange;  // while a request is answered
  bool is_watched = false;             // a read waits for the client's end
};

std::string text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

RequestHead head_of(const Parser& parser, const std::string& own_id) {
  const auto& fields = parser.get();
  RequestHead head;
  const std::string given = text_of(fields["X-Request-Id"]);
  head.id = is_request_id(given) ? given : own_id;
  head.method = text_of(fields.method_string());
  const std::string target = text_of(fields.target());
  const std::size_t mark = target.find('?');
  head.path = target.substr(0, mark);
  if (mark != std::string::npos) head.query = target.substr(mark + 1);
  head.host = text_of(fields[http::field::host]);
  head.origin = text_of(fields[http::field::origin]);
  head.authorization = text_of(fields[http::field::authorization]);
  head.api_key = text_of(fields["X-Api-Key"]);
  head.content_type = text_of(fields[http::field::content_type]);
  head.if_none_match = text_of(fields[http::field::if_none_match]);
  return head;
}

int status_of(const boost::system::error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  return 400;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, Handler& handler)
      : options_(std::move(options)),
        handler_(handler),
        acceptor_(io_),
        sweep_(io_),
        grace_(io_),
        start_id_(static_cast<std::uint64_t>(
            std::chrono::system_clock::now().time_since_epoch().count())),
        workers_(options_.max_requests) {
    listen();
  }

  std::uint16_t port() const noexcept { return port_; }
  std::size_t n_connections() const noexcept { return n_connections_; }

  void run() {
    spawn(accept());
    spawn(sweep());
    io_.run();
  }

  void stop(milliseconds grace) {
    asio::post(io_, [this, grace] {
      is_stopping_ = true;
      boost::system::error_code ignored;
      acceptor_.close(ignored);
      sweep_.cancel();
      for (const auto& connection : connections_) {
        if (!connection->exchange) connection->close();
      }
      grace_.expires_after(grace);
      grace_.async_wait([this](boost::system::error_code error) {
        if (error) return;
        for (const auto& connection : connections_) {
          if (connection->exchange) connection->exchange->abandon();
          connection->wake.cancel();
          connection->close();
        }
      });
      finish_if_done();
    });
  }

 private:
  using Task = asio::awaitable<void>;
  using Shared = std::shared_ptr<Connection>;

  void listen() {
    boost::system::error_code error;
    const std::string host = options_.host == "localhost" ? "127.0.0.1" : options_.host;
    const asio::ip::address address = asio::ip::make_address(host, error);
    if (error) fail("--host is {}, expected an address such as 127.0.0.1", in_quotes(host));
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw IoError(fmt::format("serve: cannot listen on {} port {}: {}; try another --port",
                                host,
                                options_.port,
                                error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
  }

  // A coroutine that fails, for want of memory, ends alone.
  void spawn(Task task) { asio::co_spawn(io_, std::move(task), asio::detached); }

  Task accept() {
    while (!is_stopping_) {
      auto [error, socket] = co_await acceptor_.async_accept(kAwait);
      if (is_stopping_) co_return;
      if (error) {  // no descriptors left: those that are open will end
        asio::steady_timer pause(io_, kAcceptPause);
        co_await pause.async_wait(kAwait);
        continue;
      }
      boost::system::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      socket.non_blocking(true, ignored);
      if (connections_.size() >= options_.max_connections) {
        const std::string text = refusal_text({}, 503, "too many connections; try again later");
        socket.send(asio::buffer(text), 0, ignored);
        continue;
      }
      auto connection = std::make_shared<Connection>(std::move(socket));
      connections_.insert(connection);
      n_connections_ = connections_.size();
      spawn(guard(connection));
    }
  }

  Task guard(Shared connection) {
    try {
      co_await serve(*connection, connection);
    } catch (...) {  // out of memory: this connection ends, the others go on
      if (connection->exchange) connection->exchange->abandon();
    }
    connection->exchange = nullptr;
    connection->close();
    connections_.erase(connection);
    n_connections_ = connections_.size();
    finish_if_done();
  }

  void finish_if_done() {
    if (!is_stopping_ || !connections_.empty()) return;
    grace_.cancel();
    sweep_.cancel();
  }

  // Closes connections whose time is over; their operations then fail.
  Task sweep() {
    const milliseconds shortest = std::min({options_.header_timeout,
                                            options_.body_timeout,
                                            options_.idle_timeout,
                                            options_.write_timeout});
    const milliseconds pause = std::clamp(shortest / 4, milliseconds(5), milliseconds(250));
    while (!is_stopping_ || !connections_.empty()) {
      sweep_.expires_after(pause);
      co_await sweep_.async_wait(kAwait);
      const auto now = steady_clock::now();
      for (const auto& connection : connections_) {
        if (connection->deadline < now) connection->close();
      }
    }
  }

  Task serve(Connection& connection, Shared self) {
    while (!is_stopping_) {
      if (connection.buffer.size() == 0) {
        connection.expire_after(options_.idle_timeout);
        auto [error, n] = co_await connection.socket.async_read_some(
            connection.buffer.prepare(kReadBytes), kAwait);
        if (error) co_return;
        connection.buffer.commit(n);
      }
      Parser parser;
      parser.header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
      parser.body_limit(options_.max_body_bytes);
      connection.expire_after(options_.header_timeout);
      auto [error, n] =
          co_await http::async_read_header(connection.socket, connection.buffer, parser, kAwait);
      if (error == http::error::end_of_stream || connection.deadline < steady_clock::now()) {
        co_return;
      }
      RequestHead head = head_of(parser, new_id());
      if (error) {
        if (error.category() != http::make_error_code(http::error::bad_method).category())
          co_return;
        const int status = status_of(error);
        co_await refuse(
            connection, head, status, fmt::format("the request is malformed: {}", error.message()));
        co_return;
      }
      if (!co_await answer(connection, self, parser, std::move(head))) co_return;
    }
  }

  // Reads the body and answers. Returns whether the connection goes on.
  asio::awaitable<bool> answer(Connection& connection,
                               const Shared& self,
                               Parser& parser,
                               RequestHead head) {
    if (parser.get().version() >= 11 && parser.get().count(http::field::host) != 1) {
      co_await refuse(connection, head, 400, "the request has not exactly one Host header");
      co_return false;
    }
    if (std::optional<Response> early = handler_.answer_head(head)) {
      const bool goes_on = parser.is_done() && parser.keep_alive();
      co_await send_all(connection, framed(*early, head, goes_on));
      if (!goes_on) co_await discard(connection);
      co_return goes_on;
    }
    // A chunked body has no size until it has ended.
    const std::size_t body_bytes = parser.is_done() ? 0
                                   : parser.content_length()
                                       ? static_cast<std::size_t>(*parser.content_length())
                                       : options_.max_body_bytes;
    if (body_bytes > options_.max_all_body_bytes - all_body_bytes_) {
      co_await refuse(connection, head, 503, "too many requests are being read; try again later");
      co_return false;
    }
    all_body_bytes_ += body_bytes;
    const bool is_read = co_await read_body(connection, parser, head);
    all_body_bytes_ -= body_bytes;
    if (!is_read) co_return false;

    Request request{std::move(head), std::move(parser.get().body())};
    ReplyFrame frame;
    frame.request_id = request.head.id;
    frame.is_head_method = request.head.method == "HEAD";
    frame.is_chunked = parser.get().version() >= 11;
    frame.keeps_alive = parser.keep_alive() && !is_stopping_;
    co_return co_await exchange(connection, self, std::move(request), std::move(frame));
  }

  asio::awaitable<bool> read_body(Connection& connection, Parser& parser, const RequestHead& head) {
    if (parser.is_done()) co_return true;
    connection.expire_after(options_.body_timeout);
    const auto expect = parser.get()[http::field::expect];
    if (!expect.empty()) {
      if (!boost::beast::iequals(expect, "100-continue")) {
        co_await refuse(connection, head, 417, "the only expectation understood is 100-continue");
        co_return false;
      }
      co_await send_all(connection, "HTTP/1.1 100 Continue\r\n\r\n");
      connection.expire_after(options_.body_timeout);
    }
    auto [error, n] =
        co_await http::async_read(connection.socket, connection.buffer, parser, kAwait);
    if (!error) co_return true;
    if (error == http::error::body_limit) {
      co_await refuse(connection,
                      head,
                      413,
                      fmt::format("the body is longer than {} bytes", options_.max_body_bytes));
    } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
               error != http::error::partial_message) {
      co_await refuse(connection, head, 400, "the body is malformed: " + error.message());
    }
    co_return false;
  }

  // Runs the handler and sends what it writes.
  asio::awaitable<bool> exchange(Connection& connection,
                                 const Shared& self,
                                 Request request,
                                 ReplyFrame frame) {
    const RequestHead head = request.head;
    auto reply = std::make_shared<Exchange>(
        std::move(frame), options_.max_pending_bytes, [this, weak = std::weak_ptr(self)] {
          asio::post(io_, [weak] {
            if (const auto alive = weak.lock()) alive->wake.cancel();
          });
        });
    connection.exchange = reply;
    if (handler_.is_quick(head)) {
      handle(request, *reply);
    } else if (!workers_.try_run(
                   [this, reply, request = std::move(request)] { handle(request, *reply); })) {
      Response busy = handler_.refusal(
          head,
          429,
          fmt::format("all {} requests at once are taken; try again", options_.max_requests));
      busy.headers.emplace_back("Retry-After", "1");
      reply->send(std::move(busy));
      reply->finish();
    }
    connection.never_expire();
    connection.is_watched = true;
    spawn(watch(self, reply));
    co_await pump(connection, *reply);
    connection.never_expire();
    boost::system::error_code ignored;
    while (connection.is_watched) {
      connection.socket.cancel(ignored);
      connection.wake.expires_after(options_.keep_alive_interval);
      co_await connection.wake.async_wait(kAwait);
    }
    connection.exchange = nullptr;
    co_return reply->keeps_alive() && connection.socket.is_open();
  }

  void handle(const Request& request, Exchange& reply) noexcept {
    try {
      handler_.handle(request, reply);
      FT_CHECK(reply.has_begun());
    } catch (...) {
      reply.break_off();
      if (!reply.has_begun()) {
        reply.send(handler_.refusal(request.head, 500, "internal error"));
      }
    }
    reply.finish();
  }

  // Sees the client's end while its request is answered: a closed connection cancels it. What the
  // client sends ahead is kept for the next request.
  Task watch(Shared self, std::shared_ptr<Exchange> reply) {
    while (self->buffer.size() < kMaxReadAhead) {
      auto [error, n] =
          co_await self->socket.async_read_some(self->buffer.prepare(kReadBytes), kAwait);
      if (error) {
        if (error != asio::error::operation_aborted || !self->socket.is_open()) reply->abandon();
        break;
      }
      self->buffer.commit(n);
    }
    self->is_watched = false;
    self->wake.cancel();
  }

  Task pump(Connection& connection, Exchange& reply) {
    while (true) {
      const std::string text = reply.take();
      if (!text.empty()) {
        if (!co_await send_all(connection, text)) {
          reply.abandon();
          co_return;
        }
        continue;
      }
      if (reply.is_finished()) co_return;
      connection.wake.expires_after(options_.keep_alive_interval);
      auto [error] = co_await connection.wake.async_wait(kAwait);
      if (!error) reply.keep_alive();
    }
  }

  // Each part has the write timeout for itself: slow is allowed, stuck is not.
  asio::awaitable<bool> send_all(Connection& connection, std::string_view text) {
    while (!text.empty()) {
      connection.expire_after(options_.write_timeout);
      const std::string_view part = text.substr(0, kWriteBytes);
      auto [error, n] = co_await asio::async_write(
          connection.socket, asio::buffer(part.data(), part.size()), kAwait);
      connection.never_expire();
      if (error) co_return false;
      text.remove_prefix(n);
    }
    co_return true;
  }

  std::string framed(const Response& response, const RequestHead& head, bool keeps_alive) {
    ReplyFrame frame;
    frame.request_id = head.id;
    frame.keeps_alive = keeps_alive;
    return response_head(response, frame) + (head.method == "HEAD" ? "" : response.body);
  }
  std::string refusal_text(const RequestHead& head, int status, std::string_view message) {
    RequestHead known = head;
    if (known.id.empty()) known.id = new_id();
    return framed(handler_.refusal(known, status, message), known, false);
  }

  // Answers what cannot be answered otherwise; the connection must end after it.
  Task refuse(Connection& connection,
              const RequestHead& head,
              int status,
              std::string_view message) {
    const std::string text = refusal_text(head, status, message);
    if (co_await send_all(connection, text)) co_await discard(connection);
  }

  // A close with unread data would take the reply away from the client.
  Task discard(Connection& connection) {
    boost::system::error_code ignored;
    connection.socket.shutdown(tcp::socket::shutdown_send, ignored);
    connection.expire_after(std::min(kDiscardTimeout, options_.body_timeout));
    connection.buffer.clear();
    std::size_t n_discarded = 0;
    while (n_discarded < kMaxDiscarded) {
      auto [error, n] = co_await connection.socket.async_read_some(
          connection.buffer.prepare(kWriteBytes), kAwait);
      if (error) co_return;
      n_discarded += n;
    }
  }

  std::string new_id() { return fmt::format("req-{:x}-{:x}", start_id_, ++n_ids_); }

  const HttpOptions options_;
  Handler& handler_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer sweep_;
  asio::steady_timer grace_;
  std::uint16_t port_ = 0;
  bool is_stopping_ = false;
  std::size_t all_body_bytes_ = 0;
  std::set<Shared> connections_;
  std::atomic<std::size_t> n_connections_ = 0;
  const std::uint64_t start_id_;
  std::uint64_t n_ids_ = 0;
  WorkerPool workers_;  // last: its threads use everything above
};

HttpServer::HttpServer(HttpOptions options, Handler& handler)
    : impl_(std::make_unique<Impl>(std::move(options), handler)) {}
HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const noexcept {
  return impl_->port();
}
void HttpServer::run() {
  impl_->run();
}
void HttpServer::stop(std::chrono::milliseconds grace) {
  impl_->stop(grace);
}
std::size_t HttpServer::n_connections() const noexcept {
  return impl_->n_connections();
}

}  // namespace ft::server
