// How much of a source's state still holds, whatever happened to the session in between.
#pragma once

#include "base/types.h"

#include <algorithm>
#include <cstddef>

namespace ft::speculation {

/// Leading tokens that both sequences share; n_same of them are known to be equal and not compared.
inline std::size_t common_prefix(TokenSpan a, TokenSpan b, std::size_t n_same = 0) {
  const std::size_t n = std::min(a.size(), b.size());
  const std::size_t begin = std::min(n_same, n);
  a = a.subspan(begin, n - begin);
  b = b.subspan(begin, n - begin);
  return begin +
         static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

}  // namespace ft::speculation
