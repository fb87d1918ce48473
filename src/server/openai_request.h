// Bodies of /v1/chat/completions and /v1/completions: every parameter is honoured or refused by
// name. docs/server-api.md lists them. No sockets, no model.
#pragma once

#include "foretoken/request.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ft::server {

struct RequestLimits {
  std::size_t max_choices = 16;  // n, times prompts
  std::size_t max_messages = 4096;
  std::size_t max_tools = 256;
  std::size_t max_stops = 16;
  std::size_t max_stop_bytes = 1024;
  std::size_t max_biases = 4096;
  std::size_t max_depth = 48;  // of nested JSON
  std::size_t max_top_logprobs = 20;
};

/// A prompt: text, or ids.
using PromptText = std::variant<std::string, std::vector<foretoken::Token>>;

struct TextRequest {
  std::string model;  // as the client names it; empty: not at all
  /// All but prompt and prediction.
  foretoken::GenerationRequest generation;
  std::optional<std::size_t> max_tokens;  // unset: the server's default
  std::size_t n = 1;
  bool is_stream = false;
  bool includes_usage = false;  // in a stream; else it is always there
  std::string prediction;
  // Of a chat.
  std::string chat_json;  // what the chat template renders
  bool has_tools = false;
  // Of a completion.
  std::vector<PromptText> prompts;
  bool echoes = false;
};

/// Throws ApiError.
TextRequest parse_chat_request(std::string_view body, const RequestLimits& limits);
TextRequest parse_completion_request(std::string_view body, const RequestLimits& limits);

struct TokenizeRequest {
  std::string text;       // of `content` or `prompt`
  std::string chat_json;  // of `messages`; else empty
};
TokenizeRequest parse_tokenize_request(std::string_view body, const RequestLimits& limits);
std::vector<foretoken::Token> parse_detokenize_request(std::string_view body,
                                                       const RequestLimits& limits);

}  // namespace ft::server
