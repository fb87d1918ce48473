#include "text/added_tokens.h"

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ft::text {
namespace {

using Contents = std::vector<std::string>;
using Found = std::vector<std::pair<std::size_t, Token>>;  // place, index of the content

Found found(const Contents& contents, std::string_view text) {
  std::vector<std::pair<std::string_view, Token>> tokens;
  for (const std::string& content : contents) {
    tokens.emplace_back(content, static_cast<Token>(tokens.size()));
  }
  const AddedTokenMatcher matcher(tokens);
  Found out;
  for (const auto& match : matcher.find_all(text)) {
    EXPECT_EQ(text.substr(match.begin, match.end - match.begin),
              contents.at(static_cast<std::size_t>(match.id)));
    out.emplace_back(match.begin, match.id);
  }
  return out;
}

Found found_naively(const Contents& contents, std::string_view text) {
  Found out;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t best = contents.size();
    for (std::size_t i = 0; i < contents.size(); ++i) {
      if (text.substr(at, contents[i].size()) != contents[i]) continue;
      if (best == contents.size() || contents[i].size() > contents[best].size()) best = i;
    }
    if (best == contents.size()) {
      ++at;
    } else {
      out.emplace_back(at, static_cast<Token>(best));
      at += contents[best].size();
    }
  }
  return out;
}

TEST(AddedTokens_FindAll, FindsNothing_WhenThereIsNothing) {
  EXPECT_TRUE(AddedTokenMatcher().find_all("abc").empty());
  EXPECT_TRUE(found({}, "abc").empty());
  EXPECT_TRUE(found({"abc"}, "").empty());
  EXPECT_TRUE(found({"abc"}, "ab").empty());
}

TEST(AddedTokens_FindAll, PrefersLeftmostThenLongest) {
  EXPECT_EQ(found({"ab", "bcd"}, "abcd"), (Found{{0, 0}}));
  EXPECT_EQ(found({"a", "ab", "abcd"}, "abc abcd"), (Found{{0, 1}, {4, 2}}));
  EXPECT_EQ(found({"<a>", "<a><b>", "<b>"}, "<a><b><b><a>"), (Found{{0, 1}, {6, 2}, {9, 0}}));
  EXPECT_EQ(found({"aa"}, "aaaaa"), (Found{{0, 0}, {2, 0}}));
  EXPECT_EQ(found({"x\xff"}, "\xffx\xff"), (Found{{1, 0}}));
}

TEST(AddedTokens_FindAll, EqualsTheDefinition_OnRandomTokens) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::set<std::string> distinct;
    const auto random_text = [&](std::size_t max_size) {
      std::string text;
      const std::size_t size = 1 + random() % max_size;
      for (std::size_t i = 0; i < size; ++i) text.push_back(static_cast<char>('a' + random() % 2));
      return text;
    };
    const std::size_t n_tokens = 1 + random() % 6;
    for (std::size_t i = 0; i < n_tokens; ++i) distinct.insert(random_text(5));
    const Contents contents(distinct.begin(), distinct.end());
    const std::string text = random_text(40);
    ASSERT_EQ(found(contents, text), found_naively(contents, text))
        << "round " << round << " " << text;
  }
}

TEST(AddedTokens_FindAll, IsLinear_WhenTokensNearlyMatchEverywhere) {
  // Trying the long token at each place would take 10^10 steps.
  const std::string text(1'000'000, 'a');
  EXPECT_TRUE(
      found({std::string(10'000, 'a') + "b", "b" + std::string(10'000, 'a')}, text).empty());
  EXPECT_EQ(found({std::string(10'000, 'a')}, text).size(), 100U);
}

}  // namespace
}  // namespace ft::text
