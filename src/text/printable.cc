#include "text/printable.h"

#include "text/utf8.h"

#include <fmt/format.h>

namespace ft::text {

std::string printable(std::string_view text) {
  constexpr std::size_t kMaxBytes =
      60;  // enough to find the place in a file, short enough for one line
  std::string out = "'";
  std::size_t at = 0;
  while (at < text.size() && at < kMaxBytes) {
    const Utf8Step step = decode_utf8(text, at);
    // C1 controls and the line and paragraph separators would break the line as much as \n does.
    const char32_t c = step.code_point;
    const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029;
    for (const char byte : text.substr(at, step.n_bytes)) {
      if (is_control || step.kind != Utf8Step::Kind::kCharacter) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      } else {
        out += byte;
      }
    }
    at += step.n_bytes;
  }
  out += at < text.size() ? "...'" : "'";
  return out;
}

}  // namespace ft::text
