// What a generation's caller sees of a session's tokens.
#pragma once

#include "base/types.h"
#include "engine/engine_core.h"
#include "foretoken/request.h"
#include "foretoken/result.h"
#include "tensor/matrix.h"
#include "text/detokenizer.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ft::engine {

/// Everything between a session's committed tokens and the events of a stream: text,
/// log-probabilities, the end.
class GenerationOutput {
 public:
  /// Both must outlive it.
  GenerationOutput(const EngineParts& parts, const foretoken::GenerationRequest& request);

  /// Takes committed tokens in order until the generation is over; later ones are dropped. Row i of
  /// `logits` chose token i; the first n_accepted were drafts. Returns the event to send.
  foretoken::CommittedTokens take(TokenSpan tokens,
                                  std::size_t n_accepted,
                                  const ConstMatrix& logits);
  /// Ends the generation from outside; returns the text that was held back.
  std::string end(foretoken::FinishReason reason);

  std::optional<foretoken::FinishReason> finish() const noexcept { return finish_; }
  std::size_t n_tokens() const noexcept { return n_tokens_; }
  /// The stop string that ended the generation.
  const std::optional<std::string>& matched_stop() const noexcept { return matched_stop_; }

 private:
  // Whether the generation ends with this token; appends its text.
  std::optional<foretoken::FinishReason> finish_of(Token token, std::string& text);
  foretoken::TokenLogprobs logprobs_of(Token token, std::span<const float> logits) const;
  std::string rest() { return detokenizer_ ? detokenizer_->finish() : std::string(); }

  const foretoken::GenerationRequest& request_;
  const std::vector<Token>& eos_tokens_;
  std::optional<text::Detokenizer> detokenizer_;
  std::optional<foretoken::FinishReason> finish_;
  std::optional<std::string> matched_stop_;
  std::size_t n_tokens_ = 0;
};

}  // namespace ft::engine
