#include "server/token_logprobs.h"

#include <string>

namespace ft::server {
namespace {

void write_token(json::Writer& out,
                 const foretoken::TokenLogprob& token,
                 const TokenText& token_text) {
  const std::string bytes = token_text(token.id);
  out.member("token", bytes).member("logprob", token.logprob).key("bytes").begin_array();
  for (const char byte : bytes) out.value(static_cast<int>(static_cast<unsigned char>(byte)));
  out.end_array();
}

}  // namespace

void write_token_logprobs(json::Writer& out,
                          std::span<const foretoken::TokenLogprobs> tokens,
                          const TokenText& token_text) {
  out.begin_array();
  for (const foretoken::TokenLogprobs& token : tokens) {
    out.begin_object();
    write_token(out, token.chosen, token_text);
    out.key("top_logprobs").begin_array();
    for (const foretoken::TokenLogprob& top : token.top) {
      out.begin_object();
      write_token(out, top, token_text);
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array();
}

}  // namespace ft::server
