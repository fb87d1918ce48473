#include "text/chat_template.h"

#include "base/error.h"
#include "text/jinja/template.h"

#include <optional>
#include <utility>

namespace ft::text {
namespace {

/// The object with `key` set to `value`, at its old place if it has one.
json::Value with_member(const json::Value& object, std::string_view key, json::Value value) {
  json::Object members = object.as_object("chat request");
  for (auto& [name, member] : members) {
    if (name == key) {
      member = std::move(value);
      return json::Value(std::move(members));
    }
  }
  members.emplace_back(key, std::move(value));
  return json::Value(std::move(members));
}

/// A function call with its arguments parsed; nullopt if they are no JSON text.
std::optional<json::Value> with_parsed_arguments(const json::Value& function,
                                                 const std::string& where) {
  const json::Value* arguments = function.find("arguments");
  if (arguments == nullptr || !arguments->is_string()) return std::nullopt;
  const std::string what = where + ".arguments";
  const std::string& text = arguments->as_string(what);
  const bool is_empty = text.find_first_not_of(" \t\r\n") == std::string::npos;
  return with_member(
      function, "arguments", is_empty ? json::Value(json::Object{}) : json::parse(text, what));
}

json::Value with_parsed_call(const json::Value& call, const std::string& where) {
  if (const json::Value* function = call.find("function")) {
    const auto parsed = with_parsed_arguments(*function, where + ".function");
    return parsed ? with_member(call, "function", *parsed) : call;
  }
  return with_parsed_arguments(call, where).value_or(call);
}

json::Value with_parsed_calls(const json::Value& message, const std::string& where) {
  const json::Value* calls = message.find("tool_calls");
  if (calls == nullptr || !calls->is_array()) return message;
  json::Array parsed;
  for (const json::Value& call : calls->as_array(where)) {
    parsed.push_back(
        with_parsed_call(call, fmt::format("{}.tool_calls[{}]", where, parsed.size())));
  }
  return with_member(message, "tool_calls", json::Value(std::move(parsed)));
}

json::Value prepared_messages(const json::Value& messages) {
  json::Array out;
  for (const json::Value& message : messages.as_array("chat request: messages")) {
    const std::string where = fmt::format("messages[{}]", out.size());
    message.as_object("chat request: " + where);
    out.push_back(with_parsed_calls(message, where));
  }
  if (out.empty()) fail("chat request: messages is empty, expected at least one message");
  return json::Value(std::move(out));
}

json::Value prepared_request(const json::Value& request) {
  const json::Value* messages = request.find("messages");
  json::Object out;
  for (const auto& [name, value] : request.as_object("chat request")) {
    if (name == "messages" || (name == "tools" && value.is_null())) continue;
    out.emplace_back(name, value);
  }
  if (messages == nullptr) fail("chat request: messages is missing, expected an array of messages");
  out.emplace_back("messages", prepared_messages(*messages));
  if (request.find("add_generation_prompt") == nullptr) {
    out.emplace_back("add_generation_prompt", json::Value(true));
  }
  return json::Value(std::move(out));
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Template compiled;
  json::Value trusted_variables;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatTemplate ChatTemplate::compile(std::string_view source, const json::Value& trusted_variables) {
  if (!trusted_variables.is_null()) trusted_variables.as_object("chat template variables");
  return ChatTemplate(
      std::make_unique<const Impl>(Impl{jinja::Template::compile(source), trusted_variables}));
}

std::vector<TextSegment> ChatTemplate::render(const json::Value& request) const {
  return impl_->compiled.render(prepared_request(request), impl_->trusted_variables).segments();
}

}  // namespace ft::text
