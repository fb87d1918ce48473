#include "engine/generation_output.h"

#include "sampling/sampler.h"

#include <algorithm>

namespace ft::engine {

GenerationOutput::GenerationOutput(const EngineParts& parts,
                                   const foretoken::GenerationRequest& request)
    : request_(request), eos_tokens_(parts.model->config().eos_tokens) {
  if (parts.text != nullptr) detokenizer_.emplace(parts.text->tokenizer(), request.stop);
}

foretoken::CommittedTokens GenerationOutput::take(TokenSpan tokens,
                                                  std::size_t n_accepted,
                                                  const ConstMatrix& logits) {
  foretoken::CommittedTokens out;
  for (std::size_t i = 0; i < tokens.size() && !finish_; ++i) {
    const Token token = tokens[i];
    out.ids.push_back(token);
    ++n_tokens_;
    if (request_.logprobs) out.logprobs.push_back(logprobs_of(token, logits.row(i)));
    finish_ = finish_of(token, out.text);
    out.text_ends.push_back(out.text.size());
  }
  out.n_accepted = std::min(n_accepted, out.ids.size());
  if (finish_) out.text += rest();
  return out;
}

std::string GenerationOutput::end(foretoken::FinishReason reason) {
  finish_ = reason;
  return rest();
}

std::optional<foretoken::FinishReason> GenerationOutput::finish_of(Token token, std::string& text) {
  const bool is_eos = std::find(eos_tokens_.begin(), eos_tokens_.end(), token) != eos_tokens_.end();
  if (is_eos && !request_.ignore_eos) return foretoken::FinishReason::kStop;
  if (detokenizer_) {
    text += detokenizer_->push(token);
    if (const std::optional<std::size_t> stop = detokenizer_->matched_stop()) {
      matched_stop_ = request_.stop[*stop];
      return foretoken::FinishReason::kStop;
    }
  }
  if (n_tokens_ == request_.max_tokens) return foretoken::FinishReason::kLength;
  return std::nullopt;
}

foretoken::TokenLogprobs GenerationOutput::logprobs_of(Token token,
                                                       std::span<const float> logits) const {
  foretoken::TokenLogprobs out;
  out.chosen = {token, sampling::token_logprob(logits, token)};
  if (*request_.logprobs == 0) return out;
  for (const sampling::TokenLogprob& top : sampling::top_logprobs(logits, *request_.logprobs)) {
    out.top.push_back({top.id, top.logprob});
  }
  return out;
}

}  // namespace ft::engine
