#include "text/jinja/token_stream.h"

#include "text/jinja/syntax_error.h"

namespace ft::text::jinja {

const Token& TokenStream::take() {
  const Token& token = current();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool TokenStream::take_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool TokenStream::take_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

const Token& TokenStream::expect(TokenType type, std::string_view description) {
  if (!is(type)) fail_unexpected(description);
  return take();
}

void TokenStream::expect_operator(std::string_view text) {
  if (!take_operator(text)) fail_unexpected(fmt::format("'{}'", text));
}

void TokenStream::expect_name(std::string_view text) {
  if (!take_name(text)) fail_unexpected(fmt::format("'{}'", text));
}

void TokenStream::fail_unexpected(std::string_view expected) const {
  fail_syntax(line(), "unexpected {}, expected {}", describe(current()), expected);
}

}  // namespace ft::text::jinja
