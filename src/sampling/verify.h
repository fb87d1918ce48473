// The accept walk: which drafts the target agrees with, and what it says next. Pure mathematics,
// tested as such. Words after Leviathan et al. 2022 (arXiv 2211.17192): accepted, recovered, bonus.
#pragma once

#include "base/types.h"
#include "sampling/sampler.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <span>

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

/// The drafts of one window, and what they were drawn from.
struct DrawnDrafts {
  TokenSpan tokens;
  /// One per token, or none at all. [n_vocab] f32: the law the token was drawn from, as it was
  /// sampled, filters included. Empty: the token is not a draw, or its law is not known.
  std::span<const std::span<const float>> laws;
  std::uint64_t attempt = 0;  // tells this window's draws from those of every other one
};

/// Ratio mode (Leviathan et al., Chen et al. 2023, arXiv 2302.01318): the emitted tokens follow the
/// law of plain decoding, whatever was drafted. Draft x is accepted with probability
/// min(1, p(x) / q(x)): p is the request's law on the history with the drafts accepted before, q
/// the draft's own. The first rejected one is replaced by a draw from (p - q)+ normalised; after
/// full acceptance the bonus is drawn from p. Without a law x stands with probability p(x) and is
/// else replaced by a draw from p without x, which is right for any x that knows nothing of the
/// noise used here: kAccept and kResidual of `attempt`, kTarget for the bonus. Drafts must
/// therefore be drawn with kDraft. If p - q is nowhere positive although x was rejected, which
/// rounding alone can bring about, the draw is from p. At temperature 0, and without drafts, this
/// is verify_exact(). Shapes and stop tokens as there. Throws LogicError for a law that is none
/// (not finite, negative, sum off 1) or that says its token cannot come: with a wrong q the text
/// would be wrong, so no rule takes over.
Verdict verify_rejection(const History& committed,
                         const DrawnDrafts& drafts,
                         ConstMatrix target_logits,
                         TokenSpan stop_tokens,
                         Sampler& sampler);

}  // namespace ft::sampling
