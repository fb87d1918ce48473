// The parser's view of the tokens: what comes now, what comes next.
#pragma once

#include "text/jinja/lexer.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& following() const {
    return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_];
  }
  std::uint32_t line() const { return current().line; }

  bool is(TokenType type) const { return current().type == type; }
  bool is_operator(std::string_view text) const {
    return is(TokenType::kOperator) && current().text == text;
  }
  bool is_name(std::string_view text) const {
    return is(TokenType::kName) && current().text == text;
  }

  /// The current token, and moves on. Never moves past the end.
  const Token& take();
  bool take_operator(std::string_view text);  // only if it is current
  bool take_name(std::string_view text);

  // The same for a token that must be there; throws InvalidInput otherwise.
  const Token& expect(TokenType type, std::string_view description);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  /// Throws InvalidInput: the current token is not what the grammar wants here.
  [[noreturn]] void fail_unexpected(std::string_view expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
};

}  // namespace ft::text::jinja
