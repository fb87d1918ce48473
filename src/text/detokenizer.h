// Token ids to text, a piece at a time, never half a character.
#pragma once

#include "base/types.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::text {

/// Streams the visible text of a generation. Special tokens produce nothing. Bytes that do not
/// complete a UTF-8 character are held back; bytes that can never become one turn into U+FFFD (one
/// per maximal invalid subpart, as Unicode 15 section 3.9 recommends). Stop strings are found
/// across token borders and are never emitted, nor is anything behind them; text that may still
/// become a stop string is held back. Of several stop strings the one that is complete first
/// counts; of those complete at the same character, the longest.
class Detokenizer {
 public:
  /// `tokenizer` must outlive this object. Throws InvalidInput for a stop string that is empty or
  /// no UTF-8.
  Detokenizer(const Tokenizer& tokenizer, std::vector<std::string> stop_strings);

  /// Text that became final with this token (may be empty). Ids outside the vocabulary, which a
  /// model with padded logits can produce, are invisible too. Cost: O(bytes of the token × stop
  /// strings), whatever is held back.
  std::string push(Token id);
  /// Text still held back, at the end of the generation. Afterwards the object is spent.
  std::string finish();
  /// Set once a stop string was completed: its index in the list. push() must not be called again.
  std::optional<std::size_t> matched_stop() const noexcept { return matched_stop_; }

 private:
  /// A stop string and how much of it the text now ends with (Knuth, Morris, Pratt 1977).
  struct Stop {
    std::string text;
    std::vector<std::size_t>
        fallbacks;  // by matched length: the next shorter prefix that is also a suffix
    std::size_t n_matched = 0;
    void advance(char byte) noexcept;
  };

  void accept(std::string_view characters);
  std::string release(std::size_t n_kept);
  std::size_t n_held() const noexcept { return held_.size() - held_begin_; }

  const Tokenizer* tokenizer_;
  std::vector<Stop> stops_;
  std::string partial_character_;
  std::string held_;  // from held_begin_ on: text that is not out yet
  std::size_t held_begin_ = 0;
  std::optional<std::size_t> matched_stop_;
};

}  // namespace ft::text
