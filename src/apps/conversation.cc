#include "apps/conversation.h"

#include "base/error.h"
#include "json/json.h"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace ft::apps {
namespace {

void write_message(json::Writer& out,
                   std::string_view role,
                   std::string_view content,
                   std::string_view reasoning = {}) {
  out.begin_object().member("role", role).member("content", content);
  if (!reasoning.empty()) out.member("reasoning_content", reasoning);
  out.end_object();
}

// The text of a member that may be absent or null.
std::string text_of(const json::Value& message, std::string_view name, const std::string& where) {
  const json::Value* value = message.find(name);
  if (value == nullptr || value->is_null()) return {};
  return value->as_string(fmt::format("{}.{}", where, name));
}

// What the conversation would lose silently is refused.
void refuse_unknown_members(const json::Value& message, const std::string& where) {
  for (const auto& [name, value] : message.as_object(where)) {
    if (name != "role" && name != "content" && name != "reasoning_content") {
      fail("{} has {}, expected role, content and reasoning_content alone", where, in_quotes(name));
    }
  }
}

}  // namespace

bool Conversation::awaits_reply() const noexcept {
  return !messages_.empty() && messages_.back().role == ChatMessage::Role::kUser;
}

std::string Conversation::request_json(bool enable_thinking, std::string_view model) const {
  json::Writer out;
  out.begin_object();
  if (!model.empty()) out.member("model", model);
  out.member("enable_thinking", enable_thinking);
  out.key("messages").begin_array();
  if (!system_.empty()) write_message(out, "system", system_);
  for (const ChatMessage& message : messages_) {
    const bool is_user = message.role == ChatMessage::Role::kUser;
    write_message(out, is_user ? "user" : "assistant", message.content, message.reasoning);
  }
  out.end_array().end_object();
  return out.text();
}

LoadedChat parse_chat(std::string_view json_text, std::string_view what) {
  const json::Value root = json::parse(json_text, what);
  const json::Value* messages = root.find("messages");
  if (messages == nullptr) fail("{}: no messages, expected a chat that /save wrote", what);
  LoadedChat out;
  if (const json::Value* thinking = root.find("enable_thinking")) {
    out.enable_thinking = thinking->as_bool(fmt::format("{}: enable_thinking", what));
  }
  std::size_t index = 0;
  for (const json::Value& message : messages->as_array(fmt::format("{}: messages", what))) {
    const std::string where = fmt::format("{}: message {}", what, index);
    refuse_unknown_members(message, where);
    const std::string role = text_of(message, "role", where);
    std::string content = text_of(message, "content", where);
    std::string reasoning = text_of(message, "reasoning_content", where);
    if (role != "assistant" && !reasoning.empty()) {
      fail("{} is {}'s and has reasoning_content, expected it in assistant's alone",
           where,
           in_quotes(role));
    }
    if (role == "system" && index == 0) {
      out.conversation.set_system(std::move(content));
    } else if (role == "user") {
      out.conversation.add({ChatMessage::Role::kUser, std::move(content), {}});
    } else if (role == "assistant") {
      out.conversation.add(
          {ChatMessage::Role::kAssistant, std::move(content), std::move(reasoning)});
    } else {
      fail("{} has role {}, expected user or assistant, or system in the first",
           where,
           in_quotes(role));
    }
    ++index;
  }
  return out;
}

}  // namespace ft::apps
