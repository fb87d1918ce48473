// The split pattern of the GLM family as a scanner. Each function below is one alternative of
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//   ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// and next_piece_end() tries them in that order. Every alternative but the white-space ones decides
// on the first one or two characters, so nothing is read more than twice.
#include "text/splitter.h"
#include "text/utf8.h"

#include <array>
#include <cstdint>

#include <utf8proc.h>

namespace ft::text {

namespace {

enum class CharClass : std::uint8_t { kOther, kLetter, kNumber, kSpace, kNewline };

/// Unicode's White_Space without \r and \n.
constexpr bool is_inline_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0C && c != 0x0A) || c == 0x20 || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

constexpr CharClass ascii_class(char32_t c) noexcept {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
  if (c >= '0' && c <= '9') return CharClass::kNumber;
  if (c == '\r' || c == '\n') return CharClass::kNewline;
  return is_inline_space(c) ? CharClass::kSpace : CharClass::kOther;
}

constexpr std::array<CharClass, 128> kAsciiClasses = [] {
  std::array<CharClass, 128> classes{};
  for (char32_t c = 0; c < classes.size(); ++c) classes[c] = ascii_class(c);
  return classes;
}();

CharClass class_of(char32_t c) noexcept {
  if (is_inline_space(c)) return CharClass::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    default:
      return CharClass::kOther;
  }
}

/// Reads one stretch of text; positions are offsets into it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::size_t next_piece_end(std::size_t begin) const noexcept {
    if (const std::size_t end = contraction_end(begin); end != begin) return end;
    const Char first = read(begin);
    const std::size_t after = begin + first.n_bytes;
    switch (first.char_class) {
      case CharClass::kLetter:
        return skip(after, CharClass::kLetter);
      case CharClass::kNumber:
        return number_end(after);
      case CharClass::kOther:
        if (is_at(after, CharClass::kLetter)) return skip(after, CharClass::kLetter);
        return symbols_end(begin);
      case CharClass::kSpace:
        if (is_at(after, CharClass::kLetter)) return skip(after, CharClass::kLetter);
        if (text_[begin] == ' ' && is_at(after, CharClass::kOther)) return symbols_end(after);
        return white_space_end(begin);
      case CharClass::kNewline:
        return white_space_end(begin);
    }
    return after;
  }

 private:
  struct Char {
    CharClass char_class;
    std::uint32_t n_bytes;
  };

  Char read(std::size_t at) const noexcept {
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) return {kAsciiClasses[byte], 1};
    const Utf8Step step = decode_utf8(text_, at);
    return {class_of(step.code_point), step.n_bytes};
  }

  bool is_at(std::size_t at, CharClass wanted) const noexcept {
    return at < text_.size() && read(at).char_class == wanted;
  }

  std::size_t skip(std::size_t at, CharClass wanted) const noexcept {
    while (at < text_.size()) {
      const Char c = read(at);
      if (c.char_class != wanted) break;
      at += c.n_bytes;
    }
    return at;
  }

  /// (?i:'s|'t|'re|'ve|'m|'ll|'d); `begin` itself if there is none.
  std::size_t contraction_end(std::size_t begin) const noexcept {
    if (text_[begin] != '\'') return begin;
    const std::string_view rest = text_.substr(begin + 1, 2);
    // U+017F, the long s, folds to s.
    if (rest == "\xC5\xBF") return begin + 3;
    const char first = lower(rest, 0);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
    const char second = lower(rest, 1);
    const bool is_pair =
        ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
    return is_pair ? begin + 3 : begin;
  }

  static char lower(std::string_view text, std::size_t at) noexcept {
    if (at >= text.size()) return '\0';
    const char c = text[at];
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  /// \p{N}{1,3} behind its first character.
  std::size_t number_end(std::size_t at) const noexcept {
    for (int i = 0; i < 2 && is_at(at, CharClass::kNumber); ++i) at += read(at).n_bytes;
    return at;
  }

  /// [^\s\p{L}\p{N}]+[\r\n]*
  std::size_t symbols_end(std::size_t at) const noexcept {
    return skip(skip(at, CharClass::kOther), CharClass::kNewline);
  }

  /// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end of the run; else the run, without its last
  /// character if something that is no white space follows and something is left.
  std::size_t white_space_end(std::size_t begin) const noexcept {
    std::size_t at = begin;
    std::size_t last_char = begin;
    std::size_t newlines_end = begin;
    while (at < text_.size()) {
      const Char c = read(at);
      if (c.char_class != CharClass::kSpace && c.char_class != CharClass::kNewline) break;
      last_char = at;
      at += c.n_bytes;
      if (c.char_class == CharClass::kNewline) newlines_end = at;
    }
    if (newlines_end != begin) return newlines_end;
    return at == text_.size() || last_char == begin ? at : last_char;
  }

  std::string_view text_;
};

class GlmSplitter final : public Splitter {
 public:
  void split(std::string_view text,
             std::size_t begin,
             std::size_t end,
             std::vector<std::size_t>& piece_ends) const override {
    const Scanner scanner(text.substr(begin, end - begin));
    std::size_t at = 0;
    while (at < end - begin) {
      at = scanner.next_piece_end(at);
      piece_ends.push_back(begin + at);
    }
  }
};

}  // namespace

std::unique_ptr<const Splitter> make_glm_splitter() {
  return std::make_unique<GlmSplitter>();
}

std::unique_ptr<const Splitter> make_splitter(std::string_view pattern,
                                              std::shared_ptr<const Clock> clock) {
  return pattern == kGlmPattern ? make_glm_splitter()
                                : make_regex_splitter(pattern, std::move(clock));
}

}  // namespace ft::text
