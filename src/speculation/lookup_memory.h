// What lookups cost in memory: an upper bound per token, spare room of growing tables included, for
// the plan that is made before anything is loaded. Tests hold the tables to it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ft::speculation {

/// Tokens and three chains of 4 bytes with room for twice as many, at most four heads per chain.
inline constexpr std::size_t kNgramBytesPerToken = 80;
/// Two states, three edges of 16 bytes and the token with room for twice as many, nine slots.
inline constexpr std::size_t kSuffixBytesPerToken = 208;
/// Three copies of the token, and a list of its own in a hash table if no other token is equal.
inline constexpr std::size_t kPredictionBytesPerToken = 128;
/// Of the output that is compared with a prediction, with room for twice as many.
inline constexpr std::size_t kPredictedBytesPerToken = 12;

/// Of the sessions of one engine, one at a time, with caches of `context` positions.
inline std::uint64_t lookup_bytes(std::size_t context) {
  return std::uint64_t{context} * (kNgramBytesPerToken + kSuffixBytesPerToken);
}

/// Of the texts of earlier sessions, which count once more while the oldest are dropped.
inline std::uint64_t history_bytes(std::size_t n_tokens) {
  return std::uint64_t{n_tokens} * kSuffixBytesPerToken * 3 / 2;
}

/// Of a request that predicts `n_tokens`, with caches of `context` positions.
inline std::uint64_t prediction_bytes(std::size_t n_tokens, std::size_t context) {
  if (n_tokens == 0) return 0;
  return std::uint64_t{n_tokens} * kPredictionBytesPerToken +
         std::uint64_t{context} * kPredictedBytesPerToken;
}

}  // namespace ft::speculation
