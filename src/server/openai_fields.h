// Members that requests of both of OpenAI's APIs, those of chats and of Responses, have in common.
#pragma once

#include "server/request_fields.h"
#include "server/text_request.h"

#include <optional>
#include <string_view>

namespace ft::server {

// All of these throw ApiError naming the parameter.

/// The model; how a reply is sampled, drafted and ended; what has no effect on it by its own
/// definition.
void read_openai_fields(RequestFields& fields, const RequestLimits& limits, TextRequest& out);

/// `stream` and, of `stream_options`, what both APIs have. Returns the options: what is left of
/// them is the caller's.
std::optional<RequestFields> read_stream(RequestFields& fields, TextRequest& out);

/// A member that says how a reply is formatted: as text.
void check_text_format(RequestFields& fields, std::string_view name);

}  // namespace ft::server
