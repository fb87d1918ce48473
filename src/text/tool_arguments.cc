#include "text/tool_arguments.h"

#include "base/error.h"

#include <string>
#include <string_view>
#include <utility>

namespace ft::text {
namespace {

/// The object with its member `key` set to `value`.
json::Value with_member(const json::Value& object, std::string_view key, json::Value value) {
  json::Object members = object.as_object("chat request");
  for (auto& [name, member] : members) {
    if (name != key) continue;
    member = std::move(value);
    break;
  }
  return json::Value(std::move(members));
}

json::Value parsed_function(const json::Value& function, const std::string& where) {
  const json::Value* arguments = function.find("arguments");
  if (arguments == nullptr) return function;
  const std::string what = where + ".arguments";
  json::Value parsed = *arguments;
  if (arguments->is_string()) {
    const std::string& text = arguments->as_string(what);
    const bool is_empty = text.find_first_not_of(" \t\r\n") == std::string::npos;
    parsed = is_empty ? json::Value(json::Object{}) : json::parse(text, what);
  }
  parsed.as_object(what);
  return with_member(function, "arguments", std::move(parsed));
}

json::Value parsed_call(const json::Value& call, const std::string& where) {
  const json::Value* function = call.find("function");
  if (function == nullptr) return parsed_function(call, where);
  return with_member(call, "function", parsed_function(*function, where + ".function"));
}

json::Value parsed_message(const json::Value& message, const std::string& where) {
  message.as_object("chat request: " + where);
  const json::Value* calls = message.find("tool_calls");
  if (calls == nullptr || !calls->is_array()) return message;
  json::Array parsed;
  for (const json::Value& call : calls->as_array(where)) {
    parsed.push_back(parsed_call(call, fmt::format("{}.tool_calls[{}]", where, parsed.size())));
  }
  return with_member(message, "tool_calls", json::Value(std::move(parsed)));
}

}  // namespace

json::Value with_parsed_arguments(const json::Value& messages) {
  json::Array out;
  for (const json::Value& message : messages.as_array("chat request: messages")) {
    out.push_back(parsed_message(message, fmt::format("messages[{}]", out.size())));
  }
  if (out.empty()) fail("chat request: messages is empty, expected at least one message");
  return json::Value(std::move(out));
}

}  // namespace ft::text
