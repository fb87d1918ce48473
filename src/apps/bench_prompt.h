// Prompts of any length for benchmarks: real text, the same for everybody.
#pragma once

#include "foretoken/foretoken.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ft::apps {

struct BenchPromptOptions {
  std::optional<std::string> text;  // in place of the built-in text
  std::uint64_t seed = 0;           // of the order of the built-in sentences, or of random ids
};

/// Ids to take prompts from: a text's first `n` at least. The built-in text is a story's sentences,
/// drawn by the seed, so that it never repeats itself at length; a text of the user's is repeated
/// as often as it takes. A model without a tokenizer gets random ids. Throws InvalidInput if the
/// user's text has no tokens.
std::vector<foretoken::Token> bench_tokens(const foretoken::Engine& engine,
                                           const BenchPromptOptions& options,
                                           std::size_t n);

/// The ids a generation starts with when nothing stands before it: the opening of a dialogue.
std::vector<foretoken::Token> bench_opening(const foretoken::Engine& engine,
                                            const BenchPromptOptions& options);

}  // namespace ft::apps
