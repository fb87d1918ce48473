#include "text/jinja/marked_text.h"

#include <string>

#include <gtest/gtest.h>

namespace ft::text::jinja {
namespace {

std::string shown(const MarkedText& text) {
  std::string out;
  for (const TextSegment& segment : text.segments()) {
    out += segment.is_trusted ? segment.text : "(" + segment.text + ")";
  }
  return out;
}

TEST(MarkedText, JoinsPiecesOfEqualTrust) {
  MarkedText text("a", true);
  text.append("b", true);
  text.append("c", false);
  text.append("", true);
  text.append("d", false);
  text.append("e", true);
  EXPECT_EQ(shown(text), "ab(cd)e");
  EXPECT_EQ(text.n_runs(), 3U);
  EXPECT_FALSE(text.is_all_trusted());
}

TEST(MarkedText, KnowsTheMarkOfEachByte) {
  MarkedText text("ab", false);
  text.append("cd", true);
  EXPECT_FALSE(text.is_trusted_at(0));
  EXPECT_FALSE(text.is_trusted_at(1));
  EXPECT_TRUE(text.is_trusted_at(2));
  EXPECT_TRUE(text.is_trusted_at(3));
}

TEST(MarkedText, SlicesWithinAndAcrossRuns) {
  MarkedText text("abc", true);
  text.append("def", false);
  text.append("ghi", true);
  EXPECT_EQ(shown(text.slice(0, 9)), "abc(def)ghi");
  EXPECT_EQ(shown(text.slice(1, 2)), "b");
  EXPECT_EQ(shown(text.slice(2, 4)), "c(d)");
  EXPECT_EQ(shown(text.slice(3, 6)), "(def)");
  EXPECT_EQ(shown(text.slice(4, 8)), "(ef)gh");
  EXPECT_EQ(shown(text.slice(5, 5)), "");
}

TEST(MarkedText, EmptyTextIsTrusted) {
  EXPECT_TRUE(MarkedText().is_all_trusted());
  EXPECT_TRUE(MarkedText("", false).is_all_trusted());
  EXPECT_TRUE(MarkedText("", false).segments().empty());
  MarkedText text("", false);
  text.append("a", true);
  EXPECT_EQ(shown(text), "a");
}

TEST(MarkedText, ForgetsMarksWhenCleared) {
  MarkedText text("a", false);
  text.append("b", true);
  text.clear();
  text.append("c", true);
  EXPECT_EQ(shown(text), "c");
}

}  // namespace
}  // namespace ft::text::jinja
