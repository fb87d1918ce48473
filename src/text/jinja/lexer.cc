#include "text/jinja/lexer.h"

#include "text/jinja/literal.h"
#include "text/jinja/syntax_error.h"
#include "text/jinja/unicode.h"
#include "text/utf8.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace ft::text::jinja {
namespace {

// Published templates stay below 50 kB.
constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;

/// "\r\n" and "\r" become "\n"; one newline at the end is dropped.
std::string with_plain_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out.push_back('\n');
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) read_outside();
    add(TokenType::kEnd);
    return std::move(tokens_);
  }

 private:
  struct Opening {
    std::size_t end = 0;  // first byte behind it
    char sign = 0;        // '-', '+' or 0
    bool is_raw = false;
  };

  std::string_view at(std::size_t position) const { return rest_.substr(position); }
  bool has(std::size_t position, std::string_view text) const {
    return rest_.substr(std::min(position, rest_.size()), text.size()) == text;
  }
  std::size_t skip_white(std::size_t position) const {
    return position + skip_spaces(at(position));
  }

  void add(TokenType type, std::string text = {}) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  /// Moves on and counts lines.
  void advance_to(std::size_t position) {
    line_ += static_cast<std::uint32_t>(
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(position_),
                   source_.begin() + static_cast<std::ptrdiff_t>(position),
                   '\n'));
    is_line_start_ = position > position_ ? source_[position - 1] == '\n' : is_line_start_;
    position_ = position;
  }

  char sign_at(std::size_t position) const {
    return has(position, "-") || has(position, "+") ? source_[position] : '\0';
  }

  /// End of `keyword` with white space around it at `position`, if it is there.
  std::optional<std::size_t> skip_keyword(std::size_t position, std::string_view keyword) const {
    position = skip_white(position);
    if (!has(position, keyword)) return std::nullopt;
    return skip_white(position + keyword.size());
  }

  /// End of the tag's closing at `position`. `trims` says whether a newline behind a plain one
  /// belongs to it.
  std::optional<std::size_t> close_tag(std::size_t position, bool allows_plus, bool trims) const {
    if (has(position, "-%}")) return skip_white(position + 3);
    if (allows_plus && has(position, "+%}")) return position + 3;
    if (!has(position, "%}")) return std::nullopt;
    return position + (trims && has(position + 2, "\n") ? 3 : 2);
  }

  Opening read_opening(std::size_t position) const {
    Opening opening;
    opening.sign = sign_at(position + 2);
    opening.end = position + 2 + (opening.sign != 0 ? 1 : 0);
    if (source_[position + 1] == '%') {
      if (const auto inside = skip_keyword(opening.end, "raw")) {
        if (const auto end = close_tag(*inside, false, false)) {
          opening.end = *end;
          opening.is_raw = true;
        }
      }
    }
    return opening;
  }

  /// Adds the text [position_, end) that stands before an opening, stripped as its sign and kind
  /// demand.
  void add_text(std::size_t end, char sign, bool is_print) {
    std::string_view text = at(position_).substr(0, end - position_);
    if (sign == '-') {
      text = text.substr(0, end_without_spaces(text));
    } else if (sign != '+' && !is_print) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      const std::string_view indent = text.substr(line_begin);
      if ((line_begin > 0 || is_line_start_) && skip_spaces(indent) == indent.size()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) add(TokenType::kText, std::string(text));
  }

  void read_outside() {
    std::size_t begin = position_;
    for (;; ++begin) {
      begin = source_.find('{', begin);
      if (begin == std::string::npos) {
        add(TokenType::kText, source_.substr(position_));
        return advance_to(source_.size());
      }
      if (has(begin + 1, "{") || has(begin + 1, "%") || has(begin + 1, "#")) break;
    }
    const Opening opening = read_opening(begin);
    const char kind = source_[begin + 1];
    add_text(begin, opening.sign, kind == '{');
    advance_to(begin);
    const std::uint32_t opening_line = line_;
    if (opening.is_raw) {
      advance_to(opening.end);
      return read_raw(opening_line);
    }
    if (kind != '#') add(kind == '{' ? TokenType::kPrintBegin : TokenType::kTagBegin);
    advance_to(opening.end);
    if (kind == '#') return read_comment(opening_line);
    read_tag(kind == '{', opening_line);
  }

  void read_comment(std::uint32_t opening_line) {
    // Jinja does not miss the end of a comment or raw block that has no text at all.
    if (position_ == source_.size()) return;
    const std::size_t close = source_.find("#}", position_);
    if (close == std::string::npos) fail_syntax(opening_line, "a comment is not closed by '#}}'");
    const char sign = close > position_ ? source_[close - 1] : '\0';
    std::size_t end = close + 2;
    if (sign == '-') {
      end = skip_white(end);
    } else if (sign != '+' && has(end, "\n")) {
      ++end;
    }
    advance_to(end);
  }

  void read_raw(std::uint32_t opening_line) {
    if (position_ == source_.size()) return;
    for (std::size_t begin = position_;; ++begin) {
      begin = source_.find("{%", begin);
      if (begin == std::string::npos) {
        fail_syntax(opening_line, "a raw block is not closed by '{{% endraw %}}'");
      }
      const char sign = sign_at(begin + 2);
      const auto inside = skip_keyword(begin + 2 + (sign != 0 ? 1 : 0), "endraw");
      if (!inside) continue;
      const auto end = close_tag(*inside, true, true);
      if (!end) continue;
      add_text(begin, sign, false);
      return advance_to(*end);
    }
  }

  std::optional<std::size_t> close_at(bool is_print) const {
    if (!is_print) return close_tag(position_, true, true);
    if (has(position_, "-}}")) return skip_white(position_ + 3);
    if (has(position_, "}}")) return position_ + 2;
    return std::nullopt;
  }

  void read_tag(bool is_print, std::uint32_t opening_line) {
    open_brackets_.clear();
    for (;;) {
      if (position_ == source_.size()) {
        fail_syntax(opening_line, "a '{}' is not closed", is_print ? "{{" : "{%");
      }
      // Inside brackets, "}}" closes brackets and "%}" is no end.
      if (open_brackets_.empty()) {
        if (const auto end = close_at(is_print)) {
          add(is_print ? TokenType::kPrintEnd : TokenType::kTagEnd);
          return advance_to(*end);
        }
      }
      const std::size_t token = skip_white(position_);
      if (token != position_) {
        advance_to(token);
      } else {
        read_token();
      }
    }
  }

  void read_token() {
    const char c = source_[position_];
    if (c >= '0' && c <= '9') return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    if (is_word(decode_character(source_, position_).code)) return read_name();
    read_operator();
  }

  void read_number() {
    const bool follows_dot = position_ > 0 && source_[position_ - 1] == '.';
    const NumberLiteral number = read_number_literal(at(position_), !follows_dot, line_);
    add(number.is_real ? TokenType::kReal : TokenType::kInteger);
    tokens_.back().integer = number.integer;
    tokens_.back().real = number.real;
    advance_to(position_ + number.n_bytes);
  }

  void read_name() {
    std::size_t end = position_;
    while (end < source_.size()) {
      const Character c = decode_character(source_, end);
      if (!is_word(c.code)) break;
      end += c.n_bytes;
    }
    const char32_t first = decode_character(source_, position_).code;
    if (first != '_' && !is_letter(first)) {
      fail_syntax(line_, "'{}' is no name", source_.substr(position_, end - position_));
    }
    add(TokenType::kName, source_.substr(position_, end - position_));
    advance_to(end);
  }

  void read_string(char quote) {
    std::size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_syntax(line_, "a string is not closed by {}", quote);
    add(TokenType::kString, unescape(at(position_ + 1).substr(0, end - position_ - 1), line_));
    advance_to(end + 1);
  }

  void read_operator() {
    constexpr std::array<std::string_view, 26> operators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* const found = std::find_if(
        operators.begin(), operators.end(), [this](auto op) { return has(position_, op); });
    if (found == operators.end()) {
      const std::size_t n = decode_character(source_, position_).n_bytes;
      fail_syntax(line_, "unexpected character '{}'", source_.substr(position_, n));
    }
    balance((*found)[0]);
    add(TokenType::kOperator, std::string(*found));
    advance_to(position_ + found->size());
  }

  void balance(char bracket) {
    constexpr std::string_view opening = "([{";
    constexpr std::string_view closing = ")]}";
    const std::size_t opens = opening.find(bracket);
    if (opens != std::string_view::npos) return open_brackets_.push_back(closing[opens]);
    if (closing.find(bracket) == std::string_view::npos) return;
    if (open_brackets_.empty()) fail_syntax(line_, "unexpected '{}'", bracket);
    if (open_brackets_.back() != bracket) {
      fail_syntax(line_, "unexpected '{}', expected '{}'", bracket, open_brackets_.back());
    }
    open_brackets_.pop_back();
  }

  std::string source_;
  std::string_view rest_;  // all of source_, for cheap pieces
  std::size_t position_ = 0;
  std::uint32_t line_ = 1;
  bool is_line_start_ = true;  // the text at position_ begins a line of the source
  std::string open_brackets_;  // their closing counterparts
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    fail("chat template: {} bytes, at most {} are supported", source.size(), kMaxSourceBytes);
  }
  if (!is_valid_utf8(source)) fail("chat template: the text is not valid UTF-8");
  return Lexer(with_plain_newlines(source)).run();
}

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kText:
      return "text";
    case TokenType::kPrintBegin:
      return "'{{'";
    case TokenType::kPrintEnd:
      return "'}}'";
    case TokenType::kTagBegin:
      return "'{%'";
    case TokenType::kTagEnd:
      return "'%}'";
    case TokenType::kName:
    case TokenType::kOperator:
      return "'" + token.text + "'";
    case TokenType::kString:
      return "a string";
    case TokenType::kInteger:
    case TokenType::kReal:
      return "a number";
    case TokenType::kEnd:
      return "the end of the template";
  }
  return "a token";
}

}  // namespace ft::text::jinja
