// What /set changes: the generation and speculation options of the command line under their own
// names, with their validation, and how a chat is shown.
#pragma once

#include "apps/options.h"
#include "foretoken/foretoken.h"

#include <map>
#include <string>
#include <string_view>

namespace CLI {  // NOLINT(readability-identifier-naming): third-party name
class App;
}

namespace ft::apps {

struct ChatOptions {
  GenerationOptions generation;
  SpeculationOptions speculation;
  std::string thinking = "on";  // or "off"
  bool show_drafts = false;

  bool is_thinking() const noexcept { return thinking == "on"; }
};
/// The options of `foretoken chat` that /set knows too.
void add_chat_options(CLI::App& command, ChatOptions& options);

/// The request but for its prompt and prediction. Throws InvalidInput.
foretoken::GenerationRequest chat_request(const ChatOptions& options);

/// Throws what a request with these options would be refused with: InvalidInput.
void check_chat_options(const ChatOptions& options, const foretoken::ModelInfo& model);

class ChatSettings {
 public:
  /// `model` must outlive this object. Throws InvalidInput for options that the model refuses.
  ChatSettings(ChatOptions at_start, const foretoken::ModelInfo& model);

  const ChatOptions& options() const noexcept { return options_; }
  /// `value` "default": as at the start. Throws InvalidInput for an unknown key, and for a value
  /// that the option of this name refuses, in its words; then nothing changed.
  void set(std::string_view key, const std::string& value);
  /// One line per setting.
  std::string text() const;

 private:
  ChatOptions options_with(const std::map<std::string, std::string>& changes) const;

  ChatOptions at_start_;
  const foretoken::ModelInfo& model_;
  std::map<std::string, std::string> changes_;  // by option name
  ChatOptions options_;
};

}  // namespace ft::apps
