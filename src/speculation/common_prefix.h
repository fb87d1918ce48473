// How much of a source's state still holds, whatever happened to the session in between.
#pragma once

#include "base/types.h"

#include <algorithm>
#include <cstddef>

namespace ft::speculation {

/// Leading tokens that both sequences share. Usually all: then it costs one comparison of memory,
/// microseconds for 100,000 tokens.
inline std::size_t common_prefix(TokenSpan a, TokenSpan b) {
  const std::size_t n = std::min(a.size(), b.size());
  a = a.first(n);
  b = b.first(n);
  if (std::equal(a.begin(), a.end(), b.begin())) return n;
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

}  // namespace ft::speculation
