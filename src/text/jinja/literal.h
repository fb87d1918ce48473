// Number and string literals of a template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ft::text::jinja {

struct NumberLiteral {
  std::size_t n_bytes = 0;
  bool is_real = false;
  std::int64_t integer = 0;
  double real = 0;
};

/// The number at the start of `text`, which begins with a digit: decimal, 0x, 0o, 0b, with '_'
/// between digits, or (if allows_real) a real one. Throws InvalidInput for an integer beyond 64
/// bits.
NumberLiteral read_number_literal(std::string_view text, bool allows_real, std::uint32_t line);

/// The value of a string literal without its quotes; escapes as in Python. Throws InvalidInput for
/// a malformed escape.
std::string unescape(std::string_view literal, std::uint32_t line);

}  // namespace ft::text::jinja
