// The splitting functions of string_operations.h.
#include "text/jinja/operators.h"
#include "text/jinja/string_operations.h"
#include "text/jinja/unicode.h"

#include <algorithm>
#include <string>

namespace ft::text::jinja {
namespace {

// What a piece costs besides its bytes.
constexpr std::size_t kPieceBytes = 64;

void add_piece(Runtime& runtime,
               std::vector<MarkedText>& out,
               const MarkedText& text,
               std::size_t begin,
               std::size_t end) {
  runtime.spend(1);
  runtime.spend_bytes(kPieceBytes + end - begin);
  out.push_back(text.slice(begin, end));
}

bool reached(const std::vector<MarkedText>& pieces, std::int64_t n_max) {
  return n_max >= 0 && pieces.size() >= static_cast<std::size_t>(n_max);
}

std::vector<MarkedText> split_at_space(Runtime& runtime,
                                       const MarkedText& text,
                                       std::int64_t n_max) {
  std::vector<MarkedText> out;
  const std::string_view bytes = text.bytes();
  std::size_t at = skip_spaces(bytes);
  while (at < bytes.size()) {
    if (reached(out, n_max)) {
      add_piece(runtime, out, text, at, bytes.size());
      break;
    }
    std::size_t end = at;
    while (end < bytes.size()) {
      const Character c = decode_character(bytes, end);
      if (is_space(c.code)) break;
      end += c.n_bytes;
    }
    add_piece(runtime, out, text, at, end);
    at = end + skip_spaces(bytes.substr(end));
  }
  return out;
}

std::vector<MarkedText> split_at_space_from_right(Runtime& runtime,
                                                  const MarkedText& text,
                                                  std::int64_t n_max) {
  std::vector<MarkedText> out;
  const std::string_view bytes = text.bytes();
  std::size_t end = end_without_spaces(bytes);
  while (end > 0) {
    if (reached(out, n_max)) {
      add_piece(runtime, out, text, 0, end);
      break;
    }
    std::size_t begin = end;
    while (begin > 0) {
      const std::size_t last = previous_character(bytes, begin);
      if (is_space(decode_character(bytes, last).code)) break;
      begin = last;
    }
    add_piece(runtime, out, text, begin, end);
    end = end_without_spaces(bytes.substr(0, begin));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<MarkedText> split_at(Runtime& runtime,
                                 const MarkedText& text,
                                 std::string_view separator,
                                 std::int64_t n_max) {
  std::vector<MarkedText> out;
  const std::string_view bytes = text.bytes();
  std::size_t begin = 0;
  while (!reached(out, n_max)) {
    const std::size_t at = find_bytes(bytes, separator, begin);
    if (at == std::string_view::npos) break;
    add_piece(runtime, out, text, begin, at);
    begin = at + separator.size();
  }
  add_piece(runtime, out, text, begin, bytes.size());
  return out;
}

std::vector<MarkedText> split_at_from_right(Runtime& runtime,
                                            const MarkedText& text,
                                            std::string_view separator,
                                            std::int64_t n_max) {
  // Matches counted from the right: found in the reversed text, where the search is linear.
  const std::string& bytes = text.bytes();
  const std::string backwards(bytes.rbegin(), bytes.rend());
  const std::string wanted(separator.rbegin(), separator.rend());
  std::vector<MarkedText> out;
  std::size_t begin = 0;  // in the reversed text
  while (!reached(out, n_max)) {
    const std::size_t at = find_bytes(backwards, wanted, begin);
    if (at == std::string::npos) break;
    add_piece(runtime, out, text, bytes.size() - at, bytes.size() - begin);
    begin = at + wanted.size();
  }
  add_piece(runtime, out, text, 0, bytes.size() - begin);
  std::reverse(out.begin(), out.end());
  return out;
}

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

}  // namespace

std::vector<MarkedText> split(Runtime& runtime,
                              const MarkedText& text,
                              std::optional<std::string_view> separator,
                              std::int64_t n_max,
                              Side from) {
  runtime.spend_bytes(2 * text.size());
  if (!separator) {
    return from == Side::kLeft ? split_at_space(runtime, text, n_max)
                               : split_at_space_from_right(runtime, text, n_max);
  }
  if (separator->empty()) runtime.fail("a text cannot be split at an empty separator");
  return from == Side::kLeft ? split_at(runtime, text, *separator, n_max)
                             : split_at_from_right(runtime, text, *separator, n_max);
}

std::vector<MarkedText> split_lines(Runtime& runtime, const MarkedText& text, bool keeps_ends) {
  runtime.spend_bytes(2 * text.size());
  std::vector<MarkedText> out;
  const std::string_view bytes = text.bytes();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = decode_character(bytes, i);
    std::size_t end = i + c.n_bytes;
    if (is_line_end(c.code)) {
      if (c.code == '\r' && bytes.substr(end, 1) == "\n") ++end;
      add_piece(runtime, out, text, begin, keeps_ends ? end : i);
      begin = end;
    }
    i = end;
  }
  if (begin < bytes.size()) add_piece(runtime, out, text, begin, bytes.size());
  return out;
}

}  // namespace ft::text::jinja
