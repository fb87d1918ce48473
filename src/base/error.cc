#include "base/error.h"

namespace ft {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxBytes = 400;  // tensor names have up to 80, paths more
  std::size_t n = text.size();
  if (n > kMaxBytes) {
    n = kMaxBytes;
    while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) {
      --n;  // not inside a UTF-8 character
    }
  }
  std::string result = "'";
  for (const char c : text.substr(0, n)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  result += n < text.size() ? fmt::format("...' ({} bytes)", text.size()) : "'";
  return result;
}

namespace detail {

void check_failed(const char* file, int line, const char* condition) {
  throw LogicError(fmt::format("internal error: {}:{}: check failed: {}", file, line, condition));
}

}  // namespace detail
}  // namespace ft
