// Pre-tokenization: cuts text into the pieces inside which byte pairs may merge. One interface, two
// ways to do it: a hand-written scanner for the pattern of the GLM family, PCRE2 for any other.
// Called by the tokenizer only.
#pragma once

#include "base/clock.h"

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace ft::text {

/// The pattern of GLM-4.5 ... GLM-5.3, as it stands in their tokenizer.json. It covers every text
/// without gaps.
inline constexpr std::string_view kGlmPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The pattern that ByteLevel itself applies when `use_regex` is on (GPT-2's).
inline constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Immutable; safe to share between threads. Matches and the gaps between them become pieces alike
/// (Hugging Face's `Isolated`); no piece is empty. A maximal invalid subpart of UTF-8 counts as one
/// U+FFFD and is never cut.
class Splitter {
 public:
  virtual ~Splitter() = default;
  /// Appends the end of each piece of text[begin, end), as offsets into `text`, in order; the last
  /// is `end` unless the stretch is empty. Nothing outside the stretch is looked at.
  virtual void split(std::string_view text,
                     std::size_t begin,
                     std::size_t end,
                     std::vector<std::size_t>& piece_ends) const = 0;
};

/// A splitter for exactly kGlmPattern: one pass, linear time. Categories are those of Unicode 15.0
/// (utf8proc 2.8); `\s` is White_Space; (?i:'s) takes U+017F for s. PCRE2 10.42 knows Unicode 14.0
/// and splits the same pattern otherwise at the 4,388 letters and numbers that 15.0 added (CJK
/// extension H, Kawi, Nag Mundari, Cyrillic extended D and a few more), which are symbols to it;
/// nowhere else.
std::unique_ptr<const Splitter> make_glm_splitter();

/// A splitter for any other pattern in Oniguruma's Ruby syntax, run by PCRE2. Throws InvalidInput
/// for a pattern that PCRE2 refuses or would read otherwise than Oniguruma (nested or intersected
/// character classes, \w, \b, \h, \Q,
/// `(*`, an interval followed by `+`). `\s` is White_Space; general categories are PCRE2's
/// (Unicode 14.0 in Debian 12). split() throws InvalidInput when a pattern backtracks beyond a
/// bound that grows with the text, or matches too slowly by `clock`.
std::unique_ptr<const Splitter> make_regex_splitter(std::string_view pattern,
                                                    std::shared_ptr<const Clock> clock);

/// The same for a literal text.
std::unique_ptr<const Splitter> make_literal_splitter(std::string_view literal,
                                                      std::shared_ptr<const Clock> clock);

/// The fast splitter where `pattern` is kGlmPattern, else PCRE2.
std::unique_ptr<const Splitter> make_splitter(std::string_view pattern,
                                              std::shared_ptr<const Clock> clock);

}  // namespace ft::text
