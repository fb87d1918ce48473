// Tools and calls of them, as requests of several APIs name them and as chat templates know them.
#pragma once

#include "json/json.h"
#include "server/request_fields.h"
#include "server/text_request.h"

#include <span>
#include <string>

namespace ft::server {

// What checks and reads throws ApiError naming the parameter.

/// Takes name, description, parameters and strict out of a function.
void check_function(RequestFields& function);

/// Takes allowed_callers out of a tool and caller out of a call: the model itself is the only one.
void check_allowed_callers(RequestFields& tool);
void check_caller(RequestFields& call);

/// Takes tools, tool_choice and parallel_tool_calls out of a request of OpenAI's: the tools that
/// may be called, nullptr if none. `check` throws for a tool that is none.
const json::Array* read_tools(RequestFields& fields,
                              const RequestLimits& limits,
                              void (*check)(const json::Value& tool, const std::string& path));

/// Writes the member `tools` of a chat and sets tools_json. `tools`: an array as OpenAI's chats
/// have it.
void write_tools(json::Writer& chat, const json::Value& tools, TextRequest& out);

/// A function as an entry of such an array.
json::Value function_tool(json::Object function);

struct ToolCall {
  std::string id;
  std::string name;
  json::Value arguments;
};

/// Writes the member `tool_calls` of a message, if there are calls.
void write_tool_calls(json::Writer& message, std::span<const ToolCall> calls);

}  // namespace ft::server
