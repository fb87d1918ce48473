// The seam between generations and the APIs that clients speak: a dialect reads requests and writes
// replies. It sees no sockets and no model.
#pragma once

#include "foretoken/reply.h"
#include "foretoken/result.h"
#include "server/api_error.h"
#include "server/text_request.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// The exact bytes of a token.
using TokenText = std::function<std::string(foretoken::Token)>;

struct ReplyIdentity {
  std::string request_id;    // letters, digits, '-', '_', '.'
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;
  std::size_t n_prompt_tokens = 0;  // of the first prompt
};

/// What became known of a choice. The end-of-text token is none of it.
struct ReplyPart {
  std::vector<foretoken::ReplyDelta> deltas;
  std::vector<foretoken::TokenLogprobs>
      logprobs;  // of all tokens, those of reasoning and calls too

  bool is_empty() const noexcept { return deltas.empty() && logprobs.empty(); }
};

struct Choice {
  std::size_t index = 0;
  /// All parts of it, neighbours of one kind (and one call) joined. Empty in a stream.
  ReplyPart reply;
  std::size_t n_calls = 0;
  std::size_t n_reasoning_tokens = 0;
  foretoken::Completion completion;
};

/// Writes one request's reply: whole, or as a stream of server-sent events, for which every member
/// returns text to be sent, perhaps none. Parts of several choices come in any order, those of one
/// choice in theirs. Used by one thread at a time.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;

  /// The reply without a stream: the body. `choices` in the order of their indexes.
  virtual std::string whole(std::span<const Choice> choices) = 0;

  /// Before anything was generated. `n_choices`: of all prompts.
  virtual std::string begin(std::size_t n_choices) = 0;
  virtual std::string part(std::size_t choice, const ReplyPart& part) = 0;
  /// Rounds of decoding, as lines of a trace, for requests that include them.
  virtual std::string rounds(std::size_t /*choice*/, std::span<const std::string> /*trace_lines*/) {
    return {};
  }
  virtual std::string end_choice(const Choice& choice) = 0;
  /// After the last choice.
  virtual std::string end(std::span<const Choice> choices) = 0;
  /// Instead of all that would have followed.
  virtual std::string error(const ApiError& error) = 0;
};

/// Stateless, thread-safe.
class Dialect {
 public:
  virtual ~Dialect() = default;
  /// Every parameter is honoured or refused by name. Throws ApiError.
  virtual TextRequest parse(std::string_view body, const RequestLimits& limits) const = 0;
  virtual std::unique_ptr<ReplyWriter> writer(const TextRequest& request,
                                              ReplyIdentity identity,
                                              TokenText token_text) const = 0;
  /// The body of a response that tells of an error.
  virtual std::string error_body(const ApiError& error, std::string_view request_id) const = 0;
  /// A header that has the request's id for clients that look nowhere else; empty: none.
  virtual std::string_view id_header() const { return {}; }
};

/// /v1/chat/completions and /v1/completions. See openai_reply.cc.
const Dialect& openai_chat_dialect();
const Dialect& openai_completion_dialect();
/// /v1/responses. See responses_reply.cc.
const Dialect& responses_dialect();
/// /v1/messages. See anthropic_reply.cc.
const Dialect& anthropic_dialect();

}  // namespace ft::server
