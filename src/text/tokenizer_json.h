// Reads tokenizer.json into the parts a tokenizer is made of. The only place that knows the file's
// layout.
#pragma once

#include "base/clock.h"
#include "base/types.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/splitter.h"
#include "text/vocabulary.h"

#include <array>
#include <memory>
#include <string_view>
#include <vector>

namespace ft::text {

struct TokenizerParts {
  Vocabulary vocabulary;
  std::array<Token, 256> byte_tokens{};
  MergeTable merges;
  bool ignores_merges = false;  ///< a piece that is a token is taken whole
  AddedTokenMatcher added_matcher;
  std::vector<Token> added_tokens;                         ///< sorted by their bytes
  std::vector<std::unique_ptr<const Splitter>> splitters;  ///< applied one after the other
};

/// Throws InvalidInput as Tokenizer::from_json() says. Ignored, because they change no id that
/// encode() returns: post_processor, truncation, padding, decoder options, trim_offsets, unk_token
/// (every byte must be a token).
TokenizerParts parse_tokenizer_json(std::string_view text,
                                    const std::shared_ptr<const Clock>& clock);

}  // namespace ft::text
