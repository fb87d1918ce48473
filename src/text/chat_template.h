// The checkpoint's own Jinja chat template, rendered with Hugging Face's settings (trim_blocks,
// lstrip_blocks).
#pragma once

#include "json/json.h"
#include "text/tokenizer.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ft::text {

class ChatTemplate {
 public:
  /// `trusted_variables` is an object (or null) of variables that belong to the checkpoint, e.g.
  /// bos_token and eos_token of tokenizer_config.json: every render sees them, their text counts as
  /// the template's own, and a request cannot replace them. Throws InvalidInput with line number
  /// for a syntax error or a construct the engine does not know.
  static ChatTemplate compile(std::string_view source, const json::Value& trusted_variables = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// Renders a request: an object whose members become the template's variables (messages, tools,
  /// enable_thinking, reasoning_effort, clear_thinking, documents, ... as in Hugging Face's
  /// apply_chat_template). add_generation_prompt is set to true if absent. `tools` absent or null
  /// is undefined. Arguments of tool calls become objects first (tool_arguments.h). Text that comes
  /// from the template is trusted, text that comes from the request is not, whatever the template
  /// did with it (concatenation, strip, split, replace keep the mark). Adjacent segments differ in
  /// trust. Const calls may run in parallel. Throws InvalidInput for raise_exception, a missing or
  /// wrong `messages`, an operation on a wrong type, or when the render takes more than a bounded
  /// number of steps or output bytes.
  std::vector<TextSegment> render(const json::Value& request) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace ft::text
