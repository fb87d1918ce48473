#include "speculation/suffix_automaton.h"

#include "base/random.h"
#include "speculation/lookup_memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

std::uint64_t random(std::uint64_t seed, std::uint64_t step) {
  return noise_bits(seed, NoisePurpose::kDraft, step, 0);
}

SuffixAutomaton automaton_of(TokenSpan tokens) {
  SuffixAutomaton automaton;
  for (const Token token : tokens) automaton.push_back(token);
  return automaton;
}

struct Place {
  std::size_t length = 0;
  std::size_t follower = 0;
};

// The longest end of the automaton's sequence and `ahead` that occurs in the sequence.
std::optional<Place> find(const SuffixAutomaton& automaton, TokenSpan ahead = {}) {
  if (automaton.size() == 0) return std::nullopt;
  SuffixAutomaton::Match match = automaton.own_match();
  for (const Token token : ahead) match = automaton.advance(match, token);
  if (match.length == 0) return std::nullopt;
  return Place{match.length, automaton.follower(match)};
}

bool ends_with(TokenSpan tokens, std::size_t end, TokenSpan tail) {
  return end >= tail.size() &&
         std::equal(tail.begin(), tail.end(), tokens.subspan(end - tail.size()).begin());
}

// By search: of the ends of `text`, the longest that occurs in its first n_history tokens and, if
// those are all, not only at their end; latest occurrence first.
std::optional<Place> find_slowly(TokenSpan text, std::size_t n_history) {
  const std::size_t last = text.size() == n_history ? n_history - 1 : n_history;
  for (std::size_t length = text.size(); length >= 1; --length) {
    for (std::size_t end = last; end >= length; --end) {
      if (ends_with(text, end, text.last(length))) return Place{length, end};
    }
  }
  return std::nullopt;
}

// The length is exact, the place an occurrence; only where the ends of a text are few is it the
// latest.
void expect_same(const SuffixAutomaton& automaton, TokenSpan ahead) {
  if (automaton.size() == 0) return;
  const TokenSpan history = automaton.tokens();
  std::vector<Token> text(history.begin(), history.end());
  text.insert(text.end(), ahead.begin(), ahead.end());
  const auto found = find(automaton, ahead);
  const auto expected = find_slowly(text, automaton.size());
  ASSERT_EQ(found.has_value(), expected.has_value()) << "size " << automaton.size();
  if (!found) return;
  ASSERT_EQ(found->length, expected->length) << "size " << automaton.size();
  ASSERT_TRUE(ends_with(text, found->follower, TokenSpan(text).last(found->length)));
  if (ahead.empty()) {
    ASSERT_LT(found->follower, automaton.size());
  }
}

TEST(SuffixAutomaton, FindsTheLatestOccurrenceOfTheLongestEnd) {
  const std::vector<Token> tokens = {1, 2, 3, 4, 9, 2, 3, 4, 8, 1, 2, 3, 4};
  const auto match = find(automaton_of(tokens));
  ASSERT_TRUE(match);
  EXPECT_EQ(match->length, 4u);
  EXPECT_EQ(match->follower, 4u);
  const auto shorter = find(automaton_of(TokenSpan(tokens).first(8)));
  ASSERT_TRUE(shorter);
  EXPECT_EQ(shorter->length, 3u);
  const std::vector<Token> thrice = {1, 2, 5, 1, 2, 6, 1, 2};
  EXPECT_EQ(find(automaton_of(thrice))->follower, 5u);
}

TEST(SuffixAutomaton, FindsNothingInANewText) {
  EXPECT_FALSE(find(SuffixAutomaton()));
  EXPECT_FALSE(find(automaton_of(std::vector<Token>{1})));
  EXPECT_FALSE(find(automaton_of(std::vector<Token>{1, 2, 3})));
  EXPECT_FALSE(find(SuffixAutomaton(), std::vector<Token>{1}));
}

TEST(SuffixAutomaton, EqualsASearchWhileGrowingAndShrinking) {
  for (const std::uint64_t alphabet : {2u, 3u, 5u, 20u}) {
    SuffixAutomaton automaton;
    for (std::uint64_t step = 0; step < 400; ++step) {
      const std::uint64_t bits = random(alphabet, step);
      if (bits % 16 == 0) {
        const std::size_t n_kept = automaton.size() - (bits >> 8) % (automaton.size() + 1) / 3;
        const std::vector<Token> kept(
            automaton.tokens().begin(),
            automaton.tokens().begin() + static_cast<std::ptrdiff_t>(n_kept));
        automaton = automaton_of(kept);
      } else {
        automaton.push_back(static_cast<Token>((bits >> 8) % alphabet));
      }
      expect_same(automaton, {});
      std::vector<Token> ahead;
      for (std::uint64_t i = 0; i < step % 4; ++i) {
        ahead.push_back(static_cast<Token>((bits >> (16 + 8 * i)) % alphabet));
      }
      expect_same(automaton, ahead);
      if (::testing::Test::HasFatalFailure()) FAIL() << "alphabet " << alphabet << " step " << step;
    }
    EXPECT_GT(automaton.size(), 50u);
  }
}

TEST(SuffixAutomaton, AMonotonousTextGivesSomeOccurrence) {
  SuffixAutomaton automaton;
  for (std::size_t i = 0; i < 300; ++i) {
    automaton.push_back(i % 50 == 49 ? 1 : 0);
    expect_same(automaton, {});
    expect_same(automaton, std::vector<Token>{0, 0});
  }
}

TEST(SuffixAutomaton, LookingAheadChangesNothing) {
  const SuffixAutomaton automaton = automaton_of(std::vector<Token>{1, 2, 3, 4, 1, 2});
  const auto match = find(automaton, std::vector<Token>{3, 4});
  ASSERT_TRUE(match);
  EXPECT_EQ(match->length, 4u);
  EXPECT_EQ(match->follower, 4u);
  EXPECT_EQ(find(automaton)->follower, 2u);
  EXPECT_FALSE(find(automaton, std::vector<Token>{77}));
}

// Texts with the most states, with the most transitions, and with as many tokens as there are.
TEST(SuffixAutomaton, MemoryPerTokenIsBounded) {
  constexpr std::size_t kTokens = 70'000;  // just behind a doubling
  for (const int kind : {0, 1, 2, 3, 4}) {
    SuffixAutomaton automaton;
    for (std::size_t i = 0; i < kTokens; ++i) {
      const std::uint64_t bits = random(9, i);
      Token token = 0;
      if (kind == 0) token = i == 0 ? 0 : 1;                         // a b b b ...
      if (kind == 1) token = i == 0 ? 0 : i + 1 == kTokens ? 2 : 1;  // a b b ... c
      if (kind == 2) token = static_cast<Token>(i);                  // all different
      if (kind == 3) token = static_cast<Token>(bits % 2);           // binary noise
      if (kind == 4) token = static_cast<Token>(bits % 300);         // a large alphabet
      automaton.push_back(token);
      if (i % 1000 == 999) {
        ASSERT_LE(automaton.used_bytes(), kSuffixBytesPerToken * automaton.size())
            << "kind " << kind << " size " << automaton.size();
      }
    }
  }
}

}  // namespace
}  // namespace ft::speculation
