// Python's str methods over marked text: each result is built from pieces of its inputs, so every
// byte keeps its mark.
#pragma once

#include "text/jinja/marked_text.h"
#include "text/jinja/runtime.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ft::text::jinja {

enum class Side : std::uint8_t { kLeft, kRight, kBoth };

/// Without white space, or without any of the characters of `characters`, at the ends.
MarkedText strip(Runtime& runtime,
                 const MarkedText& text,
                 Side side,
                 std::optional<std::string_view> characters);

enum class Case : std::uint8_t { kUpper, kLower, kTitle, kCapitalized, kSwapped };
/// kTitle is str.title(): a capital behind everything that is no letter.
MarkedText to_case(Runtime& runtime, const MarkedText& text, Case letter_case);
/// Jinja's filter `title`: a capital at the start and behind white space and any of -({[<.
MarkedText to_words_title(Runtime& runtime, const MarkedText& text);
/// str.isupper (or str.islower): letters of this case, and none of another.
bool has_only_case(Runtime& runtime, std::string_view text, Case letter_case);

/// str.replace; n_max < 0 replaces all. An empty `old` matches around every character.
MarkedText replace(Runtime& runtime,
                   const MarkedText& text,
                   const MarkedText& old,
                   const MarkedText& replacement,
                   std::int64_t n_max);

/// str.split and str.rsplit at white space (no separator) or at a non-empty separator; n_max < 0
/// splits at all.
std::vector<MarkedText> split(Runtime& runtime,
                              const MarkedText& text,
                              std::optional<std::string_view> separator,
                              std::int64_t n_max,
                              Side from);
/// str.splitlines.
std::vector<MarkedText> split_lines(Runtime& runtime, const MarkedText& text, bool keeps_ends);

/// Non-overlapping occurrences.
std::size_t count_occurrences(Runtime& runtime, std::string_view text, std::string_view needle);
/// Position of the last occurrence that ends at or before `end`, or npos. Linear time.
std::size_t find_last(Runtime& runtime,
                      std::string_view text,
                      std::string_view needle,
                      std::size_t end);

/// str.ljust, rjust, center: filled up to n_characters on that side (kBoth: both).
MarkedText pad(Runtime& runtime,
               const MarkedText& text,
               std::int64_t n_characters,
               const MarkedText& fill,
               Side side);

}  // namespace ft::text::jinja
