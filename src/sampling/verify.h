// The accept walk: which drafts the target agrees with, and what it says next. Pure mathematics,
// tested as such. Words after Leviathan et al. 2022 (arXiv 2211.17192): accepted, recovered, bonus.
#pragma once

#include "base/types.h"
#include "sampling/sampler.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>

namespace ft::sampling {

/// How drafts are judged; never both in one request.
enum class AcceptMode : std::uint8_t {
  kMatch,  // a draft stands if it is what the target would have said: the text of plain decoding
  kRatio,  // rejection sampling: the law of plain decoding
};

struct Verdict {
  std::size_t n_accepted = 0;  // drafts that stand
  Token next = 0;  // recovered token at the first disagreement, bonus after full acceptance
};

/// Match mode: row i's own sample under the request's law and keyed noise is compared with draft i;
/// the emitted tokens are by construction those of plain decoding. An accepted draft that is a stop
/// token ends the walk there: it becomes `next`. committed: all tokens so far, the pending one
/// included. target_logits: [n_drafts + 1, n_vocab] f32; row i follows committed + drafts[0, i).
Verdict verify_exact(const History& committed,
                     TokenSpan drafts,
                     ConstMatrix target_logits,
                     TokenSpan stop_tokens,
                     Sampler& sampler);

}  // namespace ft::sampling
