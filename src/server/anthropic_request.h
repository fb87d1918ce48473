// Bodies of Anthropic's /v1/messages and /v1/messages/count_tokens: every parameter is honoured or
// refused by name. docs/server-api.md lists them. No sockets, no model.
#pragma once

#include "server/text_request.h"

#include <string_view>

namespace ft::server {

/// Throw ApiError.
TextRequest parse_anthropic_request(std::string_view body, const RequestLimits& limits);
/// Of a request whose prompt is to be counted: the members that shape it.
TextRequest parse_anthropic_count(std::string_view body, const RequestLimits& limits);

}  // namespace ft::server
