#include "text/same_tokens.h"

#include "base/error.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace ft::text {
namespace {

// Merges may differ where vocabularies do not: words, accents, digits, punctuation, code, scripts,
// emoji.
constexpr std::string_view kProbe =
    "The quick brown fox on the other side's naïve café déjà-vu, 3.14159 + 1,234,567 = ?\n\n\tint "
    "main() { return "
    "x[i] != 0x1F; }\r\n  Größe übermäßig — „Zitat“ … 你好,世界。 Привет мир! "
    "🙂🚀👩‍💻 "
    "https://example.org/a_b?c=d&e#f <tag attr=\"v\"/> don't WE'LL 0007 ١٢٣";

std::string text_of(const Tokenizer& tokenizer, Token id) {
  if (static_cast<std::size_t>(id) >= tokenizer.n_tokens() || !tokenizer.has_token(id)) {
    return "nothing";
  }
  const std::string_view bytes = tokenizer.token_bytes(id);
  std::string kind;
  if (tokenizer.is_special(id)) {
    kind = "the special token ";
  } else if (tokenizer.added_token(bytes) == id) {
    kind = "the added token ";
  }
  return kind + in_quotes(bytes);
}

bool is_same(const Tokenizer& a, const Tokenizer& b, Token id) {
  const auto has = [id](const Tokenizer& tokenizer) {
    return static_cast<std::size_t>(id) < tokenizer.n_tokens() && tokenizer.has_token(id);
  };
  if (has(a) != has(b)) return false;
  if (!has(a)) return true;
  const std::string_view bytes = a.token_bytes(id);
  return bytes == b.token_bytes(id) && a.is_special(id) == b.is_special(id) &&
         (a.added_token(bytes) == id) == (b.added_token(bytes) == id);
}

}  // namespace

void require_same_tokens(const Tokenizer& target, const Tokenizer& draft) {
  const std::size_t n = std::max(target.n_tokens(), draft.n_tokens());
  for (std::size_t i = 0; i < n; ++i) {
    const auto id = static_cast<Token>(i);
    if (is_same(target, draft, id)) continue;
    fail(
        "the draft model has other tokens than the model: id {} is {} there and {} here; use a "
        "draft model with the same tokenizer.json",
        id,
        text_of(draft, id),
        text_of(target, id));
  }
  const std::vector<Token> here = target.encode(kProbe);
  const std::vector<Token> there = draft.encode(kProbe);
  const auto [a, b] = std::ranges::mismatch(here, there);
  if (a == here.end() && b == there.end()) return;
  const auto at = a - here.begin();
  fail(
      "the draft model splits text into other tokens than the model: token {} of a probe text is "
      "{} there and {} here; use a draft model with the same tokenizer.json",
      at,
      b == there.end() ? "nothing" : text_of(draft, *b),
      a == here.end() ? "nothing" : text_of(target, *a));
}

}  // namespace ft::text
