// One tool call of a reply, from the pieces between its marks.
#pragma once

#include "text/reply_markup.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ft::text {

/// A stretch of a reply: a mark, or text between two marks. Adjacent texts are one piece.
struct ReplyPiece {
  std::optional<ReplyMark> mark;
  std::string text;  // the mark's own text, if it is one
};

struct ToolCall {
  std::string name;
  std::vector<std::pair<std::string, std::string>> arguments;  // key and value as written
};

struct ToolCallReading {
  std::optional<ToolCall> call;
  /// If there is no call: the piece, a `<tool_call>`, that the model began anew with.
  std::optional<std::size_t> restart;
};

/// Reads `<tool_call>name`, then `<arg_key>key</arg_key><arg_value>value</arg_value>` per argument,
/// `</tool_call>`. Name and keys are trimmed and not empty, no key comes twice, values are
/// verbatim. Between an argument's marks only white space, or a literal \n, may stand. A value ends
/// at the last `</arg_value>` before the next `<arg_key>` or `</tool_call>`: marks but these two
/// are its text. Anything else is no call. `pieces` begins with kCall and has its only kEndCall at
/// the end. O(pieces).
ToolCallReading read_tool_call(std::span<const ReplyPiece> pieces);

}  // namespace ft::text
