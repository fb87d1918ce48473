#include "text/regex_pattern.h"

#include "base/error.h"
#include "text/printable.h"

#include <cctype>
#include <cstddef>

namespace ft::text {

namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_punctuation(char c) noexcept {
  return std::ispunct(static_cast<unsigned char>(c)) != 0;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) {
      switch (in_[at_]) {
        case '\\':
          escape();
          break;
        case '[':
          character_class();
          break;
        case '(':
          group();
          break;
        case '{':
          interval();
          break;
        default:
          out_ += in_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(
        "tokenizer.json: split pattern {} has {} at byte {}, which PCRE2 would read otherwise than "
        "the tokenizers "
        "library; rewrite the pattern without it",
        printable(in_),
        what,
        at_);
  }

  char peek(std::size_t ahead) const noexcept {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }

  void copy(std::size_t n) {
    out_ += in_.substr(at_, n);
    at_ += n;
  }

  void escape() {
    const char c = peek(1);
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? R"(\p{White_Space})" : R"(\P{White_Space})";
      at_ += 2;
    } else if (c == 'v') {  // one character in Ruby, a class in PCRE2
      out_ += R"(\x0b)";
      at_ += 2;
    } else if (c == 'u') {
      code_unit();
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'x' && peek(2) >= '8' &&
               std::isxdigit(static_cast<unsigned char>(peek(2))) != 0 &&
               std::isxdigit(static_cast<unsigned char>(peek(3))) != 0) {
      refuse("\\xHH above 7F without braces");  // a byte in Ruby, a character in PCRE2
    } else if (is_punctuation(c) ||
               std::string_view("rntfaexdDAzZ").find(c) != std::string_view::npos) {
      copy(2);
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      ++at_;  // the backslash changes nothing
    } else {
      refuse(
          "an escape other than \\s \\S \\d \\D \\p \\P \\r \\n \\t \\f \\v \\a \\e \\x \\u \\A "
          "\\z \\Z");
    }
  }

  /// \uHHHH
  void code_unit() {
    for (std::size_t i = 2; i < 6; ++i) {
      if (std::isxdigit(static_cast<unsigned char>(peek(i))) == 0)
        refuse("\\u without four hex digits");
    }
    out_ += R"(\x{)";
    out_ += in_.substr(at_ + 2, 4);
    out_ += '}';
    at_ += 6;
  }

  /// \p{Name}, copied whole so that its brace is no interval.
  void property() {
    const std::size_t close = in_.find('}', at_);
    if (peek(2) != '{' || close == std::string_view::npos) refuse("\\p without a name in braces");
    copy(close + 1 - at_);
  }

  void character_class() {
    copy(peek(1) == '^' ? 2 : 1);
    if (peek(0) == ']') copy(1);
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '[') refuse("'[' inside a character class");
      if (in_[at_] == '&' && peek(1) == '&') refuse("'&&' inside a character class");
      if (in_[at_] == '\\') {
        escape();
      } else {
        copy(1);
      }
    }
    if (at_ < in_.size()) copy(1);
  }

  void group() {
    if (peek(1) == '*') refuse("'(*'");
    if (peek(1) != '?') return copy(1);
    std::size_t n = 2;
    while (peek(n) == 'i' || peek(n) == '-') ++n;
    if (n > 2) {
      // `(?i)` within an alternative reaches over the following ones, in each library differently.
      if (peek(n) == ')' && at_ != 0) refuse("'(?i)' behind the start");
      if (peek(n) != ':' && peek(n) != ')') refuse("a group option other than i");
      return copy(n + 1);
    }
    const char kind = peek(2);
    const bool is_look_behind = kind == '<' && (peek(3) == '=' || peek(3) == '!');
    if (kind != ':' && kind != '=' && kind != '!' && kind != '>' && !is_look_behind) {
      refuse("a group other than (?: (?= (?! (?> (?<= (?<! (?i:");
    }
    copy(is_look_behind ? 4 : 3);
  }

  /// {n} {n,} {n,m} {,m}; any other brace is a literal in both syntaxes.
  void interval() {
    std::size_t n = 1;
    while (is_digit(peek(n))) ++n;
    const bool has_minimum = n > 1;
    bool has_comma = false;
    bool has_maximum = false;
    if (peek(n) == ',') {
      has_comma = true;
      ++n;
      while (is_digit(peek(n))) {
        has_maximum = true;
        ++n;
      }
    }
    if (peek(n) != '}' || (!has_minimum && !has_maximum)) return copy(1);
    // Ruby has no possessive intervals, and {n}? is an optional {n}.
    if (peek(n + 1) == '+') refuse("an interval followed by '+'");
    if (peek(n + 1) == '?' && !has_comma) refuse("'{n}?'");
    if (!has_minimum) {
      out_ += "{0";
      ++at_;
      --n;
    }
    copy(n + 1);
  }

  std::string_view in_;
  std::string out_;
  std::size_t at_ = 0;
};

}  // namespace

std::string to_pcre2_pattern(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace ft::text
