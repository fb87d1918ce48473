// One request's reply on its way from the thread that writes it to the transport's thread, which
// sends it: a bounded queue of bytes.
#pragma once

#include "server/http_types.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>

namespace ft::server {

/// How a reply is framed.
struct ReplyFrame {
  std::string request_id;
  bool is_head_method = false;  // the body is not sent
  bool is_chunked = true;       // false: HTTP/1.0, a stream ends with the connection
  bool keeps_alive = true;
};

/// The head of a response, up to and with the empty line.
std::string response_head(const Response& response, const ReplyFrame& frame);

class Exchange final : public Reply {
 public:
  /// At most about `max_pending` bytes wait to be sent. `wake` is called from the writing thread
  /// when there is something to send, and must not throw.
  Exchange(ReplyFrame frame, std::size_t max_pending, std::function<void()> wake)
      : frame_(std::move(frame)), max_pending_(max_pending), wake_(std::move(wake)) {}

  // --- the writing thread ---
  void send(Response response) override;
  void begin_events(const Headers& headers) override;
  bool write(std::string_view text) override;
  void add_facts(const GenerationFacts& choice) override;
  std::stop_token gone() const noexcept override { return gone_.get_token(); }
  /// The handler returned.
  void finish() noexcept;
  /// Whether a reply was begun.
  bool has_begun() const noexcept;
  /// The reply is not whole, or there is none: the connection ends, so that the client learns it.
  void break_off() noexcept;

  // --- the transport's thread ---
  /// What is to be sent now; may be empty.
  std::string take();
  bool is_finished() const;  // and everything was taken, or nobody reads it
  bool is_handled() const;   // the handler returned
  /// Queues an event-stream comment if this is a stream with nothing to send.
  void keep_alive();
  /// The reply is to end soon; what is written until then is still sent.
  void cancel() noexcept { gone_.request_stop(); }
  /// Nobody reads any more: the writer is told, and never waits again.
  void abandon() noexcept;
  /// Whether another request may follow on the connection.
  bool keeps_alive() const;
  /// But for what was sent: the transport knows that.
  ReplyFacts facts() const;

 private:
  enum class Kind : std::uint8_t { kWhole, kStream };
  // If these throw, nothing has changed.
  void begin(Kind kind, int status, std::string_view text);
  void append(std::string_view text);

  const ReplyFrame frame_;
  const std::size_t max_pending_;
  const std::function<void()> wake_;
  std::stop_source gone_;
  mutable std::mutex mutex_;
  std::condition_variable writable_;
  std::string pending_;
  ReplyFacts facts_;
  bool has_begun_ = false;
  bool is_stream_ = false;
  bool is_finished_ = false;
  bool owes_last_chunk_ = false;
  bool is_abandoned_ = false;
  bool is_broken_ = false;
};

}  // namespace ft::server
