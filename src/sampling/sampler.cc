#include "sampling/sampler.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace ft::sampling {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Scores below this add less than one unit in the last place of a double to a sum that starts at 1,
// even 154,880 of them: left out of the sum that top_p is a share of.
constexpr double kNegligibleScore = -50;

// The noise of base/random.h is below -log(-log(1 - 2^-53)) = 36.74.
constexpr std::size_t kNoiseBound = 37;

// What is looked at first for top_p; a trained model's mass is nearly always within e^-8 of its
// best token.
constexpr double kFirstTopPScore = -8;

void require(bool condition, const char* name, double value, const char* allowed) {
  if (!condition) fail("sampling: {} is {}, expected {}", name, value, allowed);
}

void check_params(const SamplingParams& p, std::size_t n_vocab) {
  require(std::isfinite(p.temperature) && p.temperature >= 0,
          "temperature",
          static_cast<double>(p.temperature),
          "a finite number >= 0");
  require(p.top_p > 0 && p.top_p <= 1,
          "top_p",
          static_cast<double>(p.top_p),
          "a number above 0, at most 1");
  require(
      p.min_p >= 0 && p.min_p <= 1, "min_p", static_cast<double>(p.min_p), "a number from 0 to 1");
  require(std::isfinite(p.repetition_penalty) && p.repetition_penalty > 0,
          "repetition_penalty",
          static_cast<double>(p.repetition_penalty),
          "a finite number above 0 (1 is off)");
  require(std::isfinite(p.presence_penalty),
          "presence_penalty",
          static_cast<double>(p.presence_penalty),
          "a finite number (0 is off)");
  require(std::isfinite(p.frequency_penalty),
          "frequency_penalty",
          static_cast<double>(p.frequency_penalty),
          "a finite number (0 is off)");
  for (const auto& [id, bias] : p.logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= n_vocab) {
      fail("sampling: logit_bias names token {}, expected 0 ... {}", id, n_vocab - 1);
    }
    if (std::isnan(bias) || bias == std::numeric_limits<float>::infinity()) {
      fail("sampling: logit_bias of token {} is {}, expected a finite number or -inf", id, bias);
    }
  }
}

[[noreturn]] void bad_logit(std::size_t id, float raw, float adjusted) {
  if (std::isfinite(raw)) {
    fail(
        "sampling: penalties and logit_bias turn the logit {} of token {} into {}, use smaller "
        "ones",
        raw,
        id,
        adjusted);
  }
  throw Error(
      ErrorCode::kInternal,
      fmt::format(
          "sampling: the logit of token {} is {}; the forward that made it is broken", id, raw));
}

// A loop of constant length without branches, which compilers turn into vectors. NaN is above.
template <std::size_t kCount>
bool none_above(const float* values, float bound) {
  std::uint32_t n_above = 0;
  for (std::size_t i = 0; i < kCount; ++i) n_above += values[i] <= bound ? 0U : 1U;
  return n_above == 0;
}

// The highest adjusted logit, ties to the lowest id. One comparison per element also finds what is
// not finite.
std::size_t argmax(std::span<const float> adjusted, std::span<const float> raw) {
  constexpr std::size_t kBlock = 64;
  float best = -std::numeric_limits<float>::infinity();
  std::size_t best_id = adjusted.size();
  std::size_t i = 0;
  while (i < adjusted.size()) {
    const std::size_t left = adjusted.size() - i;
    if (left >= kBlock && none_above<kBlock>(adjusted.data() + i, best)) {
      i += kBlock;
      continue;
    }
    for (const std::size_t end = i + std::min(left, kBlock); i < end; ++i) {
      if (adjusted[i] <= best) continue;
      if (!std::isfinite(adjusted[i])) bad_logit(i, raw[i], adjusted[i]);
      best = adjusted[i];
      best_id = i;
    }
  }
  if (best_id == adjusted.size()) {
    fail("sampling: no token can come, all {} logits are -inf (does logit_bias ban every token?)",
         adjusted.size());
  }
  return best_id;
}

}  // namespace

// Gumbel-max: the token with the highest score plus noise wins, equals go to the lowest id. Exact,
// but without the logarithms of tokens that cannot win: with u a token's uniform noise and d what
// its score lacks, it wins only if -log(-log(u)) >= d, and 1 - u > exp(-d) rules that out.
class Sampler::Race {
 public:
  Race(std::uint64_t seed, NoisePurpose purpose, std::uint64_t position)
      : seed_(seed), purpose_(purpose), position_(position) {
    for (std::size_t i = 0; i < exp_bounds_.size(); ++i) {
      exp_bounds_.at(i) = std::exp(-static_cast<double>(i)) * (1 + 1e-9);
    }
  }

  void enter(double score, Token id) {
    const double lacking = winner_.score - score;
    if (!(lacking < static_cast<double>(kNoiseBound))) return;
    const double u = noise_uniform(seed_, purpose_, position_, static_cast<std::uint32_t>(id));
    if (lacking > 0 && 1 - u > exp_bounds_.at(static_cast<std::size_t>(lacking))) return;
    const Candidate noisy{score - std::log(-std::log(u)), id};
    if (is_better(noisy, winner_)) winner_ = noisy;
  }

  Token winner() const noexcept { return winner_.id; }

 private:
  std::uint64_t seed_;
  NoisePurpose purpose_;
  std::uint64_t position_;
  // [i] is a hair above exp(-i): bounds exp(-d) from above for every d >= i.
  std::array<double, kNoiseBound + 1> exp_bounds_;
  Candidate winner_{std::numeric_limits<double>::lowest(), std::numeric_limits<Token>::max()};
};

std::uint64_t noise_position(NoisePurpose purpose, std::size_t position, std::uint64_t attempt) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t low = position;
  FT_CHECK(low <= kMax && attempt <= kMax);
  return purpose == NoisePurpose::kTarget ? low : attempt << 32 | low;
}

Sampler::Sampler(SamplingParams params, std::size_t n_vocab)
    : params_(std::move(params)),
      n_vocab_(n_vocab),
      min_score_(params_.min_p > 0 ? std::log(static_cast<double>(params_.min_p)) : -kInfinity) {
  FT_CHECK(n_vocab > 0);
  check_params(params_, n_vocab);
  if (params_.temperature > 0) inverse_temperature_ = 1 / static_cast<double>(params_.temperature);
}

Token Sampler::pick(std::span<const float> logits,
                    const History& history,
                    NoisePurpose purpose,
                    std::uint64_t attempt) {
  FT_CHECK(logits.size() == n_vocab_);
  const std::span<const float> adjusted = penalised(logits, history);
  const std::size_t best_id = argmax(adjusted, logits);
  const Best best{static_cast<Token>(best_id), adjusted[best_id]};
  if (params_.temperature == 0) return best.id;
  Race race(params_.seed, purpose, noise_position(purpose, history.tokens.size(), attempt));
  race.enter(0, best.id);  // first, because a high score to beat spares the others' logarithms
  if (has_filter()) {
    filter(adjusted, best);
    for (const Candidate& candidate : candidates_) race.enter(candidate.score, candidate.id);
  } else {
    for (std::size_t i = 0; i < adjusted.size(); ++i) {
      race.enter(score(adjusted[i], best), static_cast<Token>(i));
    }
  }
  return race.winner();
}

void Sampler::probabilities(std::span<const float> logits,
                            const History& history,
                            std::span<float> out) {
  FT_CHECK(logits.size() == n_vocab_ && out.size() == n_vocab_);
  const std::span<const float> adjusted = penalised(logits, history);
  const std::size_t best_id = argmax(adjusted, logits);
  const Best best{static_cast<Token>(best_id), adjusted[best_id]};
  std::fill(out.begin(), out.end(), 0.0f);
  if (params_.temperature == 0) {
    out[best_id] = 1;
    return;
  }
  if (has_filter()) {
    filter(adjusted, best);
  } else {
    gather(adjusted, best, -kInfinity);
  }
  double total = 0;
  for (const Candidate& candidate : candidates_) total += std::exp(candidate.score);
  for (const Candidate& candidate : candidates_) {
    out[static_cast<std::size_t>(candidate.id)] =
        static_cast<float>(std::exp(candidate.score) / total);
  }
}

std::span<const float> Sampler::penalised(std::span<const float> logits, const History& history) {
  const bool has_penalty = params_.repetition_penalty != 1 || params_.presence_penalty != 0 ||
                           params_.frequency_penalty != 0;
  if (!has_penalty && params_.logit_bias.empty()) return logits;
  work_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : params_.logit_bias) work_[static_cast<std::size_t>(id)] += bias;
  if (has_penalty) apply_penalties(history);
  return work_;
}

void Sampler::apply_penalties(const History& history) {
  n_seen_.resize(n_vocab_);
  n_output_.resize(n_vocab_);
  touched_.clear();
  for (std::size_t i = 0; i < history.tokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(history.tokens[i]);
    if (history.tokens[i] < 0 || id >= n_vocab_) continue;
    if (n_seen_[id]++ == 0) touched_.push_back(history.tokens[i]);
    if (i >= history.n_prompt) ++n_output_[id];
  }
  for (const Token token : touched_) {
    const auto id = static_cast<std::size_t>(token);
    float& logit = work_[id];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    if (n_output_[id] > 0) {
      logit -= params_.presence_penalty;
      logit -= params_.frequency_penalty * static_cast<float>(n_output_[id]);
    }
    n_seen_[id] = 0;
    n_output_[id] = 0;
  }
}

bool Sampler::has_filter() const noexcept {
  return (params_.top_k > 0 && params_.top_k < n_vocab_) || params_.top_p < 1 || params_.min_p > 0;
}

void Sampler::filter(std::span<const float> logits, const Best& best) {
  const bool has_top_k = params_.top_k > 0 && params_.top_k < n_vocab_;
  if (has_top_k) {
    gather_top_k(logits, best);
  } else if (params_.top_p < 1) {
    gather_top_p(logits, best);
  } else {
    gather(logits, best, min_score_);
  }
  if (has_top_k && params_.top_p < 1) {
    double total = 0;
    for (const Candidate& candidate : candidates_) total += std::exp(candidate.score);
    cut_at_top_p(total);
  }
  std::erase_if(candidates_, [this](const Candidate& c) { return c.score < min_score_; });
}

// Every possible token with at least min_score, in id order.
void Sampler::gather(std::span<const float> logits, const Best& best, double min_score) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double s = score(logits[i], best);
    if (s >= min_score && s > -kInfinity) candidates_.push_back({s, static_cast<Token>(i)});
  }
}

// The top_k best: a heap of those seen so far whose front is the worst.
void Sampler::gather_top_k(std::span<const float> logits, const Best& best) {
  candidates_.clear();
  double floor = -kInfinity;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double s = score(logits[i], best);
    if (!(s > floor)) continue;  // an equal score has a higher id than those in the heap
    if (candidates_.size() == params_.top_k) {
      std::pop_heap(candidates_.begin(), candidates_.end(), is_better);
      candidates_.pop_back();
    }
    candidates_.push_back({s, static_cast<Token>(i)});
    std::push_heap(candidates_.begin(), candidates_.end(), is_better);
    if (candidates_.size() == params_.top_k) floor = candidates_.front().score;
  }
}

// The fewest best tokens that hold top_p of the mass. Looks first at those that usually do.
void Sampler::gather_top_p(std::span<const float> logits, const Best& best) {
  double total = 0;
  for (const float logit : logits) {
    const double s = score(logit, best);
    if (s > kNegligibleScore) total += std::exp(s);
  }
  for (const double min_score : {kFirstTopPScore, 3 * kFirstTopPScore}) {
    gather(logits, best, min_score);
    if (cut_at_top_p(total)) return;
  }
  gather(logits, best, -kInfinity);
  cut_at_top_p(total);
}

// Leaves the fewest best candidates whose mass is at least top_p of `total`. False, and all are
// left, if they do not have as much. A selection, not a sort: a flat law has a hundred thousand
// survivors.
bool Sampler::cut_at_top_p(double total) {
  double wanted = static_cast<double>(params_.top_p) * total;
  auto begin = candidates_.begin();  // those before it stay
  auto end = candidates_.end();      // those from it on go, if `wanted` is found
  while (begin != end) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, is_better);
    double mass = 0;
    for (auto it = begin; it != middle; ++it) mass += std::exp(it->score);
    if (mass >= wanted) {
      end = middle;
      continue;
    }
    wanted -= mass + std::exp(middle->score);
    begin = middle + 1;
    if (wanted <= 0) end = begin;
  }
  if (wanted > 0 && end == candidates_.end()) return false;
  candidates_.erase(end, candidates_.end());
  return true;
}

}  // namespace ft::sampling
