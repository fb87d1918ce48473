#include "apps/terminal_text.h"

#include "text/utf8.h"

#include <cstddef>

#include <fmt/format.h>

namespace ft::apps {
namespace {

bool is_obeyed(char32_t c) noexcept {
  if (c == U'\n' || c == U'\t') return false;
  const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool is_separator = c == 0x2028 || c == 0x2029;
  const bool is_bidirectional = c == 0x061C || c == 0x200E || c == 0x200F ||
                                (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return is_control || is_separator || is_bidirectional;
}

}  // namespace

std::string for_terminal(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const text::Utf8Step step = text::decode_utf8(text, at);
    const std::string_view bytes = text.substr(at, step.n_bytes);
    if (step.kind != text::Utf8Step::Kind::kCharacter) {
      out += text::kReplacementUtf8;
    } else if (is_obeyed(step.code_point)) {
      for (const char byte : bytes) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else {
      out += bytes;
    }
    at += step.n_bytes;
  }
  return out;
}

}  // namespace ft::apps
