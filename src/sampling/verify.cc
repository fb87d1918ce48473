#include "sampling/verify.h"

#include "base/error.h"

#include <algorithm>
#include <vector>

namespace ft::sampling {

Verdict verify_exact(const History& committed,
                     TokenSpan drafts,
                     ConstMatrix target_logits,
                     TokenSpan stop_tokens,
                     Sampler& sampler) {
  FT_CHECK(target_logits.n_rows == drafts.size() + 1);
  if (drafts.empty()) return {0, sampler.pick(target_logits.row(0), committed)};

  std::vector<Token> tokens;  // what each row's sample may look at
  tokens.reserve(committed.tokens.size() + drafts.size());
  tokens.assign(committed.tokens.begin(), committed.tokens.end());
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const Token sample = sampler.pick(target_logits.row(i), {tokens, committed.n_prompt});
    const bool is_stop =
        std::find(stop_tokens.begin(), stop_tokens.end(), sample) != stop_tokens.end();
    if (sample != drafts[i] || is_stop) return {i, sample};
    tokens.push_back(sample);
  }
  const Token bonus = sampler.pick(target_logits.row(drafts.size()), {tokens, committed.n_prompt});
  return {drafts.size(), bonus};
}

}  // namespace ft::sampling
