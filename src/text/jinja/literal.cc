#include "text/jinja/literal.h"

#include "text/jinja/syntax_error.h"
#include "text/jinja/unicode.h"

#include <charconv>
#include <cstdlib>

namespace ft::text::jinja {
namespace {

bool is_digit_of(char c, unsigned base) {
  if (base <= 10) return c >= '0' && c < static_cast<char>('0' + base);
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// End of a run of digits with single '_' between them; `begin` if there is none.
std::size_t digits_end(std::string_view text, std::size_t begin, unsigned base) {
  std::size_t end = begin;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (is_digit_of(text[i], base)) {
      end = i + 1;
    } else if (text[i] != '_' || end != i || end == begin) {
      break;
    }
  }
  return end;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out.push_back(c);
  }
  return out;
}

/// End of the real number at the start of `text`, 0 if it is none.
std::size_t real_end(std::string_view text) {
  std::size_t end = digits_end(text, 0, 10);
  bool is_real = false;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = digits_end(text, end + 1, 10);
    if (fraction != end + 1) {
      end = fraction;
      is_real = true;
    }
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    std::size_t begin = end + 1;
    if (begin < text.size() && (text[begin] == '+' || text[begin] == '-')) ++begin;
    const std::size_t exponent = digits_end(text, begin, 10);
    if (exponent != begin) {
      end = exponent;
      is_real = true;
    }
  }
  return is_real ? end : 0;
}

void append_escape_code(std::string& out,
                        std::string_view literal,
                        std::size_t& i,
                        std::size_t n_digits,
                        std::uint32_t line) {
  std::uint32_t code = 0;
  const std::string_view digits = literal.substr(i, n_digits);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  const bool is_complete = digits.size() == n_digits && parsed.ec == std::errc() &&
                           parsed.ptr == digits.data() + digits.size();
  const bool is_character = code < 0xD800 || (code > 0xDFFF && code <= 0x10FFFF);
  if (!is_complete || !is_character) {
    fail_syntax(
        line, "the string has an escape '\\{}{}' that is no character", literal[i - 1], digits);
  }
  append_utf8(out, code);
  i += n_digits;
}

void append_octal(std::string& out, std::string_view literal, std::size_t& i) {
  char32_t code = 0;
  for (int n = 0; n < 3 && i < literal.size() && is_digit_of(literal[i], 8); ++n, ++i) {
    code = code * 8 + static_cast<char32_t>(literal[i] - '0');
  }
  append_utf8(out, code);
}

/// One escape; i stands behind the backslash and moves behind the escape.
void append_escape(std::string& out, std::string_view literal, std::size_t& i, std::uint32_t line) {
  constexpr std::string_view letters = "\\'\"abfnrtv";
  constexpr std::string_view values = "\\'\"\a\b\f\n\r\t\v";
  const char c = literal[i];
  if (const std::size_t known = letters.find(c); known != std::string_view::npos) {
    out.push_back(values[known]);
    ++i;
  } else if (is_digit_of(c, 8)) {
    append_octal(out, literal, i);
  } else if (c == '\n') {
    ++i;
  } else if (c == 'x' || c == 'u' || c == 'U') {
    append_escape_code(out, literal, ++i, c == 'x' ? 2 : c == 'u' ? 4 : 8, line);
  } else if (c == 'N') {
    fail_syntax(line, "escapes by name ('\\N{{...}}') are not supported; use '\\u'");
  } else {
    out.push_back('\\');  // Python keeps the backslash of an unknown escape
    const Character unknown = decode_character(literal, i);
    if (unknown.code >= 0x80) {
      // Jinja decodes escapes after it has written other characters as escapes themselves.
      const auto code = static_cast<std::uint32_t>(unknown.code);
      out += code < 0x100     ? fmt::format("x{:02x}", code)
             : code < 0x10000 ? fmt::format("u{:04x}", code)
                              : fmt::format("U{:08x}", code);
      i += unknown.n_bytes;
    }
  }
}

}  // namespace

NumberLiteral read_number_literal(std::string_view text, bool allows_real, std::uint32_t line) {
  NumberLiteral out;
  if (const std::size_t end = allows_real ? real_end(text) : 0; end != 0) {
    const std::string digits = without_underscores(text.substr(0, end));
    out.n_bytes = end;
    out.is_real = true;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), out.real);
    // from_chars leaves the value alone then; Python rounds to zero or infinity, as strtod does.
    if (parsed.ec != std::errc()) out.real = std::strtod(digits.c_str(), nullptr);
    return out;
  }
  int base = 10;
  std::size_t begin = 0;
  if (text[0] == '0' && text.size() > 1) {
    const char letter = static_cast<char>(text[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    begin = base == 10 ? 0 : 2;
  }
  std::size_t end = 0;
  if (begin == 2) {
    // A '_' may also stand between the prefix and the digits.
    const std::size_t first = begin + (begin < text.size() && text[begin] == '_' ? 1 : 0);
    end = digits_end(text, first, static_cast<unsigned>(base));
    if (end == first) {
      base = 10;
      begin = 0;
    }
  }
  if (begin == 0) {
    // "0" is a number of its own: "01" is none.
    end = text[0] == '0' ? digits_end(text, 0, 1) : digits_end(text, 0, 10);
  }
  const std::string digits = without_underscores(text.substr(begin, end - begin));
  const auto parsed =
      std::from_chars(digits.data(), digits.data() + digits.size(), out.integer, base);
  if (parsed.ec != std::errc()) fail_syntax(line, "the integer {} does not fit 64 bits", digits);
  out.n_bytes = end;
  return out;
}

std::string unescape(std::string_view literal, std::uint32_t line) {
  std::string out;
  out.reserve(literal.size());
  for (std::size_t i = 0; i < literal.size();) {
    if (literal[i] != '\\') {
      out.push_back(literal[i++]);
      continue;
    }
    ++i;  // the lexer never ends a string on a lone backslash
    append_escape(out, literal, i, line);
  }
  return out;
}

}  // namespace ft::text::jinja
