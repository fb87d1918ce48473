// A chat reply in its parts, while it is generated: reasoning, content and tool calls.
//
//   foretoken::ReplyParser parser = engine.tokenizer().reply_parser(prompt.ids, tools_json);
//   while (auto event = stream.next())
//     if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event))
//       show(parser.push(*tokens));
//   show(parser.finish());
#pragma once

#include "foretoken/result.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace foretoken {

/// What became known of a reply. Texts of one kind (and one call) are to be concatenated.
struct ReplyDelta {
  enum class Kind {
    kReasoning,
    kContent,
    kToolName,       ///< a call begins; its whole name
    kToolArguments,  ///< a part of the call's arguments, one JSON object in all
  };
  Kind kind = Kind::kContent;
  std::string text;
  std::size_t call_index = 0;  // of the two kinds of calls: 0, 1, ... in the order of the reply
};

/// Made by Tokenizer::reply_parser(). The concatenated deltas are a function of the tokens and the
/// text alone, not of how the two were cut into events.
class ReplyParser {
 public:
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;
  ReplyParser(const ReplyParser&) = delete;
  ReplyParser& operator=(const ReplyParser&) = delete;

  std::vector<ReplyDelta> push(const CommittedTokens& tokens);
  /// What was held back, once the stream is at its end: a call that was not ended, as content.
  /// Afterwards the object is spent.
  std::vector<ReplyDelta> finish();

  /// Calls that were given out.
  std::size_t n_calls() const noexcept;
  /// Tokens pushed that belong to reasoning, its beginning included, its end not.
  std::size_t n_reasoning_tokens() const noexcept;

 private:
  friend class Tokenizer;
  struct Impl;
  explicit ReplyParser(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace foretoken
