// The logic of a chat: what each input does to conversation and settings. Who generates and who
// shows are handed in, so it runs without a model and without a terminal.
#pragma once

#include "apps/chat_input.h"
#include "apps/chat_settings.h"
#include "apps/conversation.h"

#include <functional>
#include <string>
#include <string_view>

namespace ft::apps {

struct ChatReply {
  std::string reasoning;
  std::string content;
  std::string statistics;  // lines for /stats
};

struct ChatHands {
  /// Generates the reply to a conversation that awaits one, showing it meanwhile.
  std::function<ChatReply(const Conversation&, const ChatOptions&)> reply;
  /// Lines for a person; may hold any bytes.
  std::function<void(std::string_view)> say;
  /// One line about what went wrong.
  std::function<void(std::string_view)> complain;
};

class ChatSession {
 public:
  /// model_name: for the files of /save.
  ChatSession(ChatHands hands, ChatSettings settings, std::string system, std::string model_name);

  /// Does what an input asks for. Returns whether the chat goes on. What a user can mend is
  /// complained about and changes nothing; programmer's errors are thrown.
  bool handle(ChatInput input);
  /// Whether there was something to complain about.
  bool has_failed() const noexcept { return has_failed_; }
  const Conversation& conversation() const noexcept { return conversation_; }
  const ChatSettings& settings() const noexcept { return settings_; }

 private:
  bool dispatch(ChatInput input);
  bool run(const ChatCommand& command);
  void answer();
  void set(const std::string& argument);
  void save(const std::string& file);
  void load(const std::string& file);
  void regenerate();

  ChatHands hands_;
  ChatSettings settings_;
  Conversation conversation_;
  std::string model_name_;
  std::string statistics_;
  bool has_failed_ = false;
};

}  // namespace ft::apps
