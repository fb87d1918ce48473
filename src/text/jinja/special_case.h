// The characters whose upper or title case is longer than one character (Unicode's unconditional
// SpecialCasing).
#pragma once

namespace ft::text::jinja {

struct SpecialCase {
  char32_t code;
  const char* upper;
  const char* title;
};

/// nullptr for all but about a hundred characters. O(log n).
const SpecialCase* find_special_case(char32_t code);

}  // namespace ft::text::jinja
