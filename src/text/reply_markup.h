// The tokens that structure a reply of GLM's dialect, by the ids they have in one vocabulary.
// Markup is recognised by id alone: the same characters spelled with other tokens are text.
#pragma once

#include "base/types.h"
#include "text/tokenizer.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ft::text {

enum class ReplyMark : std::uint8_t {
  kThink,
  kEndThink,
  kCall,
  kEndCall,
  kKey,
  kEndKey,
  kValue,
  kEndValue,
};

/// Immutable; safe to share between threads.
class ReplyMarkup {
 public:
  /// Looks `<think>`, `<tool_call>`, `<arg_key>`, `<arg_value>`, their ends and the role markers
  /// up. A vocabulary without the pair of `think`, or without one of the six marks of calls, has no
  /// reasoning, or no calls.
  explicit ReplyMarkup(const Tokenizer& tokenizer);

  std::optional<ReplyMark> find(Token id) const noexcept;
  /// The end of a rendered prompt that belongs to the reply: from the last mark of `think` behind
  /// the last role marker; without such a mark, what follows the role marker; without either,
  /// nothing.
  TokenSpan opened_reply(TokenSpan prompt) const noexcept;

 private:
  static constexpr std::size_t kMarks = 8;
  bool is_role(Token id) const noexcept;

  std::array<Token, kMarks> marks_{};  // by ReplyMark; -1 where there is none
  std::array<Token, 4> roles_{};
};

}  // namespace ft::text
