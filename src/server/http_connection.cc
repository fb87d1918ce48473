#include "server/http_connection.h"

#include "base/error.h"
#include "server/request_head.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using std::chrono::milliseconds;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// What a client may send ahead while its request is answered.
constexpr std::size_t kMaxReadAhead = std::size_t{64} << 10;
constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kWriteBytes = std::size_t{64} << 10;
// Of each body: so clients that announce or send much and stall keep no short request out.
constexpr std::size_t kFreeBodyBytes = std::size_t{64} << 10;
// After a refusal the client may still be sending: it reads the reply only if this reads on.
constexpr std::size_t kMaxDiscarded = std::size_t{32} << 20;
constexpr milliseconds kDiscardTimeout{2'000};

/// A body's part of Transport::all_body_bytes, given back at the end.
class BodyShare {
 public:
  BodyShare(std::size_t& all, std::size_t most) : all_(all), most_(most) {}
  ~BodyShare() { all_ -= held_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  BodyShare(BodyShare&&) = delete;
  BodyShare& operator=(BodyShare&&) = delete;

  /// Whether there is room for a body of so many bytes.
  bool grow_to(std::size_t n_bytes) {
    const std::size_t wanted = n_bytes - std::min(n_bytes, kFreeBodyBytes);
    if (wanted <= held_) return true;
    if (wanted - held_ > most_ - all_) return false;
    all_ += wanted - held_;
    held_ = wanted;
    return true;
  }

 private:
  std::size_t& all_;
  const std::size_t most_;
  std::size_t held_ = 0;
};

// For a handler that threw. Where memory lacks even for the refusal, there is no reply.
void refuse_or_break_off(Handler& handler, const RequestHead& head, Exchange& reply) noexcept {
  if (reply.has_begun()) {
    reply.break_off();
    return;
  }
  try {
    reply.send(handler.refusal(head, 500, "internal error"));
  } catch (...) {
    reply.break_off();
  }
}

void handle(Handler& handler, const Request& request, Exchange& reply) noexcept {
  try {
    handler.handle(request, reply);
    FT_CHECK(reply.has_begun());
  } catch (...) {
    refuse_or_break_off(handler, request.head, reply);
  }
  reply.finish();
}

std::string framed(const Response& response, const RequestHead& head, bool keeps_alive) {
  ReplyFrame frame;
  frame.request_id = head.id;
  frame.keeps_alive = keeps_alive;
  return response_head(response, frame) + (head.method == "HEAD" ? "" : response.body);
}

}  // namespace

Transport::Transport(HttpOptions wanted, Handler& answers)
    : options(std::move(wanted)),
      handler(answers),
      start_id(
          static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())),
      workers(options.max_requests) {}

std::string Transport::new_id() {
  return fmt::format("req-{:x}-{:x}", start_id, ++n_ids);
}

std::string Transport::refusal_text(const RequestHead& head, int status, std::string_view message) {
  RequestHead known = head;
  if (known.id.empty()) known.id = new_id();
  return framed(handler.refusal(known, status, message), known, false);
}

/// A request on its way, and what its line in the log will tell.
struct Connection::Incoming {
  RequestParser parser;
  RequestHead head = {};
  Clock::time_point began = Clock::now();
  ReplyFacts facts = {};
};

Connection::Connection(asio::ip::tcp::socket socket, Transport& transport)
    : transport_(transport),
      socket_(std::move(socket)),
      wake_(socket_.get_executor()),
      buffer_(kMaxReadAhead + kWriteBytes) {}

void Connection::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void Connection::cancel() {
  if (exchange_) exchange_->cancel();
}

void Connection::abandon() {
  if (exchange_) exchange_->abandon();
  wake_.cancel();
  close();
}

Connection::Task Connection::serve() {
  bool goes_on = true;
  while (goes_on && !transport_.is_stopping) goes_on = co_await serve_one();
}

Connection::Outcome Connection::serve_one() {
  const HttpOptions& options = transport_.options;
  if (buffer_.size() == 0) {
    expire_after(options.idle_timeout);
    auto [error, n] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kAwait);
    if (error) co_return false;
    buffer_.commit(n);
  }
  Incoming incoming;
  n_sent_ = 0;
  limit(incoming.parser, options.max_header_bytes, options.max_body_bytes);
  expire_after(options.header_timeout);
  auto [error, n] = co_await http::async_read_header(socket_, buffer_, incoming.parser, kAwait);
  if (error == http::error::end_of_stream || is_overdue()) co_return false;
  incoming.head = head_of(incoming.parser, transport_.new_id());
  if (error && !is_of_client(error)) co_return false;
  if (error) {
    co_await refuse(
        incoming, status_of(error), fmt::format("the request is malformed: {}", error.message()));
    co_return false;
  }
  co_return co_await answer(incoming);
}

Connection::Outcome Connection::answer(Incoming& incoming) {
  const RequestParser& parser = incoming.parser;
  if (!has_valid_host(parser)) {
    co_await refuse(incoming, 400, "the request has not exactly one Host header");
    co_return false;
  }
  if (std::optional<Response> early = transport_.handler.answer_head(incoming.head)) {
    const bool goes_on = parser.is_done() && parser.keep_alive();
    co_await send_reply(incoming, early->status, framed(*early, incoming.head, goes_on));
    if (!goes_on) co_await discard();
    co_return goes_on;
  }
  if (!co_await read_body(incoming)) co_return false;
  co_return co_await exchange(incoming);
}

// Of a body that was refused, or was cut off, the record is made.
Connection::Outcome Connection::read_body(Incoming& incoming) {
  if (incoming.parser.is_done()) co_return true;
  expire_after(transport_.options.body_timeout);
  const auto expect = incoming.parser.get()[http::field::expect];
  if (!expect.empty()) {
    if (!boost::beast::iequals(expect, "100-continue")) {
      co_await refuse(incoming, 417, "the only expectation understood is 100-continue");
      co_return false;
    }
    co_await send_all("HTTP/1.1 100 Continue\r\n\r\n");
    n_sent_ = 0;
    expire_after(transport_.options.body_timeout);
  }
  co_return co_await read_parts(incoming);
}

Connection::Outcome Connection::read_parts(Incoming& incoming) {
  const HttpOptions& options = transport_.options;
  BodyShare share(transport_.all_body_bytes, options.max_all_body_bytes);
  incoming.parser.eager(true);
  while (!incoming.parser.is_done()) {
    auto [error, n] = co_await http::async_read_some(socket_, buffer_, incoming.parser, kAwait);
    if (error == http::error::body_limit) {
      co_await refuse(
          incoming, 413, fmt::format("the body is longer than {} bytes", options.max_body_bytes));
      co_return false;
    }
    if (error && is_of_client(error) && error != http::error::partial_message) {
      co_await refuse(incoming, 400, "the body is malformed: " + error.message());
      co_return false;
    }
    if (error) {
      end(incoming, false);
      co_return false;
    }
    if (!share.grow_to(incoming.parser.get().body().size())) {
      co_await refuse(incoming, 503, "too many requests are being read; try again later");
      co_return false;
    }
  }
  co_return true;
}

// Runs the handler and sends what it writes.
Connection::Outcome Connection::exchange(Incoming& incoming) {
  Request request{incoming.head, std::move(incoming.parser.get().body())};
  ReplyFrame frame;
  frame.request_id = request.head.id;
  frame.is_head_method = request.head.method == "HEAD";
  frame.is_chunked = incoming.parser.get().version() >= 11;
  frame.keeps_alive = incoming.parser.keep_alive() && !transport_.is_stopping;
  const auto wake = [&io = transport_.io, weak = weak_from_this()]() noexcept {
    try {
      asio::post(io, [weak] {
        if (const auto alive = weak.lock()) alive->wake_.cancel();
      });
    } catch (...) {  // out of memory: pump() looks by itself, if later
    }
  };
  auto reply =
      std::make_shared<Exchange>(std::move(frame), transport_.options.max_pending_bytes, wake);
  exchange_ = reply;
  Handler& handler = transport_.handler;
  if (handler.is_quick(incoming.head)) {
    handle(handler, request, *reply);
  } else if (!transport_.workers.try_run([&handler, reply, request = std::move(request)] {
               handle(handler, request, *reply);
             })) {
    Response busy = handler.refusal(incoming.head,
                                    429,
                                    fmt::format("all {} requests at once are taken; try again",
                                                transport_.options.max_requests));
    busy.headers.emplace_back("Retry-After", "1");
    reply->send(std::move(busy));
    reply->finish();
  }
  never_expire();
  is_watched_ = true;
  asio::co_spawn(socket_.get_executor(), watch(reply), asio::detached);
  const bool is_sent = co_await pump(*reply);
  never_expire();
  boost::system::error_code ignored;
  while (is_watched_) {
    socket_.cancel(ignored);
    wake_.expires_after(transport_.options.keep_alive_interval);
    co_await wake_.async_wait(kAwait);
  }
  if (!reply->keeps_alive()) close();
  while (!reply->is_handled()) {  // the client is gone, its generation ends
    wake_.expires_after(transport_.options.keep_alive_interval);
    co_await wake_.async_wait(kAwait);
  }
  exchange_ = nullptr;
  incoming.facts = reply->facts();
  end(incoming, is_sent);
  co_return reply->keeps_alive() && socket_.is_open();
}

// Sees the client's end while its request is answered: a closed connection cancels it. What the
// client sends ahead is kept for the next request.
Connection::Task Connection::watch(std::shared_ptr<Exchange> reply) {
  const auto self = shared_from_this();
  while (buffer_.size() < kMaxReadAhead) {
    auto [error, n] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kAwait);
    if (error) {
      if (error != asio::error::operation_aborted || !socket_.is_open()) reply->abandon();
      break;
    }
    buffer_.commit(n);
  }
  is_watched_ = false;
  wake_.cancel();
}

// Sends what the handler writes. False: not all of it could be sent.
Connection::Outcome Connection::pump(Exchange& reply) {
  while (true) {
    const std::string text = reply.take();
    if (!text.empty()) {
      if (!co_await send_all(text)) {
        reply.abandon();
        co_return false;
      }
      continue;
    }
    if (reply.is_finished()) co_return true;
    wake_.expires_after(transport_.options.keep_alive_interval);
    auto [error] = co_await wake_.async_wait(kAwait);
    if (!error) reply.keep_alive();
  }
}

// Each part has the write timeout for itself: slow is allowed, stuck is not.
Connection::Outcome Connection::send_all(std::string_view text) {
  while (!text.empty()) {
    expire_after(transport_.options.write_timeout);
    const std::string_view part = text.substr(0, kWriteBytes);
    auto [error, n] =
        co_await asio::async_write(socket_, asio::buffer(part.data(), part.size()), kAwait);
    never_expire();
    n_sent_ += n;
    if (error) co_return false;
    text.remove_prefix(n);
  }
  co_return true;
}

// A reply that no handler writes.
Connection::Task Connection::send_reply(Incoming& incoming, int status, std::string text) {
  incoming.facts.status = status;
  const bool is_all_sent = co_await send_all(text);
  end(incoming, is_all_sent);
}

// Answers what cannot be answered otherwise; the connection must end after it.
Connection::Task Connection::refuse(Incoming& incoming, int status, std::string message) {
  co_await send_reply(incoming, status, transport_.refusal_text(incoming.head, status, message));
  if (!incoming.facts.is_client_gone) co_await discard();
}

// A close with unread data would take the reply away from the client.
Connection::Task Connection::discard() {
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  expire_after(std::min(kDiscardTimeout, transport_.options.body_timeout));
  buffer_.clear();
  std::size_t n_discarded = 0;
  while (n_discarded < kMaxDiscarded) {
    auto [error, n] = co_await socket_.async_read_some(buffer_.prepare(kWriteBytes), kAwait);
    if (error) co_return;
    n_discarded += n;
  }
}

// The request is over; its facts get what was really sent.
void Connection::end(Incoming& incoming, bool is_all_sent) const {
  ReplyFacts& facts = incoming.facts;
  facts.n_bytes = n_sent_;
  if (n_sent_ == 0) facts.status = 0;
  if (!is_all_sent) facts.is_client_gone = true;
  if (!transport_.options.on_request) return;
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - incoming.began);
  transport_.options.on_request({incoming.head, facts, took});
}

}  // namespace ft::server
