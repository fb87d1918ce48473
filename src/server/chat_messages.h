// The part of a chat request that the model's template sees.
#pragma once

#include "server/openai_request.h"
#include "server/request_fields.h"

#include <string>

namespace ft::server {

/// Takes messages, tools, tool_choice, reasoning_effort, enable_thinking and chat_template_kwargs
/// out of a request and writes the object that a chat template renders. Roles, contents and tools
/// are checked. Throws ApiError.
std::string chat_template_input(RequestFields& fields,
                                const RequestLimits& limits,
                                bool& has_tools);

/// The text of a content: a string, or an array of text parts. Throws ApiError for any other part.
std::string content_text(const json::Value& content, const std::string& path);

}  // namespace ft::server
