#include "text/reply_markup.h"

#include <algorithm>
#include <string_view>

namespace ft::text {

namespace {

constexpr Token kNone = -1;
constexpr std::array<std::string_view, 8> kMarkNames = {"<think>",
                                                        "</think>",
                                                        "<tool_call>",
                                                        "</tool_call>",
                                                        "<arg_key>",
                                                        "</arg_key>",
                                                        "<arg_value>",
                                                        "</arg_value>"};
constexpr std::array<std::string_view, 4> kRoleNames = {
    "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"};
constexpr std::ptrdiff_t kFirstCallMark = static_cast<std::ptrdiff_t>(ReplyMark::kCall);

}  // namespace

ReplyMarkup::ReplyMarkup(const Tokenizer& tokenizer) {
  const auto id_of = [&](std::string_view name) {
    return tokenizer.added_token(name).value_or(kNone);
  };
  std::transform(kMarkNames.begin(), kMarkNames.end(), marks_.begin(), id_of);
  std::transform(kRoleNames.begin(), kRoleNames.end(), roles_.begin(), id_of);
  // Half a set of marks would open what nothing can close.
  const auto keep_all_or_none = [](auto begin, auto end) {
    if (std::find(begin, end, kNone) != end) std::fill(begin, end, kNone);
  };
  keep_all_or_none(marks_.begin(), marks_.begin() + kFirstCallMark);
  keep_all_or_none(marks_.begin() + kFirstCallMark, marks_.end());
}

std::optional<ReplyMark> ReplyMarkup::find(Token id) const noexcept {
  if (id < 0) return std::nullopt;
  const auto found = std::find(marks_.begin(), marks_.end(), id);
  if (found == marks_.end()) return std::nullopt;
  return static_cast<ReplyMark>(found - marks_.begin());
}

bool ReplyMarkup::is_role(Token id) const noexcept {
  return id >= 0 && std::find(roles_.begin(), roles_.end(), id) != roles_.end();
}

TokenSpan ReplyMarkup::opened_reply(TokenSpan prompt) const noexcept {
  for (std::size_t n = 0; n < prompt.size(); ++n) {
    const Token id = prompt[prompt.size() - 1 - n];
    const std::optional<ReplyMark> mark = find(id);
    if (mark == ReplyMark::kThink || mark == ReplyMark::kEndThink) return prompt.last(n + 1);
    if (is_role(id)) return prompt.last(n);
  }
  return {};
}

}  // namespace ft::text
