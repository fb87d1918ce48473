#include "text/splitter.h"

#include "base/error.h"
#include "testing/fake_clock.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Pieces = std::vector<std::string>;

std::unique_ptr<const Splitter> regex_splitter(std::string_view pattern) {
  return make_regex_splitter(pattern, std::make_shared<const SteadyClock>());
}
std::unique_ptr<const Splitter> literal_splitter(std::string_view literal) {
  return make_literal_splitter(literal, std::make_shared<const SteadyClock>());
}

Pieces pieces(const Splitter& splitter, std::string_view text) {
  std::vector<std::size_t> ends;
  splitter.split(text, 0, text.size(), ends);
  Pieces out;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    EXPECT_LT(begin, end);
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return out;
}

Pieces glm(std::string_view text) {
  return pieces(*make_glm_splitter(), text);
}
Pieces regex(std::string_view pattern, std::string_view text) {
  return pieces(*regex_splitter(pattern), text);
}

TEST(GlmSplitter_Split, FollowsEachAlternative) {
  EXPECT_THAT(glm(""), ElementsAre());
  EXPECT_THAT(glm("Hello, world!"), ElementsAre("Hello", ",", " world", "!"));
  EXPECT_THAT(glm("I'm WE'LL 'st 'x 're"),
              ElementsAre("I", "'m", " WE", "'LL", " '", "st", " '", "x", " '", "re"));
  EXPECT_THAT(glm("'s'S'\xC5\xBF'T'll'vE"),
              ElementsAre("'s", "'S", "'\xC5\xBF", "'T", "'ll", "'vE"));
  EXPECT_THAT(glm("1234567 89"), ElementsAre("123", "456", "7", " ", "89"));
  EXPECT_THAT(glm("a1b"), ElementsAre("a", "1", "b"));
  EXPECT_THAT(glm("_a \ta"), ElementsAre("_a", " ", "\ta"));
  EXPECT_THAT(glm(" ?!\r\n\n x"), ElementsAre(" ?!\r\n\n", " x"));
  EXPECT_THAT(glm("\t?!"), ElementsAre("\t", "?!"));
  EXPECT_THAT(glm("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
  EXPECT_THAT(glm("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(glm("   1"), ElementsAre("  ", " ", "1"));
  EXPECT_THAT(glm("\n\nx"), ElementsAre("\n\n", "x"));
}

TEST(GlmSplitter_Split, KnowsUnicode) {
  EXPECT_THAT(glm("\u4F60\u597D\uFF0C\u4E16"), ElementsAre("\u4F60\u597D", "\uFF0C\u4E16"));
  EXPECT_THAT(glm("x\u00B2\u0661\u2167\u00BD"), ElementsAre("x", "\u00B2\u0661\u2167", "\u00BD"));
  EXPECT_THAT(glm("e\u0301e \u0301"), ElementsAre("e", "\u0301e", " \u0301"));
  // White_Space beyond ASCII, and U+180E, which is none.
  EXPECT_THAT(glm("1\u3000\u00851"), ElementsAre("1", "\u3000", "\u0085", "1"));
  EXPECT_THAT(glm("1\u3000\u00A0!"), ElementsAre("1", "\u3000", "\u00A0", "!"));
  EXPECT_THAT(glm("1\u180E!"), ElementsAre("1", "\u180E!"));
}

TEST(GlmSplitter_Split, TreatsInvalidBytesAsSymbols) {
  EXPECT_THAT(glm("a\xff\xc3"
                  "b"),
              ElementsAre("a", "\xff\xc3", "b"));
  EXPECT_THAT(glm("a\xff"
                  "b"),
              ElementsAre("a",
                          "\xff"
                          "b"));
  EXPECT_THAT(glm(" \xe4\xb8\n"), ElementsAre(" \xe4\xb8\n"));
}

TEST(Splitter_Split, LooksAtNothingOutsideTheStretch) {
  const std::string text = "aa   bb";
  for (const auto& splitter :
       {make_glm_splitter(), regex_splitter("(?:" + std::string(kGlmPattern) + ")")}) {
    std::vector<std::size_t> ends{99};
    splitter->split(text, 1, 5, ends);
    EXPECT_THAT(ends, ElementsAre(99, 2, 5));
    splitter->split(text, 3, 3, ends);
    EXPECT_EQ(ends.size(), 3U);
  }
}

/// Characters on which the alternatives differ, all known to Unicode 14.
std::string random_text(std::mt19937& random, std::size_t max_size) {
  static const std::vector<std::string> parts = {"a",           "Z",
                                                 "s",           "T",
                                                 "re",          "LL",
                                                 "'",           "'",
                                                 " ",           " ",
                                                 "  ",          "\t",
                                                 "\n",          "\r",
                                                 "\r\n",        "1",
                                                 "23",          "4567",
                                                 ".",           "_",
                                                 "?!",          "\u00E9",
                                                 "\u0301",      "\u4E2D\u6587",
                                                 "\u3002",      "\u3000",
                                                 "\u00A0",      "\u0085",
                                                 "\u2028",      "\u180E",
                                                 "\u200D",      "\U0001F469",
                                                 "\U0001F1E9",  "\u0663",
                                                 "\u00BD",      "\u2167",
                                                 "\u017F",      "\u212A",
                                                 "\u01C5",      "\u02B0",
                                                 "\x1c",        "\x0b",
                                                 "\x0c",        std::string(1, '\0'),
                                                 "\x7f",        "\xff",
                                                 "\xc3",        "\xe4\xb8",
                                                 "\xf0\x9f",    "\xed\xa0\x80",
                                                 "\xEF\xBF\xBD"};
  std::string text;
  const std::size_t size = random() % max_size;
  for (std::size_t i = 0; i < size; ++i) text += parts[random() % parts.size()];
  return text;
}

TEST(GlmSplitter_Split, AgreesWithPcre2_OnRandomTexts) {
  std::mt19937 random(42);
  const auto fast = make_glm_splitter();
  const auto slow = regex_splitter("(?:" + std::string(kGlmPattern) + ")");
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(random, 24);
    ASSERT_EQ(pieces(*fast, text), pieces(*slow, text))
        << "text " << i << ": " << ::testing::PrintToString(text);
  }
}

TEST(RegexSplitter_Split, KeepsMatchesAndGaps) {
  EXPECT_THAT(regex("\\d+", "ab12c3"), ElementsAre("ab", "12", "c", "3"));
  EXPECT_THAT(regex("b", "aca"), ElementsAre("aca"));
  EXPECT_THAT(regex("(?<=a)b", "abb"), ElementsAre("a", "b", "b"));
  EXPECT_THAT(pieces(*literal_splitter("a+"), "aa+a"), ElementsAre("a", "a+", "a"));
}

TEST(RegexSplitter_Split, CutsAtEmptyMatches_AsOnigurumaDoes) {
  EXPECT_THAT(regex("x*", "abxxc"), ElementsAre("a", "b", "xx", "c"));
  EXPECT_THAT(regex("(?=b)", "abab"), ElementsAre("a", "ba", "b"));
}

TEST(RegexSplitter_Split, TreatsInvalidBytesAsSymbols) {
  EXPECT_THAT(regex("\\p{L}+",
                    "ab\xff\xff"
                    "cd\xe4\xb8"),
              ElementsAre("ab", "\xff\xff", "cd", "\xe4\xb8"));
  EXPECT_THAT(regex("[^\\p{L}]", "a\xe4\xb8\xf0\x9f\x99"),
              ElementsAre("a", "\xe4\xb8", "\xf0\x9f\x99"));
}

TEST(RegexSplitter_Make, TranslatesRubySyntax) {
  EXPECT_THAT(regex("\\s+", "a\u3000\u180E\u0085"), ElementsAre("a", "\u3000", "\u180E", "\u0085"));
  EXPECT_THAT(regex("[^\\S]", "a b"), ElementsAre("a", " ", "b"));
  EXPECT_THAT(regex("\\v", "a\n\x0b"), ElementsAre("a\n", "\x0b"));
  EXPECT_THAT(regex("\\u4e2d", "a\u4E2D"), ElementsAre("a", "\u4E2D"));
  EXPECT_THAT(regex("a{,2}b", "aaab"), ElementsAre("a", "aab"));
  EXPECT_THAT(regex("^b", "ab\nb"), ElementsAre("ab\n", "b"));
  EXPECT_THAT(regex("{|}", "a{b}"), ElementsAre("a", "{", "b", "}"));
  EXPECT_THAT(regex("[]a]", "]ab"), ElementsAre("]", "a", "b"));
  EXPECT_THAT(regex("(?i)AB", "xab"), ElementsAre("x", "ab"));
}

TEST(RegexSplitter_Make, RefusesWhatPcre2WouldReadOtherwise) {
  for (const std::string pattern :
       {"\\w+",    "\\b",    "\\h",    "\\Qa\\E",     "\\K",     "\\1",  "\\pL",    "\\u12",
        "\\",      "[a[b]]", "[a&&b]", "[[:alpha:]]", "(*UTF)a", "(?R)", "(?<n>a)", "(?s)a",
        "(?im:a)", "a(?i)b", "(?#c)",  "a{1,2}+",     "a{2}?",   "(?",   "\\xE9"}) {
    EXPECT_THROW(regex_splitter(pattern), InvalidInput) << pattern;
  }
}

TEST(RegexSplitter_Make, RefusesBrokenPatterns) {
  for (const std::string pattern :
       {"", "(", "[a", "a**b(", "\\p{Nonsense}", "a{70000}", "\xff", "(?<=a*)b"}) {
    EXPECT_THROW(regex_splitter(pattern), InvalidInput) << pattern;
  }
  EXPECT_THROW(regex_splitter(std::string(70'000, 'a')), InvalidInput);
  EXPECT_THROW(regex_splitter(std::string(2'000, '(')), InvalidInput);
  EXPECT_THROW(literal_splitter(""), InvalidInput);
}

TEST(RegexSplitter_Split, GivesUp_WhenThePatternExplodes) {
  const auto splitter = regex_splitter("(?:a|aa|aaa)*(?:a|aa)*(?:a|aaa)*[bc]");
  try {
    pieces(*splitter, std::string(300, 'a'));
    FAIL() << "no error";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("split pattern '(?:a|aa|aaa)*"));
    EXPECT_THAT(error.what(), HasSubstr("backtracks too much"));
  }
}

TEST(RegexSplitter_Split, GivesUp_WhenItTakesTooLong) {
  const auto slow_clock = std::make_shared<const testing::FakeClock>(6'000'000);
  const auto splitter = make_regex_splitter("x", slow_clock);
  EXPECT_EQ(pieces(*splitter, "axa").size(), 3U) << "nobody looks at the clock for a short text";
  try {
    pieces(*splitter, std::string(100, 'a'));
    FAIL() << "no error";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("split pattern 'x' ran for 6 s on 100 bytes"));
  }
}

TEST(RegexSplitter_Split, IsLinear_WhenOnePieceIsHuge) {
  const auto splitter = regex_splitter("(?:" + std::string(kGlmPattern) + ")");
  const std::size_t size = 1'000'000;
  EXPECT_THAT(pieces(*splitter, std::string(size, ' ')), ElementsAre(std::string(size, ' ')));
  EXPECT_THAT(pieces(*splitter, std::string(size, ' ') + "a"),
              ElementsAre(std::string(size - 1, ' '), " a"));
  EXPECT_THAT(pieces(*splitter, std::string(size, 'x')), ElementsAre(std::string(size, 'x')));
  // Alternation in a group needs a stack frame per character: more than JIT has.
  EXPECT_THAT(regex("(?:a|b)+", std::string(200'000, 'a')), ElementsAre(std::string(200'000, 'a')));
}

}  // namespace
}  // namespace ft::text
