#include "server/chat_messages.h"

#include "base/error.h"
#include "server/api_error.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace ft::server {
namespace {

void check_tool_calls(RequestFields& message, const RequestLimits& limits) {
  const json::Array* calls = message.array("tool_calls", limits.max_tools);
  if (calls == nullptr) return;
  for (std::size_t i = 0; i < calls->size(); ++i) {
    RequestFields call((*calls)[i], fmt::format("{}[{}]", message.path_of("tool_calls"), i));
    call.string("id");
    call.find("index");
    call.only("type", {"function"}, "only functions can be called");
    if (call.object("function") == nullptr) {
      throw ApiError(call.path_of("function"), "a tool call without a function", kMissing);
    }
    RequestFields function(*(*calls)[i].find("function"), call.path_of("function"));
    if (function.string("name") == nullptr) {
      throw ApiError(function.path_of("name"), "a function without a name", kMissing);
    }
    function.find("arguments");  // any JSON type; texts are parsed by the template's engine
    function.finish();
    call.finish();
  }
}

// Writes one message, its text in one piece.
void write_message(json::Writer& out,
                   const json::Value& value,
                   const std::string& path,
                   const RequestLimits& limits) {
  constexpr std::array<std::string_view, 5> kRoles = {
      "system", "developer", "user", "assistant", "tool"};
  RequestFields message(value, path);
  const std::string* role = message.string("role");
  if (role == nullptr) throw ApiError(path + ".role", "a message without a role", kMissing);
  if (std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    throw ApiError(
        path + ".role",
        fmt::format("'{}.role' is {}, expected system, developer, user, assistant or tool",
                    path,
                    in_quotes(*role)));
  }
  message.only("name", {""}, "the model's template has no place for names of participants");
  message.only("refusal", {""}, "this server never writes refusals");
  out.begin_object().member("role", *role == "developer" ? std::string("system") : *role);
  const json::Value* content = message.find("content");
  const bool is_assistant = *role == "assistant";
  if (is_assistant) {
    check_tool_calls(message, limits);
    const std::string* reasoning = message.string("reasoning_content");
    const std::string* alias = message.string("reasoning");
    if (reasoning == nullptr) reasoning = alias;
    if (reasoning != nullptr) out.member("reasoning_content", *reasoning);
    if (const json::Value* calls = value.find("tool_calls");
        calls != nullptr && !calls->is_null()) {
      out.key("tool_calls");
      out.value(*calls);
    }
  }
  if (*role == "tool") message.string("tool_call_id");
  if (content == nullptr && !is_assistant) {
    throw ApiError(path + ".content", "a message without content", kMissing);
  }
  out.member("content",
             content == nullptr ? std::string() : content_text(*content, path + ".content"));
  message.finish();
  out.end_object();
}

void check_tool(const json::Value& value, const std::string& path) {
  RequestFields tool(value, path);
  tool.only("type", {"function"}, "only functions can be called");
  if (tool.object("function") == nullptr) {
    throw ApiError(path + ".function", "a tool without a function", kMissing);
  }
  tool.finish();
  RequestFields function(*value.find("function"), path + ".function");
  check_function(function);
  function.finish();
}

// The template's own words for how much the model thinks.
void write_thinking(json::Writer& out, RequestFields& fields) {
  const std::string* effort = fields.string("reasoning_effort");
  std::optional<bool> thinks = fields.boolean("enable_thinking");
  std::optional<bool> clears;
  if (fields.object("chat_template_kwargs") != nullptr) {
    RequestFields variables(*fields.find("chat_template_kwargs"), "chat_template_kwargs");
    const std::optional<bool> nested = variables.boolean("enable_thinking");
    if (nested && thinks && *nested != *thinks) {
      throw ApiError("chat_template_kwargs.enable_thinking", "contradicts 'enable_thinking'");
    }
    if (nested) thinks = nested;
    clears = variables.boolean("clear_thinking");
    variables.finish();
  }
  if (effort != nullptr) {
    const bool effort_thinks = write_effort(out, *effort, "reasoning_effort");
    if (thinks && *thinks != effort_thinks) {
      throw ApiError("reasoning_effort",
                     fmt::format("'reasoning_effort' {} contradicts 'enable_thinking'", *effort));
    }
    thinks = effort_thinks;
  }
  if (thinks) out.member("enable_thinking", *thinks);
  if (clears) out.member("clear_thinking", *clears);
}

}  // namespace

std::string content_text(const json::Value& content, const std::string& path) {
  if (content.is_string()) return content.as_string("");
  if (!content.is_array()) {
    throw ApiError(
        path, fmt::format("'{}' is neither a string nor an array of parts", path), "invalid_type");
  }
  std::string out;
  const json::Array& parts = content.as_array("");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    RequestFields part(parts[i], fmt::format("{}[{}]", path, i));
    part.only("type", {"text"}, "only text parts are understood");
    const std::string* text = part.string("text");
    if (text == nullptr) throw ApiError(part.path_of("text"), "a part without text", kMissing);
    part.finish();
    out += *text;
  }
  return out;
}

void check_function(RequestFields& function) {
  const std::string* name = function.string("name");
  if (name == nullptr || name->empty()) {
    throw ApiError(function.path_of("name"), "a function without a name", kMissing);
  }
  function.string("description");
  function.object("parameters");
  function.only("strict", {"false"}, "constrained decoding does not exist here; leave it out");
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

bool write_effort(json::Writer& out, const std::string& effort, const std::string& path) {
  if (effort != "none" && effort != "high" && effort != "max" && effort != "xhigh") {
    throw ApiError(path,
                   fmt::format("'{}' is {}, expected none, high, xhigh or max: the model knows no "
                               "other",
                               path,
                               in_quotes(effort)),
                   "unsupported_value");
  }
  if (effort == "none") return false;
  out.member("reasoning_effort", effort == "high" ? "high" : "max");
  return true;
}

void read_chat(RequestFields& fields, const RequestLimits& limits, TextRequest& out) {
  const json::Array* messages = fields.array("messages", limits.max_messages);
  if (messages == nullptr || messages->empty()) {
    throw ApiError("messages", "'messages' is missing or empty", kMissing);
  }
  json::Writer text;
  text.begin_object().key("messages").begin_array();
  for (std::size_t i = 0; i < messages->size(); ++i) {
    write_message(text, (*messages)[i], fmt::format("messages[{}]", i), limits);
  }
  text.end_array();
  if (const json::Array* tools = read_tools(fields, limits, check_tool)) {
    const json::Value list(*tools);
    text.key("tools").value(list);
    json::Writer tools_text;
    out.tools_json = tools_text.value(list).text();
  }
  write_thinking(text, fields);
  text.end_object();
  out.chat_json = text.text();
}

}  // namespace ft::server
