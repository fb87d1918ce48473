// From a prompt to the first round: the only place that knows the order forward → observe → sample
// → observe.
#pragma once

#include "base/types.h"
#include "speculation/decode_round.h"
#include "speculation/forward_share.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

namespace ft::speculation {

struct PrefillResult {
  ConstMatrix logits;  // [1, n_vocab] of the last prompt position if this chunk holds it, else
                       // empty; dies at the next forward
  std::int64_t forward_us = 0;
  std::int64_t observe_us = 0;
};

/// A chunk of a prompt that waits for its forward. Nothing of the session has changed.
struct PrefillChunk {
  std::size_t n_tokens = 0;
  std::vector<LayerIndex> layers;  // that the sources want to see
};

/// The next n_tokens of the prompt, positions cache.length() …: 1 <= n_tokens <= n_prompt -
/// cache.length(). state.tokens is the prompt, n_prompt its size.
PrefillChunk begin_chunk(const RoundState& state, std::size_t n_tokens);

/// What the chunk wants of a forward; a view of both.
ForwardPart part_of(const RoundState& state, const PrefillChunk& chunk) noexcept;

/// After the forward: shows the rows to every source together with the whole prompt. If a source's
/// observe throws, the chunk stands and every other source has seen it.
PrefillResult end_chunk(RoundState& state, const PrefillChunk& chunk, const ForwardShare& share);

/// The three with a forward of their own. Throws Cancelled and what forward throws; then cache and
/// sources are as before.
///
/// A session that keeps a prefix of c tokens of an earlier sequence and goes on differently should
/// truncate its cache to c - 1, not c: the hidden row of position c - 1 pairs with the new token c,
/// and sources see only rows that are fed.
PrefillResult prefill_chunk(RoundState& state, std::size_t n_tokens, const std::stop_token& stop);

/// Samples the first token from the last chunk's logits, appends it to state.tokens and shows it to
/// every source. After it the invariant of a round holds. Throws Error if a logit is NaN; then
/// nothing has changed.
Token first_token(RoundState& state, ConstMatrix logits);

}  // namespace ft::speculation
