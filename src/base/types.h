// The few value types that every layer speaks.
#pragma once

#include <cstdint>
#include <span>

namespace ft {

/// A vocabulary id. Negative values never denote a token.
using Token = std::int32_t;
using TokenSpan = std::span<const Token>;

/// 0-based decoder layer; `n_layers` itself denotes the state after the final norm where a function
/// says so.
using LayerIndex = std::int32_t;

}  // namespace ft
