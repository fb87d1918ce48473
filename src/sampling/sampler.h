// From logits to a token. Pure in effect: history is an argument, noise is keyed by (seed, purpose,
// position), so the same position gives the same token however many rows were drafted or sampled
// before.
#pragma once

#include "base/random.h"
#include "base/types.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ft::sampling {

/// Request-level sampling. Order of the stages: logit bias, repetition penalty, presence and
/// frequency penalty, temperature, top-k, top-p, min-p, draw.
struct SamplingParams {
  float temperature = 1;  // 0: greedy (argmax of the penalised logits, ties to the lowest id)
  std::size_t top_k = 0;  // 0: off
  float top_p = 1;        // 1: off
  float min_p = 0;        // 0: off
  float repetition_penalty =
      1;  // > 0; divides positive, multiplies negative logits of tokens in prompt or output
  float presence_penalty = 0;   // subtracted once from tokens of the output
  float frequency_penalty = 0;  // subtracted per occurrence in the output
  std::vector<std::pair<Token, float>> logit_bias;
  std::uint64_t seed = 0;
};

/// The tokens a choice may look at: everything before the sampled position. Its size is that
/// position's index.
struct History {
  TokenSpan tokens;
  std::size_t n_prompt = 0;  // tokens[0, n_prompt) are the prompt
};

/// Where the noise of a draw lies in its purpose's stream: the `position` that base/random.h takes.
/// What is drawn for a position can be drawn again in a later round, so all purposes but kTarget
/// carry the round's `attempt` (high half; the position is the low half); kTarget's token of a
/// position is committed once and has the position alone. Throws LogicError if a half does not hold
/// its value.
std::uint64_t noise_position(NoisePurpose purpose, std::size_t position, std::uint64_t attempt);

/// One per session; holds scratch memory, no state that outlives a call.
class Sampler {
 public:
  /// Throws InvalidInput naming the parameter, its value and the allowed range (temperature < 0,
  /// NaN, top_p outside (0, 1], min_p outside [0, 1], repetition_penalty <= 0, a biased id outside
  /// the vocabulary, ...). Biases of one id add up; -inf bans it.
  Sampler(SamplingParams params, std::size_t n_vocab);

  const SamplingParams& params() const noexcept { return params_; }

  /// The token at position history.tokens.size(). Gumbel-max over the filtered law with noise keyed
  /// by (seed, purpose, noise_position(), id); temperature 0 draws nothing. Equal values go to the
  /// lowest id. Logits [n_vocab] f32; -inf is a token that cannot come. Throws Error if a logit is
  /// NaN or +inf, InvalidInput if penalties or biases make it so or if all are -inf.
  Token pick(std::span<const float> logits,
             const History& history,
             NoisePurpose purpose = NoisePurpose::kTarget,
             std::uint64_t attempt = 0);

  /// The law pick() draws from, [n_vocab] f32, sums to 1; filtered ids are exactly 0; greedy is a
  /// point mass. Throws as pick() does.
  void probabilities(std::span<const float> logits, const History& history, std::span<float> out);

 private:
  struct Best {
    Token id;
    float logit;
  };
  struct Candidate {
    double score;  // (logit - best logit) / temperature: at most 0, and 0 for the best
    Token id;
  };
  class Race;

  static bool is_better(const Candidate& a, const Candidate& b) noexcept {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
  }

  std::span<const float> penalised(std::span<const float> logits, const History& history);
  void apply_penalties(const History& history);
  double score(float logit, const Best& best) const noexcept {
    return (static_cast<double>(logit) - static_cast<double>(best.logit)) * inverse_temperature_;
  }
  bool has_filter() const noexcept;
  void filter(std::span<const float> logits, const Best& best);
  void gather(std::span<const float> logits, const Best& best, double min_score);
  void gather_top_k(std::span<const float> logits, const Best& best);
  void gather_top_p(std::span<const float> logits, const Best& best);
  bool cut_at_top_p(double total);

  SamplingParams params_;
  std::size_t n_vocab_;
  double inverse_temperature_ = 0;
  double min_score_;                   // of min_p
  std::vector<float> work_;            // penalised logits
  std::vector<std::uint32_t> n_seen_;  // per id, all zero between calls
  std::vector<std::uint32_t> n_output_;
  std::vector<Token> touched_;
  std::vector<Candidate> candidates_;  // survivors of the filters
};

struct TokenLogprob {
  Token id = 0;
  float logprob = 0;
};
/// Natural log-probabilities of the plain softmax of raw logits: of one token, and of the n best
/// (ties to the lowest id). f32 results of double arithmetic in index order. Throws Error if a
/// logit is NaN or +inf.
float token_logprob(std::span<const float> logits, Token id);
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t n);

}  // namespace ft::sampling
