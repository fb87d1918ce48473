#include "server/http_server.h"

#include "base/error.h"
#include "server/http_connection.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr milliseconds kAcceptPause{50};
// For replies that are cut to say so: a model is cancelled between two layers.
constexpr milliseconds kLastWords{1'000};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, Handler& handler)
      : transport_(std::move(options), handler),
        acceptor_(transport_.io),
        sweep_(transport_.io),
        grace_(transport_.io) {
    listen();
  }

  std::uint16_t port() const noexcept { return port_; }
  std::size_t n_connections() const noexcept { return n_connections_; }

  void run() {
    spawn(accept());
    spawn(sweep());
    transport_.io.run();
  }

  void stop(milliseconds grace) {
    asio::post(transport_.io, [this, grace] {
      transport_.is_stopping = true;
      boost::system::error_code ignored;
      acceptor_.close(ignored);
      sweep_.cancel();
      for (const auto& connection : connections_) {
        if (!connection->is_answering()) connection->close();
      }
      spawn(cut_replies(grace));
      finish_if_done();
    });
  }

 private:
  using Task = asio::awaitable<void>;

  void listen() {
    boost::system::error_code error;
    const std::string host =
        transport_.options.host == "localhost" ? "127.0.0.1" : transport_.options.host;
    const asio::ip::address address = asio::ip::make_address(host, error);
    if (error) fail("--host is {}, expected an address such as 127.0.0.1", in_quotes(host));
    const tcp::endpoint endpoint(address, transport_.options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw IoError(fmt::format("serve: cannot listen on {} port {}: {}; try another --port",
                                host,
                                transport_.options.port,
                                error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
  }

  // A coroutine that fails, for want of memory, ends alone.
  void spawn(Task task) { asio::co_spawn(transport_.io, std::move(task), asio::detached); }

  Task accept() {
    while (!transport_.is_stopping) {
      auto [error, socket] = co_await acceptor_.async_accept(kAwait);
      if (transport_.is_stopping) co_return;
      if (error) {  // no descriptors left: those that are open will end
        asio::steady_timer pause(transport_.io, kAcceptPause);
        co_await pause.async_wait(kAwait);
        continue;
      }
      boost::system::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      socket.non_blocking(true, ignored);
      try {
        admit(std::move(socket));
      } catch (...) {  // out of memory: the connections that are here go on
      }
    }
  }

  void admit(tcp::socket socket) {
    if (connections_.size() >= transport_.options.max_connections) {
      turn_away(std::move(socket));
      return;
    }
    const auto connection = std::make_shared<Connection>(std::move(socket), transport_);
    connections_.insert(connection);
    try {
      spawn(guard(connection));
    } catch (...) {
      connections_.erase(connection);
      throw;
    }
    n_connections_ = connections_.size();
  }

  void turn_away(tcp::socket socket) {
    RequestHead nothing;  // was read
    nothing.id = transport_.new_id();
    const std::string text =
        transport_.refusal_text(nothing, 503, "too many connections; try again later");
    boost::system::error_code error;
    ReplyFacts facts;
    facts.n_bytes = socket.send(asio::buffer(text), 0, error);
    facts.status = error ? 0 : 503;
    facts.is_client_gone = error.failed();
    if (transport_.options.on_request) transport_.options.on_request({nothing, facts, {}});
  }

  // When the grace is over, replies end with an error; who does not take it in time is closed.
  Task cut_replies(milliseconds grace) {
    if (connections_.empty()) co_return;
    grace_.expires_after(grace);
    if (auto [error] = co_await grace_.async_wait(kAwait); error) co_return;
    for (const auto& connection : connections_) connection->cancel();
    grace_.expires_after(std::min(kLastWords, transport_.options.write_timeout));
    if (auto [error] = co_await grace_.async_wait(kAwait); error) co_return;
    for (const auto& connection : connections_) connection->abandon();
  }

  Task guard(std::shared_ptr<Connection> connection) {
    try {
      co_await connection->serve();
    } catch (...) {  // out of memory: this connection ends, the others go on
    }
    connection->abandon();
    connections_.erase(connection);
    n_connections_ = connections_.size();
    finish_if_done();
  }

  void finish_if_done() {
    if (!transport_.is_stopping || !connections_.empty()) return;
    grace_.cancel();
    sweep_.cancel();
  }

  // Closes connections whose time is over; their operations then fail.
  Task sweep() {
    const HttpOptions& options = transport_.options;
    const milliseconds shortest = std::min({options.header_timeout,
                                            options.body_timeout,
                                            options.idle_timeout,
                                            options.write_timeout});
    const milliseconds pause = std::clamp(shortest / 4, milliseconds(5), milliseconds(250));
    while (!transport_.is_stopping || !connections_.empty()) {
      sweep_.expires_after(pause);
      co_await sweep_.async_wait(kAwait);
      for (const auto& connection : connections_) {
        if (connection->is_overdue()) connection->close();
      }
    }
  }

  Transport transport_;
  tcp::acceptor acceptor_;
  asio::steady_timer sweep_;
  asio::steady_timer grace_;
  std::uint16_t port_ = 0;
  std::set<std::shared_ptr<Connection>> connections_;
  std::atomic<std::size_t> n_connections_ = 0;
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
