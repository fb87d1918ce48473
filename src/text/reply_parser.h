// Splits a generated reply of GLM's dialect into reasoning, content and tool calls, while it is
// generated. Called by whoever serves chats; committed tokens only.
#pragma once

#include "base/types.h"
#include "text/detokenizer.h"
#include "text/reply_markup.h"
#include "text/tool_call.h"
#include "text/tool_schemas.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::text {

/// What became known of a reply. Texts of one kind (and one call) are to be concatenated.
struct ReplyDelta {
  enum class Kind : std::uint8_t {
    kReasoning,
    kContent,
    kToolName,       ///< a call begins; its whole name
    kToolArguments,  ///< a part of the call's arguments, one JSON object in all
  };
  Kind kind = Kind::kContent;
  std::string text;
  std::size_t call_index = 0;  // of the two kinds of calls: 0, 1, ... in the order of the reply
  bool operator==(const ReplyDelta&) const = default;
};

/// Where a reply starts is read off the end of the rendered prompt, not off flags: behind an open
/// `<think>` it starts with reasoning, else with content. The first `</think>` ends reasoning;
/// whatever stands before it is reasoning, calls included. A `<think>` that only white space
/// precedes begins reasoning (or repeats its beginning); such a `</think>` says nothing. Any other
/// of these two marks in content is text. White space alone between reasoning, calls and the
/// end is dropped.
///
/// A call appears when its `</tool_call>` does: before that it can still turn out to be none. What
/// is no call (see read_tool_call(); a name that is neither a tool's nor looks like one's, too), or
/// is not ended, is content, with its marks as text. Values become JSON by the tool's schema.
///
/// The concatenated deltas are a function of the tokens and the text alone, not of how the two were
/// cut into pushes.
class ReplyParser {
 public:
  /// `tokenizer` and `markup` must outlive this object. `prompt`: what the reply follows; a call
  /// that its end opened belongs to the reply. `tools`: nullopt if the request has none; then marks
  /// of calls are text.
  ReplyParser(const Tokenizer& tokenizer,
              const ReplyMarkup& markup,
              TokenSpan prompt,
              std::optional<ToolSchemas> tools);

  /// Committed tokens, and the text that became final with them, as Detokenizer gives it: never
  /// ahead of the tokens, behind them where a stop string or half a character is held back.
  /// O(bytes).
  std::vector<ReplyDelta> push(TokenSpan ids, std::string_view text);
  /// What was held back, once all text was pushed. Afterwards the object is spent.
  std::vector<ReplyDelta> finish();

  /// Calls that were given out.
  std::size_t n_calls() const noexcept { return n_calls_; }
  /// Tokens pushed that belong to reasoning, `<think>` included, `</think>` not.
  std::size_t n_reasoning_tokens() const noexcept;

 private:
  enum class Section : std::uint8_t { kReasoning, kContent, kCall };
  /// A mark among the tokens whose text has not all come yet.
  struct PendingMark {
    ReplyMark mark;
    Token id;
    std::size_t begin;  // place of its text in the reply's text; special marks have none
    std::size_t end;
    std::size_t n_ids_before;
  };

  void replay(TokenSpan opened_reply);
  void take_text(std::string_view text);
  void on_text(std::string_view text);
  void on_mark(const PendingMark& pending);
  bool is_structure(ReplyMark mark) const noexcept;
  void enter(Section section, std::size_t n_ids_before);
  void end_call();
  void emit_call(const ToolCall& call);
  void emit_pieces(std::size_t begin, std::size_t end);
  void emit(ReplyDelta::Kind kind, std::string_view text);
  bool is_name(std::string_view name) const noexcept;

  const Tokenizer* tokenizer_;
  const ReplyMarkup* markup_;
  std::optional<ToolSchemas> tools_;
  std::optional<Detokenizer> expected_;  // tells how much text each token will have

  std::deque<PendingMark> pending_marks_;
  std::size_t n_ids_ = 0;
  std::size_t n_expected_ = 0;  // bytes of text that the tokens so far have
  std::size_t n_taken_ = 0;     // of these, how many came

  Section section_ = Section::kContent;
  bool is_blank_ = true;            // nothing but white space in this section so far
  std::string blank_;               // that white space
  std::vector<ReplyPiece> pieces_;  // of the open call
  std::size_t n_calls_ = 0;
  std::size_t n_reasoning_tokens_ = 0;  // of reasoning that ended
  std::size_t reasoning_begin_ = 0;     // tokens before the reasoning that is open
  bool is_reply_blank_ = true;          // nothing was given out
  std::vector<ReplyDelta> deltas_;      // of this push
};

}  // namespace ft::text
