#include "speculation/prefill.h"

#include "base/error.h"
#include "speculation/observers.h"

#include <array>
#include <vector>

namespace ft::speculation {

PrefillResult prefill_chunk(RoundState& state, std::size_t n_tokens, const std::stop_token& stop) {
  const TokenSpan prompt = *state.tokens;
  const std::size_t begin = state.cache->length();
  FT_CHECK(prompt.size() == state.n_prompt && begin < prompt.size());
  FT_CHECK(n_tokens >= 1 && n_tokens <= prompt.size() - begin);
  if (stop.stop_requested()) throw Cancelled();
  const bool is_last = begin + n_tokens == prompt.size();

  const std::int64_t start_us = state.clock->now_us();
  const std::vector<LayerIndex> layers = tapped_layers(state.sources);
  const std::array slices = {
      models::SequenceSlice{state.cache, prompt.subspan(begin, n_tokens), is_last ? 1u : 0u}};
  const models::ForwardOutput& out = state.model->forward(slices, layers, stop, *state.workspace);

  const std::int64_t forwarded_us = state.clock->now_us();
  show_all(state, {begin, n_tokens, layers, out.taps});
  PrefillResult result;
  if (is_last) result.logits = out.logits;
  result.forward_us = forwarded_us - start_us;
  result.observe_us = state.clock->now_us() - forwarded_us;
  return result;
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
