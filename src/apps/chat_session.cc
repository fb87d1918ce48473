#include "apps/chat_session.h"

#include "base/error.h"
#include "io/file.h"
#include "io/output_file.h"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr std::size_t kMaxChatBytes = std::size_t{64} << 20;

bool is_for_the_user(ErrorCode code) {
  return code != ErrorCode::kInternal;
}
bool is_for_the_user(foretoken::ErrorCode code) {
  return code != foretoken::ErrorCode::kInternal;
}

}  // namespace

ChatSession::ChatSession(ChatHands hands,
                         ChatSettings settings,
                         std::string system,
                         std::string model_name)
    : hands_(std::move(hands)), settings_(std::move(settings)), model_name_(std::move(model_name)) {
  conversation_.set_system(std::move(system));
}

bool ChatSession::handle(ChatInput input) {
  const auto complain = [this](std::string_view what) {
    has_failed_ = true;
    hands_.complain(what);
  };
  try {
    return dispatch(std::move(input));
  } catch (const Error& error) {
    if (!is_for_the_user(error.code())) throw;
    complain(error.what());
  } catch (const foretoken::Error& error) {
    if (!is_for_the_user(error.code())) throw;
    complain(error.what());
  }
  return true;
}

bool ChatSession::dispatch(ChatInput input) {
  if (const std::optional<ChatCommand> command = parse_command(input)) return run(*command);
  std::string message = message_of(std::move(input));
  if (message.find_first_not_of(" \t\r\n") == std::string::npos) return true;
  conversation_.add({ChatMessage::Role::kUser, std::move(message), {}});
  try {
    answer();
  } catch (...) {
    conversation_.drop_last();  // as if it had not been said: it can be said again
    throw;
  }
  return true;
}

void ChatSession::answer() {
  ChatReply reply = hands_.reply(conversation_, settings_.options());
  statistics_ = std::move(reply.statistics);
  conversation_.add(
      {ChatMessage::Role::kAssistant, std::move(reply.content), std::move(reply.reasoning)});
}

bool ChatSession::run(const ChatCommand& command) {
  switch (command.verb) {
    case ChatVerb::kHelp:
      hands_.say(chat_help());
      return true;
    case ChatVerb::kSet:
      set(command.argument);
      return true;
    case ChatVerb::kStats:
      if (statistics_.empty()) fail("/stats: there was no reply yet");
      hands_.say(statistics_);
      return true;
    case ChatVerb::kSave:
      save(command.argument);
      return true;
    case ChatVerb::kLoad:
      load(command.argument);
      return true;
    case ChatVerb::kRegen:
      regenerate();
      return true;
    case ChatVerb::kClear:
      conversation_.clear();
      return true;
    case ChatVerb::kSystem:
      conversation_.set_system(command.argument);
      return true;
    case ChatVerb::kQuit:
      return false;
  }
  return true;
}

void ChatSession::set(const std::string& argument) {
  if (argument.empty()) {
    hands_.say(settings_.text());
    return;
  }
  const std::size_t key_end = argument.find_first_of(" \t\n");
  const std::string key = argument.substr(0, key_end);
  const std::size_t value_start = argument.find_first_not_of(" \t\n", key_end);
  if (key_end == std::string::npos || value_start == std::string::npos) {
    fail("/set {} needs a value; /set alone lists the settings", in_quotes(key));
  }
  settings_.set(key, argument.substr(value_start));
}

void ChatSession::save(const std::string& file) {
  io::write_atomically(
      file, conversation_.request_json(settings_.options().is_thinking(), model_name_) + "\n");
  hands_.say(
      fmt::format("saved {} messages to {}\n", conversation_.messages().size(), in_quotes(file)));
}

void ChatSession::load(const std::string& file) {
  LoadedChat loaded = parse_chat(io::read_text(file, kMaxChatBytes), in_quotes(file));
  if (loaded.enable_thinking) settings_.set("thinking", *loaded.enable_thinking ? "on" : "off");
  conversation_ = std::move(loaded.conversation);
  hands_.say(fmt::format(
      "loaded {} messages from {}\n", conversation_.messages().size(), in_quotes(file)));
}

void ChatSession::regenerate() {
  const Conversation before = conversation_;
  if (!conversation_.messages().empty() && !conversation_.awaits_reply()) conversation_.drop_last();
  if (!conversation_.awaits_reply()) {
    conversation_ = before;
    fail("/regen: there is no message to answer");
  }
  try {
    answer();
  } catch (...) {
    conversation_ = before;
    throw;
  }
}

}  // namespace ft::apps
