// Fuzz target: any tokens as a reply, cut at any places, behind any prompt.
#include "base/error.h"
#include "text/reply_parser.h"
#include "text/reply_parser_test_data.h"
#include "text/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using ft::text::ReplyDelta;

/// Byte 0xF8 and what follows are the marks that UTF-8 has no use for, 0xF5 to 0xF7 the role
/// markers.
ft::Token token_of(std::uint8_t byte) {
  constexpr std::uint8_t kFirstRole = 0xF5;
  constexpr std::uint8_t kFirstMarkByte = 0xF8;
  if (byte >= kFirstMarkByte) return ft::text::kFirstMark + byte - kFirstMarkByte;
  if (byte >= kFirstRole) return ft::text::kAssistantToken + byte - kFirstRole;
  return byte;
}

void check_sound(const ft::text::ParsedReply& out) {
  std::size_t n_calls = 0;
  for (const ReplyDelta& delta : ft::text::merged(out.deltas)) {
    FT_CHECK(ft::text::is_valid_utf8(delta.text));
    if (delta.kind == ReplyDelta::Kind::kToolName) FT_CHECK(delta.call_index == n_calls++);
    if (delta.kind == ReplyDelta::Kind::kToolArguments) {
      FT_CHECK(delta.call_index + 1 == n_calls);
      ft::json::parse(delta.text, "arguments").as_object("arguments");
    }
  }
  FT_CHECK(n_calls == out.n_calls);
  FT_CHECK(out.n_reasoning_tokens <= out.n_tokens);
}

}  // namespace

/// The first byte has the choice of prompt, tools and stop strings; the second the longest cut; the
/// rest is prompt and reply, or the reply alone.
// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHeader = 2;
  if (size < kHeader) return 0;
  const std::uint8_t choice = data[0];
  const std::size_t longest = data[1] % 16;
  std::vector<ft::Token> ids;
  for (std::size_t i = kHeader; i < size; ++i) ids.push_back(token_of(data[i]));

  ft::text::ReplyCase request{.ids = ids};
  if ((choice & 1) != 0) request.prompt = ft::text::reasoning_prompt();
  if ((choice & 2) != 0) {
    const auto half = ids.begin() + static_cast<std::ptrdiff_t>(ids.size() / 2);
    request.prompt.assign(ids.begin(), half);
    request.ids.assign(half, ids.end());
  }
  if ((choice & 4) != 0) request.tools.reset();
  if ((choice & 8) != 0) request.stops = {"ab", "</arg_value></t", "k>a"};

  const ft::text::Tokenizer& tokenizer = ft::text::reply_tokenizer();
  const ft::text::ReplyMarkup& markup = ft::text::reply_markup();
  const auto whole = ft::text::parse_at_once(tokenizer, markup, request);
  check_sound(whole);
  const auto cut = ft::text::parse_in_pieces(
      tokenizer,
      markup,
      request,
      [&](std::size_t i) { return 1 + (i * 7 + choice) % (longest + 1); },
      [&](std::size_t i) { return (i * 5 + longest) % (longest + 1); });
  FT_CHECK(ft::text::described(cut.deltas) == ft::text::described(whole.deltas));
  FT_CHECK(cut.n_reasoning_tokens == whole.n_reasoning_tokens);
  return 0;
}
