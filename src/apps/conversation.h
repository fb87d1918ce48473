// What was said in a chat: the messages that the model's template renders, and their file. Knows no
// terminal and no engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::apps {

struct ChatMessage {
  enum class Role : std::uint8_t { kUser, kAssistant };
  Role role = Role::kUser;
  std::string content;
  std::string
      reasoning;  // of the assistant; which of it the model sees again is the template's choice
};

/// Messages in order, behind an optional system message.
class Conversation {
 public:
  /// Empty text: no system message.
  void set_system(std::string text) { system_ = std::move(text); }
  const std::string& system() const noexcept { return system_; }
  const std::vector<ChatMessage>& messages() const noexcept { return messages_; }

  void add(ChatMessage message) { messages_.push_back(std::move(message)); }
  /// Takes the last message back. Precondition: there is one.
  void drop_last() { messages_.pop_back(); }
  /// Whether the last message is the user's, so that a reply can follow.
  bool awaits_reply() const noexcept;
  /// Forgets the messages; the system message stays.
  void clear() noexcept { messages_.clear(); }

  /// A chat request, as Tokenizer::encode_chat() and `tokenize --chat-json` take it. With a `model`
  /// it is named, for whoever reads the file.
  std::string request_json(bool enable_thinking, std::string_view model = {}) const;

 private:
  std::string system_;
  std::vector<ChatMessage> messages_;
};

struct LoadedChat {
  Conversation conversation;
  std::optional<bool> enable_thinking;  // unset: the file does not say
};

/// Reads a chat request whose messages are text of system (the first alone), user and assistant.
/// Throws InvalidInput naming `what` and the message that is something else.
LoadedChat parse_chat(std::string_view json_text, std::string_view what);

}  // namespace ft::apps
