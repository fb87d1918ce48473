#include "server/tool_fields.h"

#include "server/api_error.h"

#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace ft::server {

void check_function(RequestFields& function) {
  if (function.required_string("name").empty()) {
    throw ApiError(function.path_of("name"),
                   fmt::format("'{}' is empty", function.path_of("name")));
  }
  function.string("description");
  function.object("parameters");
  function.only("strict", {"false"}, "constrained decoding does not exist here; leave it out");
}

void check_allowed_callers(RequestFields& tool) {
  const json::Array* callers =
      tool.array("allowed_callers", std::numeric_limits<std::size_t>::max());
  if (callers == nullptr) return;
  for (const json::Value& caller : *callers) {
    if (caller.is_string() && caller.as_string("") == "direct") continue;
    throw ApiError(tool.path_of("allowed_callers"),
                   fmt::format("'{}' names others than direct: programs are not run here",
                               tool.path_of("allowed_callers")),
                   "unsupported_value");
  }
}

void check_caller(RequestFields& call) {
  std::optional<RequestFields> caller = call.nested("caller");
  if (!caller) return;
  caller->only("type", {"direct"}, "programs are not run here, expected direct");
  caller->finish();
}

const json::Array* read_tools(RequestFields& fields,
                              const RequestLimits& limits,
                              void (*check)(const json::Value& tool, const std::string& path)) {
  const json::Array* tools = fields.array("tools", limits.max_tools);
  fields.only("parallel_tool_calls", {"true"}, "the number of calls cannot be held down");
  const json::Value* choice = fields.find("tool_choice");
  if (choice != nullptr && !choice->is_string()) {
    throw ApiError("tool_choice",
                   "'tool_choice' names a function: calls cannot be forced, expected auto or none",
                   "unsupported_value");
  }
  fields.only("tool_choice", {"auto", "none"}, "calls cannot be forced, expected auto or none");
  if (tools == nullptr) return nullptr;
  for (std::size_t i = 0; i < tools->size(); ++i) {
    check((*tools)[i], fmt::format("tools[{}]", i));
  }
  // With `none` the model does not learn that there are tools.
  if (tools->empty() || (choice != nullptr && choice->as_string("") == "none")) return nullptr;
  return tools;
}

void write_tools(json::Writer& chat, const json::Value& tools, TextRequest& out) {
  json::Writer text;
  out.tools_json = text.value(tools).text();
  chat.member("tools", tools);
}

json::Value function_tool(json::Object function) {
  return json::Value(json::Object{{"type", json::Value(std::string("function"))},
                                  {"function", json::Value(std::move(function))}});
}

void write_tool_calls(json::Writer& message, std::span<const ToolCall> calls) {
  if (calls.empty()) return;
  message.key("tool_calls").begin_array();
  for (const ToolCall& call : calls) {
    message.begin_object().member("id", call.id).member("type", "function").key("function");
    message.begin_object().member("name", call.name).member("arguments", call.arguments);
    message.end_object().end_object();
  }
  message.end_array();
}

}  // namespace ft::server
