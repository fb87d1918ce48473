#include "text/jinja/string_operations.h"

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

#include <algorithm>
#include <string>

namespace ft::text::jinja {
namespace {

bool is_one_of(char32_t code, std::string_view characters) {
  for (std::size_t i = 0; i < characters.size();) {
    const Character c = decode_character(characters, i);
    if (c.code == code) return true;
    i += c.n_bytes;
  }
  return false;
}

}  // namespace

MarkedText strip(Runtime& runtime,
                 const MarkedText& text,
                 Side side,
                 std::optional<std::string_view> characters) {
  const std::string_view bytes = text.bytes();
  // Each end is compared with every character of the set.
  runtime.spend_bytes(bytes.size() * (1 + (characters ? characters->size() : 0)));
  const auto is_stripped = [&](char32_t code) {
    return characters ? is_one_of(code, *characters) : is_space(code);
  };
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const Character c = decode_character(bytes, begin);
    if (!is_stripped(c.code)) break;
    begin += c.n_bytes;
  }
  while (side != Side::kLeft && end > begin) {
    const std::size_t last = previous_character(bytes, end);
    if (!is_stripped(decode_character(bytes, last).code)) break;
    end = last;
  }
  return text.slice(begin, end);
}

MarkedText replace(Runtime& runtime,
                   const MarkedText& text,
                   const MarkedText& old,
                   const MarkedText& replacement,
                   std::int64_t n_max) {
  const std::string_view bytes = text.bytes();
  runtime.spend_bytes(bytes.size());
  MarkedText out;
  std::size_t copied = 0;
  std::size_t at = 0;
  const auto put = [&](std::size_t match, std::size_t n_bytes) {
    const std::size_t n_added = match - copied + replacement.size();
    runtime.check_text(out.size() + n_added);
    runtime.spend_bytes(n_added);
    runtime.spend(1);
    out.append(text, copied, match);
    out.append(replacement);
    copied = match + n_bytes;
  };
  for (std::int64_t n = 0; n_max < 0 || n < n_max; ++n) {
    if (old.empty()) {
      put(at, 0);
      if (at == bytes.size()) break;
      at += decode_character(bytes, at).n_bytes;
    } else {
      at = find_bytes(bytes, old.bytes(), at);
      if (at == std::string_view::npos) break;
      put(at, old.size());
      at += old.size();
    }
  }
  out.append(text, copied, bytes.size());
  return out;
}

std::size_t count_occurrences(Runtime& runtime, std::string_view text, std::string_view needle) {
  runtime.spend_bytes(text.size());
  if (needle.empty()) return count_characters(text) + 1;
  std::size_t n = 0;
  for (std::size_t at = 0;; ++n) {
    at = find_bytes(text, needle, at);
    if (at == std::string_view::npos) return n;
    at += needle.size();
  }
}

std::size_t find_last(Runtime& runtime,
                      std::string_view text,
                      std::string_view needle,
                      std::size_t end) {
  if (needle.size() > end) return std::string_view::npos;
  // The linear search runs forwards, so both texts are turned around.
  runtime.spend_bytes(2 * end);
  const std::string backwards(text.rend() - static_cast<std::ptrdiff_t>(end), text.rend());
  const std::string wanted(needle.rbegin(), needle.rend());
  const std::size_t at = find_bytes(backwards, wanted, 0);
  return at == std::string::npos ? at : end - at - needle.size();
}

MarkedText pad(Runtime& runtime,
               const MarkedText& text,
               std::int64_t n_characters,
               const MarkedText& fill,
               Side side) {
  const auto present = static_cast<std::int64_t>(count_characters(text.bytes()));
  if (n_characters <= present) return text;
  const auto n_fill = static_cast<std::size_t>(n_characters - present);
  runtime.check_text(n_fill);
  runtime.reserve_text(text.size() + n_fill * fill.size());
  std::size_t n_left = side == Side::kRight ? n_fill : 0;  // side: where the text ends up
  if (side == Side::kBoth) {
    // str.center puts an odd blank to the left only if the width is odd.
    n_left = n_fill / 2 + (n_fill & static_cast<std::size_t>(n_characters) & 1U);
  }
  MarkedText out;
  for (std::size_t i = 0; i < n_left; ++i) out.append(fill);
  out.append(text);
  for (std::size_t i = n_left; i < n_fill; ++i) out.append(fill);
  return out;
}

}  // namespace ft::text::jinja
