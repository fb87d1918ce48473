// The conversation of a /v1/responses request as a chat template reads it.
#pragma once

#include "json/json.h"
#include "server/request_fields.h"
#include "server/text_request.h"

namespace ft::server {

/// Takes `instructions` and `input` out of a request and writes the array of chat messages.
/// Instructions become a system message before all others. What the assistant thought, said and
/// called, one item after the other, becomes one message. Throws ApiError.
void write_input_messages(json::Writer& out, RequestFields& fields, const RequestLimits& limits);

}  // namespace ft::server
