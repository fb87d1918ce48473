#include "speculation/prefill.h"

#include "base/error.h"
#include "speculation/observers.h"

#include <vector>

namespace ft::speculation {

PrefillChunk begin_chunk(const RoundState& state, std::size_t n_tokens) {
  const std::size_t n_prompt = state.tokens->size();
  const std::size_t begin = state.cache->length();
  FT_CHECK(n_prompt == state.n_prompt && begin < n_prompt);
  FT_CHECK(n_tokens >= 1 && n_tokens <= n_prompt - begin);
  return {n_tokens, tapped_layers(state.sources)};
}

ForwardPart part_of(const RoundState& state, const PrefillChunk& chunk) noexcept {
  const TokenSpan rest = TokenSpan(*state.tokens).subspan(state.cache->length());
  const std::size_t n_logits = chunk.n_tokens == rest.size() ? 1 : 0;
  return {.slice = {state.cache, rest.first(chunk.n_tokens), n_logits}, .layers = chunk.layers};
}

PrefillResult end_chunk(RoundState& state, const PrefillChunk& chunk, const ForwardShare& share) {
  const std::size_t n_fed = state.cache->length();
  const std::int64_t start_us = state.clock->now_us();
  show_all(state, {n_fed - chunk.n_tokens, chunk.n_tokens, share.layers, share.taps});
  PrefillResult result;
  if (n_fed == state.n_prompt) result.logits = share.logits;
  result.forward_us = share.forward_us;
  result.observe_us = state.clock->now_us() - start_us;
  return result;
}

PrefillResult prefill_chunk(RoundState& state, std::size_t n_tokens, const std::stop_token& stop) {
  const PrefillChunk chunk = begin_chunk(state, n_tokens);
  if (stop.stop_requested()) throw Cancelled();
  const ForwardPart part = part_of(state, chunk);
  const SharedForward forward(forward_context(state), {&part, 1}, stop);
  return end_chunk(state, chunk, forward.share(0));
}

Token first_token(RoundState& state, ConstMatrix logits) {
  std::vector<Token>& tokens = *state.tokens;
  FT_CHECK(tokens.size() == state.n_prompt && tokens.size() == state.cache->length());
  FT_CHECK(logits.n_rows == 1);
  {
    const StageScope stage(state.meter, Stage::kSampling);
    tokens.push_back(state.sampler->pick(logits.row(0), {tokens, state.n_prompt}));
  }
  const std::vector<LayerIndex> layers = tapped_layers(state.sources);
  const std::vector<ConstMatrix> no_rows(layers.size());
  show_all(state, {state.n_prompt, 0, layers, no_rows});
  return tokens.back();
}

}  // namespace ft::speculation
