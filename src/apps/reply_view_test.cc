#include "apps/reply_view.h"

#include "apps/terminal_text.h"

#include <string>

#include <gtest/gtest.h>

namespace ft::apps {
namespace {

using Kind = foretoken::ReplyDelta::Kind;

constexpr ReplyStyle kColours = {
    .is_terminal = true, .has_colours = true, .shows_thoughts = true, .shows_drafts = true};
constexpr ReplyStyle kPipe = {};

TEST(ForTerminal, ShowsWhatATerminalObeys_AndKeepsTheRest) {
  EXPECT_EQ(for_terminal("a\tb\n\xC3\xA9 \xE4\xBD\xA0"), "a\tb\n\xC3\xA9 \xE4\xBD\xA0");
  EXPECT_EQ(for_terminal("\x1b]0;x\x07\r\b\x7f"), "\\x1b]0;x\\x07\\x0d\\x08\\x7f");
  EXPECT_EQ(for_terminal("\xC2\x9B"
                         "31m"),
            "\\xc2\\x9b31m");  // C1: one-byte CSI
  EXPECT_EQ(for_terminal("\xE2\x80\xAE"
                         "abc"),
            "\\xe2\\x80\\xae"
            "abc");  // right-to-left override
  EXPECT_EQ(for_terminal("\x9B\xFF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(for_terminal(std::string("\0", 1)), "\\x00");
}

TEST(ReplyView, DimsThoughtsAndPartsThemFromTheAnswer) {
  ReplyView view(kColours);
  EXPECT_EQ(view.push({Kind::kReasoning, "\nhm"}, false), "\x1b[2mhm");
  EXPECT_EQ(view.push({Kind::kReasoning, "m"}, false), "m");
  EXPECT_EQ(view.push({Kind::kContent, "\n\n"}, false), "");
  EXPECT_EQ(view.push({Kind::kContent, "\nYes"}, false), "\x1b[0m\n\nYes");
  EXPECT_EQ(view.push({Kind::kContent, "\n\n"}, false), "\n\n");
  EXPECT_EQ(view.push({Kind::kContent, "."}, false), ".");
  EXPECT_EQ(view.end(), "\n");
}

TEST(ReplyView, ColoursAcceptedDrafts) {
  ReplyView view(kColours);
  EXPECT_EQ(view.push({Kind::kContent, "a"}, false), "a");
  EXPECT_EQ(view.push({Kind::kContent, "b"}, true), "\x1b[32mb");
  EXPECT_EQ(view.push({Kind::kContent, "c"}, true), "c");
  EXPECT_EQ(view.push({Kind::kContent, "d"}, false), "\x1b[0md");
  EXPECT_EQ(view.push({Kind::kContent, "e"}, true), "\x1b[32me");
  EXPECT_EQ(view.end(), "\x1b[0m\n");
}

TEST(ReplyView, LetsNoControlOfTheModelThrough_WhenATerminalReads) {
  ReplyView view(kColours);
  EXPECT_EQ(view.push({Kind::kContent, "\x1b[2J"}, false), "\\x1b[2J");
}

TEST(ReplyView, WritesTheAnswerAsItIs_WhenAPipeReads) {
  ReplyView view(kPipe);
  EXPECT_EQ(view.push({Kind::kReasoning, "hm"}, true), "");
  EXPECT_EQ(view.push({Kind::kContent, "\n\x1b[2J"}, true), "\n\x1b[2J");
  EXPECT_EQ(view.end(), "\n");
  EXPECT_EQ(ReplyView(kPipe).end(), "\n");  // a reply of no text is still a line
}

}  // namespace
}  // namespace ft::apps
