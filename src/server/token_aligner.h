// Which tokens a text is made of, where a reply's texts are less than its tokens: marks, calls and
// dropped white space have tokens too.
#pragma once

#include "foretoken/result.h"
#include "server/dialect.h"

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// Both sides come in the order of the reply, texts never ahead of their tokens. What is found does
/// not depend on how the two were cut.
class TokenAligner {
 public:
  explicit TokenAligner(TokenText token_text) : token_text_(std::move(token_text)) {}

  void push(std::span<const foretoken::TokenLogprobs> tokens);
  /// The tokens all of whose text came with this and the texts before; those between that have no
  /// text are dropped.
  std::vector<foretoken::TokenLogprobs> take(std::string_view text);
  /// What is left of the texts so far belongs to no token.
  void end_text() noexcept { text_.clear(); }

 private:
  struct Pending {
    foretoken::TokenLogprobs token;
    std::string bytes;
  };

  const TokenText token_text_;
  std::deque<Pending> pending_;
  std::string text_;  // without the tokens that were found
};

}  // namespace ft::server
