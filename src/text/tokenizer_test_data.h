// Tests only: small tokenizer.json texts.
#pragma once

#include "base/clock.h"
#include "json/json.h"
#include "text/splitter.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text {

inline Tokenizer tokenizer_of(std::string_view json) {
  return Tokenizer::from_json(json, std::make_shared<const SteadyClock>());
}

/// How GPT-2's alphabet writes a byte, as UTF-8.
inline std::string byte_letter(unsigned char byte) {
  unsigned code_point = byte;
  const auto is_own = [](unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
  };
  if (!is_own(byte)) {
    code_point = 0x100;
    for (unsigned b = 0; b < byte; ++b) code_point += is_own(b) ? 0 : 1;
  }
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

inline std::string byte_letters(std::string_view bytes) {
  std::string letters;
  for (const char c : bytes) letters += byte_letter(static_cast<unsigned char>(c));
  return letters;
}

/// A tokenizer.json to be: ids 0..255 are the bytes, then one per merge in order, then the added
/// tokens.
struct TokenizerFile {
  struct Added {
    std::string content;
    bool is_special = true;
  };
  std::vector<std::pair<std::string, std::string>> merges{};  // bytes
  std::vector<Added> added{};
  std::string pattern = std::string(kGlmPattern);
  bool ignores_merges = false;
  bool has_merge_arrays = false;

  std::string text() const {
    json::Writer out;
    out.begin_object().key("added_tokens").begin_array();
    std::size_t id = 256 + merges.size();
    for (const Added& token : added) {
      out.begin_object().member("id", static_cast<std::int64_t>(id++));
      out.member("content", std::string_view(token.content)).member("special", token.is_special);
      out.end_object();
    }
    out.end_array().key("normalizer").null();
    out.key("pre_tokenizer").begin_object().member("type", "Sequence").key("pretokenizers");
    out.begin_array();
    if (!pattern.empty()) {
      out.begin_object().member("type", "Split").member("behavior", "Isolated");
      out.key("pattern").begin_object().member("Regex", std::string_view(pattern)).end_object();
      out.end_object();
    }
    out.begin_object().member("type", "ByteLevel").member("add_prefix_space", false);
    out.member("use_regex", false).end_object().end_array().end_object();
    write_model(out);
    out.end_object();
    return out.text();
  }

 private:
  void write_model(json::Writer& out) const {
    out.key("model").begin_object().member("type", "BPE");
    out.member("ignore_merges", ignores_merges).key("vocab").begin_object();
    std::int64_t id = 0;
    for (int byte = 0; byte < 256; ++byte) {
      out.member(byte_letter(static_cast<unsigned char>(byte)), id++);
    }
    for (const auto& [left, right] : merges) out.member(byte_letters(left + right), id++);
    out.end_object().key("merges").begin_array();
    for (const auto& [left, right] : merges) {
      if (has_merge_arrays) {
        out.begin_array();
        out.value(std::string_view(byte_letters(left)));
        out.value(std::string_view(byte_letters(right)));
        out.end_array();
      } else {
        out.value(std::string_view(byte_letters(left) + " " + byte_letters(right)));
      }
    }
    out.end_array().end_object();
  }
};

}  // namespace ft::text
