#include "server/token_aligner.h"

#include <utility>

namespace ft::server {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // of bytes that are no UTF-8

}  // namespace

void TokenAligner::push(std::span<const foretoken::TokenLogprobs> tokens) {
  for (const foretoken::TokenLogprobs& token : tokens) {
    pending_.push_back({token, token_text_(token.chosen.id)});
  }
}

std::vector<foretoken::TokenLogprobs> TokenAligner::take(std::string_view text) {
  text_ += text;
  std::string_view rest = text_;
  std::vector<foretoken::TokenLogprobs> out;
  while (!rest.empty() && !pending_.empty()) {
    Pending& next = pending_.front();
    const bool is_found = !next.bytes.empty() && rest.starts_with(next.bytes);
    if (!is_found && next.bytes.starts_with(rest)) break;  // the rest of its text comes later
    const bool is_replaced = !is_found && rest.starts_with(kReplacement);
    if (is_found || is_replaced) {
      rest.remove_prefix(is_found ? next.bytes.size() : kReplacement.size());
      out.push_back(std::move(next.token));
    }
    pending_.pop_front();
  }
  text_.erase(0, text_.size() - rest.size());
  return out;
}

}  // namespace ft::server
