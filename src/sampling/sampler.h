// From logits to a token. Pure in effect: history is an argument, noise is keyed by (seed, purpose, position).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/types.h"

namespace ft::sampling {

/// Request-level sampling. Order of the stages: logit bias, repetition penalty, presence and frequency penalty,
/// temperature, top-k, top-p, min-p, draw.
struct SamplingParams {
  float temperature = 1;         // 0: greedy (argmax of the penalised logits, ties to the lowest id)
  std::size_t top_k = 0;         // 0: off
  float top_p = 1;               // 1: off
  float min_p = 0;               // 0: off
  float repetition_penalty = 1;  // > 0; divides positive, multiplies negative logits of tokens in prompt or output
  float presence_penalty = 0;    // subtracted once from tokens of the output
  float frequency_penalty = 0;   // subtracted per occurrence in the output
  std::vector<std::pair<Token, float>> logit_bias;
  std::uint64_t seed = 0;
};

/// The tokens a choice may look at: everything before the sampled position. Its size is that position's index.
struct History {
  TokenSpan tokens;
  std::size_t n_prompt = 0;  // tokens[0, n_prompt) are the prompt
};

/// One per session; holds scratch memory, no state that outlives a call.
class Sampler {
 public:
  /// Throws InvalidInput naming the parameter, its value and the allowed range (temperature < 0, NaN, top_p outside
  /// (0, 1], min_p outside [0, 1], repetition_penalty <= 0, a biased id outside the vocabulary, ...).
  Sampler(SamplingParams params, std::size_t n_vocab);

  const SamplingParams& params() const noexcept { return params_; }

  /// The token at position history.tokens.size(). Gumbel-max over the filtered law with noise keyed by (seed, purpose,
  /// position, id); temperature 0 draws nothing. Throws Error if a logit is NaN. Logits [n_vocab] f32.
  Token pick(std::span<const float> logits,
             const History& history,
             NoisePurpose purpose = NoisePurpose::kTarget);

  /// The law pick() draws from, [n_vocab] f32, sums to 1; filtered ids are exactly 0; greedy is a point mass.
  void probabilities(std::span<const float> logits, const History& history, std::span<float> out);

 private:
  SamplingParams params_;
  std::size_t n_vocab_;
  std::vector<float> work_;
  std::vector<Token> order_;
};

struct TokenLogprob {
  Token id = 0;
  float logprob = 0;
};
/// Natural log-probabilities of the plain softmax of raw logits: of one token, and of the n best (ties to the lowest
/// id). f32 results of double arithmetic in index order.
float token_logprob(std::span<const float> logits, Token id);
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t n);

}  // namespace ft::sampling
