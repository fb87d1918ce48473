// Reads a split pattern as Hugging Face's tokenizers do (Oniguruma, Ruby syntax) and writes it for
// PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace ft::text {

/// The PCRE2 pattern (UTF, UCP, multi-line, newline = LF) that means what `pattern` means in
/// Oniguruma's Ruby syntax. Throws InvalidInput for every construct that the two read differently
/// and that is not translated here; what is wrong in both is left for PCRE2 to refuse.
std::string to_pcre2_pattern(std::string_view pattern);

}  // namespace ft::text
