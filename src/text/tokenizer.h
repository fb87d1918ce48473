// Byte-level BPE as tokenizer.json describes it. Immutable after load; safe to share between
// threads.
#pragma once

#include "base/clock.h"
#include "base/types.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::text {

/// A stretch of prompt text. Added tokens (`<|user|>` ...) are recognised inside trusted text only,
/// so that what a user types can never become a role marker. An added token must lie within one run
/// of adjacent trusted segments.
struct TextSegment {
  std::string text;
  bool is_trusted = true;
};

class Tokenizer {
 public:
  /// Parses the text of tokenizer.json. Supports model BPE over all 256 bytes, pre-tokenizers
  /// ByteLevel and Split (isolated) alone or in a Sequence, no normalizer. Throws InvalidInput for
  /// anything else that would change ids (lstrip, rstrip, single_word, add_prefix_space,
  /// byte_fallback, ...), for ids out of range or given twice, for merges of unknown tokens, for
  /// text that is no JSON.
  /// `clock` bounds how long a pattern may take.
  static Tokenizer from_json(std::string_view tokenizer_json,
                             const std::shared_ptr<const Clock>& clock);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Largest id + 1.
  std::size_t n_tokens() const noexcept;

  /// Ids of `text`, added tokens matched (leftmost, then longest). Nothing is added in front or
  /// behind. Total: any byte string below 4 GiB has an encoding, also invalid UTF-8. Time is
  /// near-linear in the length, also for one huge piece. Only a split pattern other than GLM's can
  /// fail: InvalidInput if it backtracks without bound on this text.
  std::vector<Token> encode(std::string_view text) const;
  /// The same over segments; see TextSegment.
  std::vector<Token> encode(std::span<const TextSegment> segments) const;

  /// The exact bytes of one token (added tokens: their text). Empty for ids that the vocabulary
  /// leaves out. The view lives as long as the tokenizer. id must be in [0, n_tokens()).
  std::string_view token_bytes(Token id) const;
  /// True for added tokens with "special": true.
  bool is_special(Token id) const noexcept;
  /// True if the vocabulary has this id.
  bool has_token(Token id) const noexcept;
  /// Id of a token by its text as in the added-token table; nullopt if it has none.
  std::optional<Token> added_token(std::string_view content) const;

  /// Bytes of a sequence, special tokens included. Throws InvalidInput for an id outside the
  /// vocabulary.
  std::string decode(TokenSpan ids) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace ft::text
