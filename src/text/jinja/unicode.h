// Unicode as Python's str sees it: code points of UTF-8 text, white space, letter case. Total on
// any bytes: a byte that is no part of a character counts as one character of its own, and is never
// changed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ft::text::jinja {

/// Stray bytes decode to kStrayByte + byte, a range of lone surrogates that valid text never
/// contains.
inline constexpr char32_t kStrayByte = 0xDC00;

struct Character {
  char32_t code = 0;
  std::size_t n_bytes = 1;
};

/// The character that starts at `offset` < text.size().
Character decode_character(std::string_view text, std::size_t offset);
/// Begin of the character that ends at `end` > 0.
std::size_t previous_character(std::string_view text, std::size_t end);
/// UTF-8 of a scalar value, or the stray byte itself.
void append_utf8(std::string& out, char32_t code);

std::size_t count_characters(std::string_view text);
/// Byte position of the character with this index; text.size() if there are not that many.
std::size_t character_offset(std::string_view text, std::size_t index);

bool is_space(char32_t code);
bool is_printable(char32_t code);
bool is_letter(char32_t code);
bool is_decimal(char32_t code);  // str.isdecimal
bool is_digit(char32_t code);    // str.isdigit
bool is_numeric(char32_t code);  // str.isnumeric
bool is_lower(char32_t code);
bool is_upper(char32_t code);  // title case letters are neither
bool is_cased(char32_t code);
/// May stand in an identifier; the first character must be a letter or '_' as well.
bool is_word(char32_t code);

// Full case mapping: one character may become up to three.
std::string upper(char32_t code);
std::string lower(char32_t code);  // a capital sigma at a word's end is the caller's business
std::string title(char32_t code);

/// Byte position after leading, and before trailing white space.
std::size_t skip_spaces(std::string_view text);
std::size_t end_without_spaces(std::string_view text);

}  // namespace ft::text::jinja
