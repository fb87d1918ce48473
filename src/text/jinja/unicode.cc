#include "text/jinja/unicode.h"

#include "text/jinja/special_case.h"
#include "text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <utf8proc.h>

namespace ft::text::jinja {
namespace {

bool is_scalar(char32_t code) {
  return code < 0xD800 || (code > 0xDFFF && code <= 0x10FFFF);
}

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool is_ascii(std::string_view text) {
  // Eight bytes at a time: every string value that is made passes through here.
  constexpr std::uint64_t high_bits = 0x8080808080808080U;
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= text.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, sizeof word);
    if ((word & high_bits) != 0) return false;
  }
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x80;
  });
}

std::string mapped(char32_t code, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  std::string out;
  append_utf8(
      out,
      is_scalar(code) ? static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(code))) : code);
  return out;
}

}  // namespace

Character decode_character(std::string_view text, std::size_t offset) {
  const auto byte = static_cast<std::uint8_t>(text[offset]);
  if (byte < 0x80) return {byte, 1};
  const Utf8Step step = decode_utf8(text, offset);
  if (step.kind != Utf8Step::Kind::kCharacter) return {kStrayByte + byte, 1};
  return {step.code_point, step.n_bytes};
}

std::size_t previous_character(std::string_view text, std::size_t end) {
  for (std::size_t n = 4; n > 1; --n) {
    if (n <= end && decode_character(text, end - n).n_bytes == n) return end - n;
  }
  return end - 1;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code >= kStrayByte && code <= kStrayByte + 0xFF) {
    put(code - kStrayByte);
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

std::size_t count_characters(std::string_view text) {
  if (is_ascii(text)) return text.size();
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size(); i += decode_character(text, i).n_bytes) ++n;
  return n;
}

std::size_t character_offset(std::string_view text, std::size_t index) {
  std::size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) {
    offset += decode_character(text, offset).n_bytes;
  }
  return offset;
}

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_letter(char32_t code) {
  const utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t code) {
  const bool is_superscript = code == 0xB2 || code == 0xB3 || code == 0xB9 || code == 0x2070 ||
                              (code >= 0x2074 && code <= 0x2079) ||
                              (code >= 0x2080 && code <= 0x2089);
  return is_superscript || is_decimal(code);
}

bool is_numeric(char32_t code) {
  const utf8proc_category_t c = category(code);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_lower(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LL;
}

bool is_upper(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LU;
}

bool is_cased(char32_t code) {
  return is_lower(code) || is_upper(code) || category(code) == UTF8PROC_CATEGORY_LT;
}

bool is_word(char32_t code) {
  if (code == '_') return true;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return is_letter(code);
  }
}

std::string upper(char32_t code) {
  const SpecialCase* special = find_special_case(code);
  return special != nullptr ? special->upper : mapped(code, utf8proc_toupper);
}

std::string lower(char32_t code) {
  constexpr char32_t dotted_capital_i = 0x130;  // the one character that grows when lowered
  if (code == dotted_capital_i) return "i\u0307";
  return mapped(code, utf8proc_tolower);
}

std::string title(char32_t code) {
  const SpecialCase* special = find_special_case(code);
  return special != nullptr ? special->title : mapped(code, utf8proc_totitle);
}

std::size_t skip_spaces(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const Character c = decode_character(text, i);
    if (!is_space(c.code)) break;
    i += c.n_bytes;
  }
  return i;
}

std::size_t end_without_spaces(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t last = previous_character(text, end);
    if (!is_space(decode_character(text, last).code)) break;
    end = last;
  }
  return end;
}

}  // namespace ft::text::jinja
