// Token ids and their bytes. Built once by the loader, then read-only.
#pragma once

#include "base/types.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::text {

/// Ids reach below this. Public vocabularies end before 2^18; a file cannot make us allocate for an
/// absurd id.
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 20;

class Vocabulary {
 public:
  enum class Kind : std::uint8_t {
    kAbsent,   ///< no token has this id
    kBytes,    ///< made of bytes, may come out of merges
    kOpaque,   ///< in the model's vocabulary, but not written in the byte alphabet: decodes, is
               ///< never produced
    kAdded,    ///< matched in trusted text before anything else
    kSpecial,  ///< added, and invisible in generated text
  };

  /// Reserves for about this many tokens and bytes.
  void reserve(std::size_t n_tokens, std::size_t n_bytes);

  /// Adds a token; `id` must be in [0, kMaxTokens) and absent, `bytes` not empty. False if another
  /// kBytes token has the same bytes (kinds other than kBytes are not looked up, so they may
  /// repeat).
  bool add(Token id, std::string_view bytes, Kind kind);
  /// Turns a token of the model's vocabulary into an added one. find() still knows its bytes if it
  /// did before.
  void mark_added(Token id, Kind kind);

  /// Largest id + 1.
  std::size_t n_tokens() const noexcept { return entries_.size(); }
  Kind kind(Token id) const noexcept;
  /// Empty for an absent id. id must be in [0, n_tokens()).
  std::string_view bytes(Token id) const noexcept;
  /// The token that was added as kBytes with exactly these bytes.
  std::optional<Token> find(std::string_view bytes) const noexcept;

 private:
  struct Entry {
    std::uint32_t offset = 0;
    std::uint32_t size = 0;
    Kind kind = Kind::kAbsent;
  };
  struct Slot {
    Token id;                // negative where free
    std::uint32_t hash_tag;  // settles most comparisons without a look at the bytes
  };
  std::size_t slot_of(std::string_view bytes, std::uint64_t hash) const noexcept;
  void resize_slots(std::size_t n_slots);

  std::string arena_;
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // open addressing by bytes, a power of two
  std::size_t n_used_slots_ = 0;
};

}  // namespace ft::text
