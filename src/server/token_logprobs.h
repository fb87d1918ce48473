// Log-probabilities of tokens as OpenAI's APIs give them.
#pragma once

#include "foretoken/result.h"
#include "json/json.h"
#include "server/dialect.h"

#include <span>

namespace ft::server {

/// An array of {"token", "logprob", "bytes", "top_logprobs"}.
void write_token_logprobs(json::Writer& out,
                          std::span<const foretoken::TokenLogprobs> tokens,
                          const TokenText& token_text);

}  // namespace ft::server
