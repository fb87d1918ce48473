// What the transport and the API hand each other: a request as text, and the place its reply goes
// to. Neither knows the other's libraries.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::server {

/// A request before its body was read. Texts as the client sent them; absent headers are empty.
struct RequestHead {
  std::string id;  // of this request, in every reply and log line
  std::string method;
  std::string path;  // without the query
  std::string query;
  std::string host;
  std::string origin;
  std::string authorization;
  std::string api_key;  // x-api-key
  std::string anthropic_version;
  std::string content_type;
  std::string if_none_match;
};

struct Request {
  RequestHead head;
  std::string body;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers = {};
};

/// What generations of a request came to: for its line in the log, which never has a text.
struct GenerationFacts {
  std::size_t n_choices = 0;
  std::size_t n_prompt = 0;  // tokens
  std::size_t n_cached = 0;
  std::size_t n_tokens = 0;
  std::size_t n_drafted = 0;
  std::size_t n_accepted = 0;
  double queue_ms = 0;                // longest of them
  double time_to_first_token_ms = 0;  // likewise
  std::string_view finish_reason;     // of the last one to end; "error"
};

/// What became of a request.
struct ReplyFacts {
  int status = 0;               // that was sent; 0: none
  std::size_t n_bytes = 0;      // sent
  bool is_client_gone = false;  // before all was sent
  GenerationFacts generation = {};
};

struct RequestRecord {
  const RequestHead& head;
  const ReplyFacts& facts;
  std::chrono::microseconds took;  // from its first byte to the last of the reply
};

/// Where one request is answered: once with send(), or with begin_events() and any number of
/// write(). Used by one thread.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(Response response) = 0;
  /// Status 200 and the head of an event stream.
  virtual void begin_events(const Headers& headers) = 0;
  /// Part of the stream. Waits while the client reads slower than this writes. False: the client is
  /// gone, and nothing more is worth doing.
  virtual bool write(std::string_view text) = 0;
  /// Of one more choice, for the log. Any thread.
  virtual void add_facts(const GenerationFacts& /*choice*/) {}
  /// Fires when the client is gone or the server stops.
  virtual std::stop_token gone() const noexcept = 0;
};

/// What answers requests. Thread-safe.
class Handler {
 public:
  virtual ~Handler() = default;
  /// An answer that needs no body: refusals of who asks or what for. Called before the body is
  /// read, on the transport's thread.
  virtual std::optional<Response> answer_head(const RequestHead& head) = 0;
  /// Whether handle() returns at once and only sends; it is then called on the transport's thread.
  virtual bool is_quick(const RequestHead& head) const = 0;
  /// Answers by `reply`, or throws: the client then gets status 500, or a stream that breaks off.
  virtual void handle(const Request& request, Reply& reply) = 0;
  /// The reply to what the transport itself refuses.
  virtual Response refusal(const RequestHead& head, int status, std::string_view message) = 0;
};

}  // namespace ft::server
