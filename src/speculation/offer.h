// What a draft source says it would propose, before it is asked to.
#pragma once

#include <cstddef>

namespace ft::speculation {

/// What a source would propose now, told without drafting.
struct Offer {
  static constexpr std::size_t kStrengths = 4;

  std::size_t n_tokens = 0;
  std::size_t strength = 0;  // 0 ... kStrengths - 1: how good the evidence is, in the source's view
};

}  // namespace ft::speculation
