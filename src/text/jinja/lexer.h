// Template source to tokens, with the white space rules of Jinja 3 under trim_blocks and
// lstrip_blocks: the newline behind a tag or comment and the blanks before one at the start of a
// line are dropped, '-' drops all white space on its side, '+' none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft::text::jinja {

enum class TokenType : std::uint8_t {
  kText,        // outside of tags
  kPrintBegin,  // {{
  kPrintEnd,
  kTagBegin,  // {%
  kTagEnd,
  kName,
  kString,  // text: its value
  kInteger,
  kReal,
  kOperator,  // text: + - * / // % ** ~ [ ] ( ) { } == != > >= < <= = . : | , ;
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::uint32_t line = 1;
  std::string text;
  std::int64_t integer = 0;
  double real = 0;
};

/// Throws InvalidInput with the line for text that is no UTF-8 or longer than a megabyte, for an
/// unclosed comment or raw block, an unknown character, unbalanced brackets, a malformed string, an
/// integer beyond 64 bits. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

/// What to call a token in a message.
std::string describe(const Token& token);

}  // namespace ft::text::jinja
