#include "server/chat_messages.h"

#include "base/error.h"
#include "server/api_error.h"
#include "server/tool_fields.h"

#include <optional>

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
    RequestFields function(call.required_object("function"), call.path_of("function"));
    function.required_string("name");
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
  RequestFields message(value, path);
  const std::string& role = message.required_string("role");
  message.only("role",
               {"system", "developer", "user", "assistant", "tool"},
               "expected system, developer, user, assistant or tool");
  message.only("name", {""}, "the model's template has no place for names of participants");
  message.only("refusal", {""}, "this server never writes refusals");
  out.begin_object().member("role", role == "developer" ? std::string("system") : role);
  const bool is_assistant = role == "assistant";
  const json::Value* content =
      is_assistant ? message.find("content") : &message.required("content");
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
  if (role == "tool") message.string("tool_call_id");
  out.member("content",
             content == nullptr ? std::string() : content_text(*content, path + ".content"));
  message.finish();
  out.end_object();
}

void check_tool(const json::Value& value, const std::string& path) {
  RequestFields tool(value, path);
  tool.only("type", {"function"}, "only functions can be called");
  RequestFields function(tool.required_object("function"), tool.path_of("function"));
  check_function(function);
  function.finish();
  tool.finish();
}

// The template's own words for how much the model thinks.
void write_thinking(json::Writer& out, RequestFields& fields) {
  const std::string* effort = fields.string("reasoning_effort");
  std::optional<bool> thinks = fields.boolean("enable_thinking");
  std::optional<bool> clears;
  if (std::optional<RequestFields> variables = fields.nested("chat_template_kwargs")) {
    const std::optional<bool> nested = variables->boolean("enable_thinking");
    if (nested && thinks && *nested != *thinks) {
      throw ApiError("chat_template_kwargs.enable_thinking", "contradicts 'enable_thinking'");
    }
    if (nested) thinks = nested;
    clears = variables->boolean("clear_thinking");
    variables->finish();
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
    out += part.required_string("text");
    part.finish();
  }
  return out;
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
    write_tools(text, json::Value(*tools), out);
  }
  write_thinking(text, fields);
  text.end_object();
  out.chat_json = text.text();
}

}  // namespace ft::server
