// The case functions of string_operations.h.
#include "text/jinja/string_operations.h"
#include "text/jinja/unicode.h"

#include <string>

namespace ft::text::jinja {
namespace {

// A lookup in the Unicode tables costs about as much as copying this many bytes.
constexpr std::size_t kLookupBytes = 8;

constexpr char32_t kCapitalSigma = 0x3A3;

bool is_ignored_for_sigma(char32_t code) {
  // Case-ignorable characters that occur in words.
  return code == '\'' || code == 0x2019 || code == '.' || code == ':' || code == 0xB7 ||
         code == 0xAD || (code >= 0x300 && code <= 0x36F);
}

/// A sigma ends its word if a letter stands before it and none behind.
bool is_final_sigma(std::string_view bytes, std::size_t at) {
  bool has_letter_before = false;
  // Words are short; a bounded look back keeps hostile texts linear.
  const std::size_t from = at > 64 ? at - 64 : 0;
  for (std::size_t i = from; i < at;) {
    const Character c = decode_character(bytes, i);
    if (!is_ignored_for_sigma(c.code)) has_letter_before = is_cased(c.code);
    i += c.n_bytes;
  }
  if (!has_letter_before) return false;
  for (std::size_t i = at + 2; i < bytes.size() && i < at + 64;) {
    const Character c = decode_character(bytes, i);
    if (!is_ignored_for_sigma(c.code)) return !is_cased(c.code);
    i += c.n_bytes;
  }
  return true;
}

/// Writes characters of one text in another case.
class CaseWriter {
 public:
  explicit CaseWriter(const MarkedText& text) : text_(text), bytes_(text.bytes()) {}

  void put_upper(std::size_t at, const Character& c) {
    put(at, c, c.code < 0x80 ? ascii(c.code, 'a', 'z', -32) : upper(c.code));
  }
  void put_title(std::size_t at, const Character& c) {
    put(at, c, c.code < 0x80 ? ascii(c.code, 'a', 'z', -32) : title(c.code));
  }
  void put_lower(std::size_t at, const Character& c) {
    if (c.code == kCapitalSigma) return put(at, c, is_final_sigma(bytes_, at) ? "ς" : "σ");
    put(at, c, c.code < 0x80 ? ascii(c.code, 'A', 'Z', 32) : lower(c.code));
  }
  void put_same(std::size_t at, const Character& c) { out_.append(text_, at, at + c.n_bytes); }

  MarkedText take() { return std::move(out_); }

 private:
  static std::string ascii(char32_t code, char first, char last, int shift) {
    const char c = static_cast<char>(code);
    return std::string(1, c >= first && c <= last ? static_cast<char>(c + shift) : c);
  }
  void put(std::size_t at, const Character& c, std::string_view mapped) {
    if (c.code >= kStrayByte && c.code <= kStrayByte + 0xFF) return put_same(at, c);
    out_.append(mapped, text_.is_trusted_at(at));
  }

  const MarkedText& text_;
  std::string_view bytes_;
  MarkedText out_;
};

}  // namespace

MarkedText to_case(Runtime& runtime, const MarkedText& text, Case letter_case) {
  runtime.spend_bytes(kLookupBytes * text.size());
  CaseWriter writer(text);
  bool follows_letter = false;
  for (std::size_t i = 0; i < text.size();) {
    const Character c = decode_character(text.bytes(), i);
    switch (letter_case) {
      case Case::kUpper:
        writer.put_upper(i, c);
        break;
      case Case::kLower:
        writer.put_lower(i, c);
        break;
      case Case::kTitle:
        if (follows_letter) {
          writer.put_lower(i, c);
        } else {
          writer.put_title(i, c);
        }
        follows_letter = is_cased(c.code);
        break;
      case Case::kCapitalized:
        if (i == 0) {
          writer.put_title(i, c);
        } else {
          writer.put_lower(i, c);
        }
        break;
      case Case::kSwapped:
        if (is_upper(c.code)) {
          writer.put_lower(i, c);
        } else if (is_lower(c.code)) {
          writer.put_upper(i, c);
        } else {
          writer.put_same(i, c);
        }
        break;
    }
    i += c.n_bytes;
  }
  return writer.take();
}

bool has_only_case(Runtime& runtime, std::string_view text, Case letter_case) {
  runtime.spend_bytes(kLookupBytes * text.size());
  bool has_letter = false;
  for (std::size_t i = 0; i < text.size();) {
    const Character c = decode_character(text, i);
    const bool is_of_case = letter_case == Case::kUpper ? is_upper(c.code) : is_lower(c.code);
    if (!is_of_case && is_cased(c.code)) return false;
    has_letter = has_letter || is_of_case;
    i += c.n_bytes;
  }
  return has_letter;
}

MarkedText to_words_title(Runtime& runtime, const MarkedText& text) {
  runtime.spend_bytes(kLookupBytes * text.size());
  CaseWriter writer(text);
  bool begins_word = true;
  for (std::size_t i = 0; i < text.size();) {
    const Character c = decode_character(text.bytes(), i);
    const bool is_border = is_space(c.code) || c.code == '-' || c.code == '(' || c.code == '{' ||
                           c.code == '[' || c.code == '<';
    if (begins_word) {
      writer.put_upper(i, c);
    } else {
      writer.put_lower(i, c);
    }
    begins_word = is_border;
    i += c.n_bytes;
  }
  return writer.take();
}

}  // namespace ft::text::jinja
