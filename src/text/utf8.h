// One step of UTF-8 decoding over hostile bytes: what Unicode 15, section 3.9, calls maximal
// subparts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ft::text {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

/// What stands at one place of a text.
struct Utf8Step {
  enum class Kind : std::uint8_t {
    kCharacter,  ///< a whole character
    kInvalid,    ///< a maximal subpart that no following byte can complete
    kTruncated,  ///< the text ends inside a character that further bytes could complete
  };
  char32_t code_point = kReplacementCharacter;  ///< U+FFFD unless kind is kCharacter
  std::uint32_t n_bytes = 1;                    ///< at least 1, at most what the text has
  Kind kind = Kind::kInvalid;
};

/// Decodes at byte `at` of `text`; at < text.size().
Utf8Step decode_utf8(std::string_view text, std::size_t at) noexcept;

/// True if every byte belongs to a whole character.
bool is_valid_utf8(std::string_view text) noexcept;

}  // namespace ft::text
