#include "text/byte_alphabet.h"

#include "text/utf8.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ft::text {

namespace {

/// Bytes that Latin-1 prints stand for themselves; the other 68 are numbered from U+0100 in order.
constexpr bool is_own_letter(std::size_t byte) noexcept {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::size_t kLetterLimit = 0x100 + 68;
constexpr std::int16_t kNoLetter = -1;

constexpr std::array<std::int16_t, kLetterLimit> kBytesOfLetters = [] {
  std::array<std::int16_t, kLetterLimit> bytes{};
  bytes.fill(kNoLetter);
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 0x100; ++byte) {
    bytes[is_own_letter(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}();

}  // namespace

bool append_alphabet_bytes(std::string_view letters, std::string& bytes) {
  const std::size_t size_before = bytes.size();
  std::size_t at = 0;
  while (at < letters.size()) {
    if (is_own_letter(static_cast<unsigned char>(letters[at])) && letters[at] > 0) {
      bytes.push_back(letters[at++]);  // printable ASCII: nearly all of a file
      continue;
    }
    const Utf8Step step = decode_utf8(letters, at);
    const std::int16_t byte =
        step.code_point < kLetterLimit ? kBytesOfLetters[step.code_point] : kNoLetter;
    if (byte == kNoLetter) {
      bytes.resize(size_before);
      return false;
    }
    bytes.push_back(static_cast<char>(byte));
    at += step.n_bytes;
  }
  return true;
}

}  // namespace ft::text
