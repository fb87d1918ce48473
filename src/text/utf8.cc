#include "text/utf8.h"

namespace ft::text {

namespace {

/// How a character with a given first byte goes on (Unicode 15, table 3-7).
struct Lead {
  std::uint32_t n_bytes;     // 0: no character begins with this byte
  unsigned char second_low;  // allowed range of the second byte; later ones are 80..BF
  unsigned char second_high;
};

constexpr Lead lead_of(unsigned char byte) noexcept {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step decode_utf8(std::string_view text, std::size_t at) noexcept {
  const auto first = static_cast<unsigned char>(text[at]);
  const Lead lead = lead_of(first);
  if (lead.n_bytes == 0) return {};
  if (lead.n_bytes == 1) return {first, 1, Utf8Step::Kind::kCharacter};
  char32_t code_point = first & (0xFFU >> (lead.n_bytes + 1));
  for (std::uint32_t i = 1; i < lead.n_bytes; ++i) {
    if (at + i >= text.size()) {
      return {kReplacementCharacter, i, Utf8Step::Kind::kTruncated};
    }
    const auto byte = static_cast<unsigned char>(text[at + i]);
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {kReplacementCharacter, i, Utf8Step::Kind::kInvalid};
    code_point = (code_point << 6) | (byte & 0x3FU);
  }
  return {code_point, lead.n_bytes, Utf8Step::Kind::kCharacter};
}

bool is_valid_utf8(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = decode_utf8(text, at);
    if (step.kind != Utf8Step::Kind::kCharacter) return false;
    at += step.n_bytes;
  }
  return true;
}

}  // namespace ft::text
