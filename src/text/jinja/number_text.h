// Texts to numbers as Python's int() and float() read them, and decimal rounding as round() does
// it.
#pragma once

#include "text/jinja/runtime.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace ft::text::jinja {

/// int(text, base): white space around, a sign, '_' between digits, a prefix that fits the base (0:
/// any). nullopt if the text is no integer. Throws InvalidInput beyond 64 bits or for a base that
/// is not 0 or 2 to 36.
std::optional<std::int64_t> parse_integer(Runtime& runtime,
                                          std::string_view text,
                                          std::int64_t base);
/// float(text), with inf and nan.
std::optional<double> parse_real(Runtime& runtime, std::string_view text);
/// round(value, n_digits): half to even on the exact decimal value; n_digits may be negative.
double round_decimal(double value, int n_digits);

}  // namespace ft::text::jinja
