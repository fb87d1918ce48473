// What a client asks for, whichever API it speaks: a dialect's request comes down to this.
#pragma once

#include "foretoken/request.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ft::server {

struct RequestLimits {
  std::size_t max_choices = 16;  // n, times prompts
  std::size_t max_messages = 4096;
  std::size_t max_tools = 256;
  std::size_t max_stops = 16;
  std::size_t max_stop_bytes = 1024;
  std::size_t max_biases = 4096;
  std::size_t max_depth = 48;  // of nested JSON
  std::size_t max_top_logprobs = 20;
};

/// A prompt: text, or ids.
using PromptText = std::variant<std::string, std::vector<foretoken::Token>>;

struct TextRequest {
  std::string model;  // as the client names it; empty: not at all
  /// All but prompt and prediction.
  foretoken::GenerationRequest generation;
  std::optional<std::size_t> max_tokens;        // unset: the server's default
  std::optional<std::size_t> usual_max_tokens;  // where the server has none; unset: the context
  std::size_t n = 1;
  bool is_stream = false;
  bool includes_usage = false;   // in a stream; else it is always there
  bool includes_rounds = false;  // in a stream
  std::string prediction;
  std::string prompt_param = "messages";  // errors about the prompt name it
  // Of a chat.
  std::string chat_json;   // what the chat template renders; empty: no chat
  std::string tools_json;  // array of the tools that may be called; empty: none
  /// The text of a last message, the assistant's, with which the reply begins: the rendered prompt
  /// must end with it.
  std::string continued_text;
  // Of a completion.
  std::vector<PromptText> prompts;
  bool echoes = false;
  /// Members that a reply repeats from its request, as JSON text by name.
  std::vector<std::pair<std::string, std::string>> repeated;
};

}  // namespace ft::server
