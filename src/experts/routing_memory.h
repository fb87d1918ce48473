// Which experts the rows of a token chose, layer by layer, when it was last fed: a guess what they
// will choose if the token comes again. Experts follow from the token as well as from its context,
// so this is right for a part of them only.
#pragma once

#include "base/types.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft::experts {

/// Holds the tokens seen last, as many as fit. Not thread-safe.
class RoutingMemory {
 public:
  static constexpr std::size_t kMaxTokens = 4096;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  /// For rows that choose `n_active` experts, numbered below 65535, in each of `n_layers` layers;
  /// both at least 1. Has room for kMaxTokens or what kMaxBytes hold, but for a few at least.
  RoutingMemory(std::size_t n_layers, std::size_t n_active);

  /// A row of `token` chose these `n_active` experts, the best first.
  void record(Token token, std::size_t layer, std::span<const std::uint32_t> experts);
  /// Appends what the token chose there when it was last fed; nothing if that is not known.
  void recall(Token token, std::size_t layer, std::vector<std::uint32_t>& experts) const;

  std::size_t n_tokens() const noexcept { return entries_.size(); }  // room
  static std::size_t bytes_for(std::size_t n_layers, std::size_t n_active) noexcept;

 private:
  // A token lives in one of the entries of its set; the one not seen for longest makes room.
  static constexpr std::size_t kSetEntries = 4;
  static constexpr std::uint16_t kNone = 0xFFFF;
  struct Entry {
    Token token = -1;
    std::uint64_t last_tick = 0;
  };

  static std::size_t n_tokens_for(std::size_t n_layers, std::size_t n_active) noexcept;
  static std::size_t entry_bytes(std::size_t n_layers, std::size_t n_active) noexcept {
    return sizeof(Entry) + n_layers * n_active * sizeof(std::uint16_t);
  }
  std::size_t first_of_set(Token token) const noexcept;
  std::span<std::uint16_t> experts_of(std::size_t entry, std::size_t layer) noexcept;

  std::size_t n_layers_;
  std::size_t n_active_;
  std::vector<Entry> entries_;
  std::vector<std::uint16_t> experts_;  // [entries, n_layers, n_active]; kNone: not known
  std::uint64_t tick_ = 0;
};

}  // namespace ft::experts
