// The part of a chat request that the model's template sees.
#pragma once

#include "server/request_fields.h"
#include "server/text_request.h"

#include <string>

namespace ft::server {

/// Takes messages, tools, tool_choice, reasoning_effort, enable_thinking and chat_template_kwargs
/// out of a request and sets chat_json and tools_json. Roles, contents and tools are checked.
/// Throws ApiError.
void read_chat(RequestFields& fields, const RequestLimits& limits, TextRequest& out);

/// Writes the template's word for an effort, if there is one; returns whether the model thinks.
/// Throws ApiError about `path`.
bool write_effort(json::Writer& out, const std::string& effort, const std::string& path);

/// The text of a content: a string, or an array of text parts. Throws ApiError for any other part.
std::string content_text(const json::Value& content, const std::string& path);

}  // namespace ft::server
