// Token ids to text, a piece at a time, never half a character.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "text/tokenizer.h"

namespace ft::text {

/// Streams the visible text of a generation. Special tokens produce nothing. Bytes that do not complete a UTF-8
/// character are held back; bytes that can never become one turn into U+FFFD (one per maximal invalid subpart, as
/// Unicode 15 section 3.9 recommends). Stop strings are found across token borders and are never emitted, nor is
/// anything behind them; text that may still become a stop string is held back.
class Detokenizer {
 public:
  /// `tokenizer` must outlive this object. Empty stop strings are refused with InvalidInput.
  Detokenizer(const Tokenizer& tokenizer, std::vector<std::string> stop_strings);

  /// Text that became final with this token (may be empty).
  std::string push(Token id);
  /// Text still held back, at the end of the generation. Afterwards the object is spent.
  std::string finish();
  /// Set once a stop string was completed: its index in the list. push() must not be called again.
  std::optional<std::size_t> matched_stop() const noexcept { return matched_stop_; }

 private:
  std::string release();
  const Tokenizer* tokenizer_;
  std::vector<std::string> stop_strings_;
  std::string partial_character_;
  std::string held_;
  std::optional<std::size_t> matched_stop_;
};

}  // namespace ft::text
