#include "base/error.h"
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace ft::sampling {
namespace {

// log of the sum of exp(logit), in index order.
double log_sum_exp(std::span<const float> logits) {
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] <= best) continue;
    if (!std::isfinite(logits[i])) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("log-probabilities: the logit of token {} is {}; the forward that "
                              "made it is broken",
                              i,
                              logits[i]));
    }
    best = logits[i];
  }
  if (std::isinf(best)) fail("log-probabilities: all {} logits are -inf", logits.size());
  const auto shift = static_cast<double>(best);
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - shift);
  return shift + std::log(total);
}

}  // namespace

float token_logprob(std::span<const float> logits, Token id) {
  FT_CHECK(id >= 0 && static_cast<std::size_t>(id) < logits.size());
  const double norm = log_sum_exp(logits);
  return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) - norm);
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t n) {
  const double norm = log_sum_exp(logits);
  // While gathering, `logprob` holds the raw logit: rounding the difference could make ties.
  const auto is_better = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
  };
  n = std::min(n, logits.size());
  std::vector<TokenLogprob> top;
  for (std::size_t i = 0; i < logits.size() && n > 0; ++i) {
    if (top.size() == n) {
      if (logits[i] <= top.front().logprob) continue;
      std::pop_heap(top.begin(), top.end(), is_better);
      top.pop_back();
    }
    top.push_back({static_cast<Token>(i), logits[i]});
    std::push_heap(top.begin(), top.end(), is_better);
  }
  std::sort_heap(top.begin(), top.end(), is_better);
  for (TokenLogprob& entry : top) {
    entry.logprob = static_cast<float>(static_cast<double>(entry.logprob) - norm);
  }
  return top;
}

}  // namespace ft::sampling
