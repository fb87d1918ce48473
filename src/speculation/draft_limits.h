// Bounds that sources, planner and requests share.
#pragma once

#include <cstddef>

namespace ft::speculation {

/// The longest draft of a round.
inline constexpr std::size_t kMaxDraftTokens = 64;

}  // namespace ft::speculation
