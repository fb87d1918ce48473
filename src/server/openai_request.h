// Bodies of /v1/chat/completions and /v1/completions, and of /tokenize and /detokenize beside them:
// every parameter is honoured or refused by name. docs/server-api.md lists them. No sockets, no
// model.
#pragma once

#include "foretoken/request.h"
#include "server/text_request.h"

#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

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
