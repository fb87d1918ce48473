#include "text/detokenizer.h"

#include "base/error.h"
#include "text/tokenizer_test_data.h"
#include "text/utf8.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

using ::testing::ElementsAre;
using Texts = std::vector<std::string>;

/// Ids 0..255 are the bytes; then "ab", a special and a visible added token.
constexpr Token kAb = 256;
constexpr Token kSpecial = 257;
constexpr Token kThink = 258;

const Tokenizer& byte_tokenizer() {
  static const Tokenizer tokenizer = tokenizer_of(
      TokenizerFile{.merges = {{"a", "b"}}, .added = {{"<|end|>"}, {"<think>", false}}}.text());
  return tokenizer;
}

std::vector<Token> bytes(std::string_view text) {
  std::vector<Token> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

/// What each push and the end give.
Texts stream(const std::vector<Token>& ids, std::vector<std::string> stops = {}) {
  Detokenizer detokenizer(byte_tokenizer(), std::move(stops));
  Texts out;
  for (const Token id : ids) {
    out.push_back(detokenizer.push(id));
    EXPECT_TRUE(is_valid_utf8(out.back()));
    if (detokenizer.matched_stop()) break;
  }
  out.push_back(detokenizer.finish());
  return out;
}

struct Result {
  std::string text;
  std::optional<std::size_t> stop;
  bool operator==(const Result&) const = default;
};

Result joined(const std::vector<Token>& ids, std::vector<std::string> stops) {
  Detokenizer detokenizer(byte_tokenizer(), std::move(stops));
  Result result;
  for (const Token id : ids) {
    result.text += detokenizer.push(id);
    if (detokenizer.matched_stop()) break;
  }
  result.text += detokenizer.finish();
  result.stop = detokenizer.matched_stop();
  return result;
}

TEST(Detokenizer_Push, HoldsBackHalfCharacters) {
  EXPECT_THAT(stream(bytes("\xF0\x9F\x99\x82")), ElementsAre("", "", "", "\xF0\x9F\x99\x82", ""));
  EXPECT_THAT(stream(bytes("a\xC3")), ElementsAre("a", "", "\uFFFD"));
  EXPECT_THAT(stream({0xE4, 0xB8, kAb}),
              ElementsAre("",
                          "",
                          "\uFFFD"
                          "ab",
                          ""));
  EXPECT_THAT(stream(bytes("\xFF\x80")), ElementsAre("\uFFFD", "\uFFFD", ""));
  EXPECT_THAT(stream(bytes("\xED\xA0\x80")), ElementsAre("", "\uFFFD\uFFFD", "\uFFFD", ""));
  EXPECT_THAT(stream(bytes("\xE4\xF0\x9F")), ElementsAre("", "\uFFFD", "", "\uFFFD"));
}

TEST(Detokenizer_Push, HidesSpecialTokensOnly) {
  EXPECT_THAT(stream({'a', kSpecial, kThink, 'b'}), ElementsAre("a", "", "<think>", "b", ""));
  EXPECT_THAT(stream({0xC3, kSpecial, 0xA9}), ElementsAre("", "", "\u00E9", ""));
  // Ids that a padded output layer can produce.
  EXPECT_THAT(stream({'a', 5'000, -1, 'b'}), ElementsAre("a", "", "", "b", ""));
}

TEST(Detokenizer_Push, HoldsBackWhatMayBecomeAStopString) {
  EXPECT_THAT(stream(bytes("xENDy"), {"END"}), ElementsAre("x", "", "", "", ""));
  EXPECT_THAT(stream(bytes("xENxD"), {"END"}), ElementsAre("x", "", "", "ENx", "D", ""));
  EXPECT_THAT(stream(bytes("EN"), {"END"}), ElementsAre("", "", "EN"));
  EXPECT_THAT(stream(bytes("aabaac"), {"aaba!", "aac"}),
              ElementsAre("", "", "", "", "aab", "", ""));
  EXPECT_THAT(stream({'x', kAb, 'c'}, {"bc"}), ElementsAre("x", "a", "", ""));
  EXPECT_THAT(stream({'x', kAb, 'c'}, {"ab"}), ElementsAre("x", "", ""));
  EXPECT_THAT(stream({kThink, 'c'}, {"nk>c"}), ElementsAre("<thi", "", ""));
  EXPECT_THAT(stream(bytes("x\xE4\xB8\xADy"), {"\u4E2Dy"}), ElementsAre("x", "", "", "", "", ""));
  EXPECT_THAT(stream(bytes("\xE4\xB8\xAE"), {"\u4E2D"}), ElementsAre("", "", "\u4E2E", ""));
}

TEST(Detokenizer_MatchedStop, NamesTheOneThatIsCompleteFirstAndLongest) {
  EXPECT_EQ(joined(bytes("xabcd"), {"abcd", "bc"}), (Result{"xa", 1}));
  EXPECT_EQ(joined(bytes("xabc"), {"bc", "c", "abc"}), (Result{"x", 2}));
  EXPECT_EQ(joined(bytes("xabc"), {"q"}), (Result{"xabc", std::nullopt}));
  EXPECT_EQ(joined({'x', kThink}, {"ink", "th"}), (Result{"x<", 1}));
  EXPECT_EQ(joined(bytes("ab"), {"b", "b"}), (Result{"a", 0}));
  // A character that never got complete ends as U+FFFD, which may itself complete a stop string.
  EXPECT_EQ(joined(bytes("a\xC3"), {"\uFFFD"}), (Result{"a", 0}));
}

TEST(Detokenizer_Make, RefusesUselessStopStrings) {
  EXPECT_THROW(Detokenizer(byte_tokenizer(), {"a", ""}), InvalidInput);
  EXPECT_THROW(Detokenizer(byte_tokenizer(), {"\xC3"}), InvalidInput);
}

TEST(Detokenizer_Push, RefusesToGoOnBehindAStop) {
  Detokenizer detokenizer(byte_tokenizer(), {"a"});
  EXPECT_EQ(detokenizer.push('a'), "");
  EXPECT_THROW(detokenizer.push('b'), LogicError);
}

/// The definition: replace invalid bytes in the whole text, then look for the stop that ends first.
Result whole(const std::vector<Token>& ids, const std::vector<std::string>& stops) {
  std::string raw;
  for (const Token id : ids)
    raw += byte_tokenizer().is_special(id) ? "" : byte_tokenizer().token_bytes(id);
  std::string text;
  for (std::size_t at = 0; at < raw.size();) {
    const Utf8Step step = decode_utf8(raw, at);
    text += step.kind == Utf8Step::Kind::kCharacter ? std::string_view(raw).substr(at, step.n_bytes)
                                                    : kReplacementUtf8;
    at += step.n_bytes;
  }
  Result best{text, std::nullopt};
  std::size_t best_end = text.size() + 1;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const std::size_t at = text.find(stops[i]);
    if (at == std::string::npos) continue;
    const std::size_t end = at + stops[i].size();
    if (end < best_end || (end == best_end && at < best.text.size())) {
      best_end = end;
      best = {text.substr(0, at), i};
    }
  }
  return best;
}

TEST(Detokenizer_Push, EqualsTheWholeText_OnRandomTokensAndStops) {
  std::mt19937 random(11);
  static const std::vector<Token> ids_pool = {
      'a', 'b', 'b', 'c', kAb, kAb, kSpecial, kThink, 0xC3, 0xA9, 0xE4, 0xB8, 0xAD, 0xFF};
  static const Texts stops_pool = {
      "ab", "abab", "bab", "aab", "b\u00E9", "\uFFFD", "\u4E2D", "<think>a", "abcabd", "cab"};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<Token> ids;
    const std::size_t size = random() % 16;
    for (std::size_t i = 0; i < size; ++i) ids.push_back(ids_pool[random() % ids_pool.size()]);
    Texts stops;
    const std::size_t n_stops = random() % 4;
    for (std::size_t i = 0; i < n_stops; ++i)
      stops.push_back(stops_pool[random() % stops_pool.size()]);
    const Result streamed = joined(ids, stops);
    ASSERT_EQ(streamed, whole(ids, stops))
        << "round " << round << " " << testing::PrintToString(ids) << " "
        << testing::PrintToString(stops) << " " << streamed.text;
  }
}

TEST(Detokenizer_Push, IsLinear_WhenALongStopStringNearlyMatches) {
  // Searching or moving the held text with each token would take 10^11 steps.
  const std::size_t size = 300'000;
  Detokenizer detokenizer(byte_tokenizer(), {std::string(size, 'a') + "b"});
  std::size_t n_bytes = 0;
  for (std::size_t i = 0; i < 3 * size; ++i) n_bytes += detokenizer.push('a').size();
  EXPECT_EQ(n_bytes, 2 * size);
  EXPECT_EQ(detokenizer.finish().size(), size);
}

}  // namespace
}  // namespace ft::text
