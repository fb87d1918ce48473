#include "server/exchange.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

std::string head(int status,
                 std::string_view content_type,
                 const Headers& headers,
                 const ReplyFrame& frame) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  if (!content_type.empty()) out += fmt::format("Content-Type: {}\r\n", content_type);
  bool tells_caching = false;
  for (const auto& [name, value] : headers) {
    out += fmt::format("{}: {}\r\n", name, value);
    tells_caching = tells_caching || name == "Cache-Control";
  }
  if (!tells_caching) out += "Cache-Control: no-store\r\n";
  out += fmt::format("X-Request-Id: {}\r\nX-Content-Type-Options: nosniff\r\nConnection: {}\r\n",
                     frame.request_id,
                     frame.keeps_alive ? "keep-alive" : "close");
  return out;
}

}  // namespace

std::string response_head(const Response& response, const ReplyFrame& frame) {
  std::string out = head(response.status,
                         response.body.empty() ? std::string_view() : response.content_type,
                         response.headers,
                         frame);
  if (response.status != 204 && response.status != 304)
    out += fmt::format("Content-Length: {}\r\n", response.body.size());
  return out + "\r\n";
}

void Exchange::send(Response response) {
  FT_CHECK(!has_begun());
  std::string text = response_head(response, frame_);
  if (!frame_.is_head_method) text += response.body;
  begin(Kind::kWhole, response.status, text);
}

void Exchange::begin_events(const Headers& headers) {
  FT_CHECK(!has_begun());
  std::string text = head(200, "text/event-stream; charset=utf-8", headers, frame_);
  text += frame_.is_chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
  begin(Kind::kStream, 200, text);
}

void Exchange::begin(Kind kind, int status, std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    pending_ += text;
    has_begun_ = true;
    is_stream_ = kind == Kind::kStream;
    facts_.status = status;
  }
  wake_();
}

bool Exchange::write(std::string_view text) {
  {
    std::unique_lock lock(mutex_);
    FT_CHECK(is_stream_);
    writable_.wait(lock, [this] { return is_abandoned_ || pending_.size() < max_pending_; });
    if (is_abandoned_) return false;
  }
  if (text.empty()) return true;
  append(frame_.is_chunked ? fmt::format("{:x}\r\n{}\r\n", text.size(), text) : std::string(text));
  return true;
}

void Exchange::append(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    if (is_abandoned_) return;
    pending_ += text;
  }
  wake_();
}

void Exchange::finish() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_finished_ = true;
    owes_last_chunk_ = is_stream_ && frame_.is_chunked && !is_broken_ && !is_abandoned_;
  }
  wake_();
}

bool Exchange::has_begun() const noexcept {
  const std::lock_guard lock(mutex_);
  return has_begun_;
}

void Exchange::break_off() noexcept {
  const std::lock_guard lock(mutex_);
  is_broken_ = true;
}

std::string Exchange::take() {
  std::string out;
  {
    const std::lock_guard lock(mutex_);
    out.swap(pending_);
    if (std::exchange(owes_last_chunk_, false)) out += "0\r\n\r\n";
  }
  writable_.notify_one();
  return out;
}

bool Exchange::is_finished() const {
  const std::lock_guard lock(mutex_);
  return (is_finished_ && pending_.empty() && !owes_last_chunk_) || is_abandoned_;
}

bool Exchange::is_handled() const {
  const std::lock_guard lock(mutex_);
  return is_finished_;
}

void Exchange::add_facts(const GenerationFacts& choice) {
  const std::lock_guard lock(mutex_);
  GenerationFacts& all = facts_.generation;
  all.n_choices += choice.n_choices;
  all.n_prompt += choice.n_prompt;
  all.n_cached += choice.n_cached;
  all.n_tokens += choice.n_tokens;
  all.n_drafted += choice.n_drafted;
  all.n_accepted += choice.n_accepted;
  all.queue_ms = std::max(all.queue_ms, choice.queue_ms);
  all.time_to_first_token_ms = std::max(all.time_to_first_token_ms, choice.time_to_first_token_ms);
  all.finish_reason = choice.finish_reason;
}

ReplyFacts Exchange::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

void Exchange::keep_alive() {
  constexpr std::string_view kComment = ": keep-alive\n\n";
  const std::lock_guard lock(mutex_);
  if (!is_stream_ || is_finished_ || !pending_.empty()) return;
  pending_ = frame_.is_chunked ? fmt::format("{:x}\r\n{}\r\n", kComment.size(), kComment)
                               : std::string(kComment);
}

void Exchange::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_abandoned_ = true;
    const bool is_written = is_finished_ || (has_begun_ && !is_stream_);
    if (!is_written) facts_.is_client_gone = true;
  }
  writable_.notify_all();
  gone_.request_stop();
}

bool Exchange::keeps_alive() const {
  const std::lock_guard lock(mutex_);
  return frame_.keeps_alive && !is_broken_ && !is_abandoned_ && (!is_stream_ || frame_.is_chunked);
}

}  // namespace ft::server
