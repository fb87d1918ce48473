#include "testing/adversary_source.h"

#include "base/error.h"
#include "base/random.h"

namespace ft::testing {

std::uint64_t AdversarySource::random(std::uint32_t index) const {
  return noise_bits(seed_, NoisePurpose::kDraft, n_calls_, index);
}

void AdversarySource::observe(const speculation::Committed& committed) {
  ++n_observed_;
  pending_ = committed.sequence.back();
  if (malice_ == Malice::kThrowsInObserve) throw IoError("adversary: refuses to observe");
}

speculation::Draft AdversarySource::propose(const speculation::DraftRequest& request,
                                            std::stop_token /*stop*/) {
  const std::size_t max_tokens = request.max_tokens;
  ++n_calls_;
  speculation::Draft draft;
  switch (malice_) {
    case Malice::kRandomTokens:
      draft.tokens.resize(random(0) % (max_tokens + 1));
      for (std::size_t i = 0; i < draft.tokens.size(); ++i) {
        draft.tokens[i] = static_cast<Token>(random(static_cast<std::uint32_t>(i + 1)) % n_vocab_);
      }
      break;
    case Malice::kEndOfText:
      draft.tokens.assign(max_tokens, stop_token_);
      break;
    case Malice::kRepeatsPending:
      draft.tokens.assign(max_tokens, pending_);
      break;
    case Malice::kTooMany:
      draft.tokens.assign(max_tokens + 1, pending_);
      break;
    case Malice::kOutsideVocabulary:
      draft.tokens.assign(max_tokens, static_cast<Token>(n_vocab_));
      break;
    case Malice::kNegative:
      draft.tokens.assign(max_tokens, -1);
      break;
    case Malice::kThrows:
      throw IoError("adversary: refuses to draft");
    case Malice::kThrowsInObserve:
      break;
  }
  return draft;
}

}  // namespace ft::testing
