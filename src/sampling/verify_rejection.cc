#include "base/error.h"
#include "base/random.h"
#include "sampling/verify.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace ft::sampling {
namespace {

// A law of 154,880 f32 numbers, each rounded to half a unit in the last place, sums to 1 within
// 1e-7; a law that is not normalised at all is further off than this.
constexpr double kSumTolerance = 1e-4;

// Throws unless q is the law of a draw that can give `draft`.
void check_law(std::span<const float> q, Token draft, std::size_t n_vocab) {
  FT_CHECK(q.size() == n_vocab);
  double sum = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    if (!(q[i] >= 0)) {
      throw LogicError(
          fmt::format("ratio mode: a draft's law gives token {} probability {}", i, q[i]));
    }
    sum += static_cast<double>(q[i]);
  }
  if (!(std::abs(sum - 1) <= kSumTolerance)) {
    throw LogicError(fmt::format("ratio mode: a draft's law sums to {}, expected 1", sum));
  }
  if (q[static_cast<std::size_t>(draft)] == 0) {
    throw LogicError(
        fmt::format("ratio mode: token {} was drafted, and its law gives it probability 0", draft));
  }
}

// The walk over one window. Probabilities are f32, everything made of them is double.
class Walk {
 public:
  Walk(const DrawnDrafts& drafts, Sampler& sampler) : drafts_(drafts), sampler_(sampler) {}

  // Whether draft i, at `position`, stands under p.
  bool is_accepted(std::size_t i, std::size_t position, std::span<const float> p) const {
    const auto draft = static_cast<std::size_t>(drafts_.tokens[i]);
    const std::span<const float> q = law(i);
    if (!q.empty()) check_law(q, drafts_.tokens[i], p.size());
    const double drafted = q.empty() ? 1 : static_cast<double>(q[draft]);
    return uniform(NoisePurpose::kAccept, position) * drafted < static_cast<double>(p[draft]);
  }

  // The token in place of the rejected draft i.
  Token recovered(std::size_t i, std::size_t position, std::span<const float> p) const {
    const double u = uniform(NoisePurpose::kResidual, position);
    const auto draft = static_cast<std::size_t>(drafts_.tokens[i]);
    const std::span<const float> q = law(i);
    const auto residual = [&](std::size_t id) {
      if (q.empty()) return id == draft ? 0.0 : static_cast<double>(p[id]);
      return std::max(0.0, static_cast<double>(p[id]) - static_cast<double>(q[id]));
    };
    double total = 0;
    for (std::size_t id = 0; id < p.size(); ++id) total += residual(id);
    if (total > 0) return draw(u * total, p.size(), residual);
    const auto target = [&](std::size_t id) { return static_cast<double>(p[id]); };
    for (std::size_t id = 0; id < p.size(); ++id) total += target(id);
    return draw(u * total, p.size(), target);
  }

 private:
  std::span<const float> law(std::size_t i) const {
    return drafts_.laws.empty() ? std::span<const float>{} : drafts_.laws[i];
  }

  double uniform(NoisePurpose purpose, std::size_t position) const {
    return noise_uniform(
        sampler_.params().seed, purpose, noise_position(purpose, position, drafts_.attempt), 0);
  }

  // The first token whose weight, added to those before it, passes `at`: inverse of the
  // distribution function. The sums are those that made the total, in the same order, so that the
  // last token with weight is the last that can come.
  template <typename Weight>
  static Token draw(double at, std::size_t n_vocab, const Weight& weight) {
    double sum = 0;
    std::size_t last = 0;
    for (std::size_t id = 0; id < n_vocab; ++id) {
      const double w = weight(id);
      if (w <= 0) continue;
      sum += w;
      last = id;
      if (sum > at) break;
    }
    return static_cast<Token>(last);
  }

  const DrawnDrafts& drafts_;
  Sampler& sampler_;
};

}  // namespace

Verdict verify_rejection(const History& committed,
                         const DrawnDrafts& drafts,
                         ConstMatrix target_logits,
                         TokenSpan stop_tokens,
                         Sampler& sampler) {
  FT_CHECK(target_logits.n_rows == drafts.tokens.size() + 1);
  FT_CHECK(drafts.laws.empty() || drafts.laws.size() == drafts.tokens.size());
  if (drafts.tokens.empty() || sampler.params().temperature == 0) {
    return verify_exact(committed, drafts.tokens, target_logits, stop_tokens, sampler);
  }
  const Walk walk(drafts, sampler);
  std::vector<float> p(target_logits.n_cols);
  std::vector<Token> tokens;  // what each row's law may look at
  tokens.reserve(committed.tokens.size() + drafts.tokens.size());
  tokens.assign(committed.tokens.begin(), committed.tokens.end());
  for (std::size_t i = 0; i < drafts.tokens.size(); ++i) {
    sampler.probabilities(target_logits.row(i), {tokens, committed.n_prompt}, p);
    if (!walk.is_accepted(i, tokens.size(), p)) return {i, walk.recovered(i, tokens.size(), p)};
    const Token draft = drafts.tokens[i];
    const bool is_stop =
        std::find(stop_tokens.begin(), stop_tokens.end(), draft) != stop_tokens.end();
    if (is_stop) return {i, draft};
    tokens.push_back(draft);
  }
  const Token bonus =
      sampler.pick(target_logits.row(drafts.tokens.size()), {tokens, committed.n_prompt});
  return {drafts.tokens.size(), bonus};
}

}  // namespace ft::sampling
