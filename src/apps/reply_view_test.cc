#include "apps/reply_view.h"

#include "apps/terminal_text.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace ft::apps {
namespace {

using Part = ThinkingSplitter::Part;

constexpr foretoken::Token kThinkEnd = 7;
constexpr foretoken::Token kOther = 1;

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

TEST(ThinkingSplitter, PartsAtTheTokenAlone) {
  ThinkingSplitter splitter(kThinkEnd, true);
  auto piece = splitter.push(kOther, "so </think> is text");
  EXPECT_EQ(piece.part, Part::kThought);
  EXPECT_EQ(piece.text, "so </think> is text");
  piece = splitter.push(kThinkEnd, "\xC3\xA9</think>");  // with a character that was held back
  EXPECT_EQ(piece.part, Part::kThought);
  EXPECT_EQ(piece.text, "\xC3\xA9");
  piece = splitter.push(kOther, "answer");
  EXPECT_EQ(piece.part, Part::kAnswer);
  EXPECT_EQ(piece.text, "answer");
  EXPECT_EQ(splitter.push(kThinkEnd, "</think>").text, "</think>");  // the second one is text
}

TEST(ThinkingSplitter, DropsTheMark_WhenAStopStringHeldItBack) {
  ThinkingSplitter splitter(kThinkEnd, true);
  EXPECT_EQ(splitter.push(kThinkEnd, "thought</think").text, "thought");
  EXPECT_EQ(splitter.push(kOther, ">").text, "");
  EXPECT_EQ(splitter.push(kOther, ">x").text, ">x");
}

TEST(ThinkingSplitter, SeesNoThought_WhenThePromptBeganNoneOrTheModelHasNoMark) {
  EXPECT_EQ(ThinkingSplitter(kThinkEnd, false).push(kOther, "a").part, Part::kAnswer);
  EXPECT_EQ(ThinkingSplitter(std::nullopt, true).push(kOther, "a").part, Part::kAnswer);
  EXPECT_EQ(ThinkingSplitter(kThinkEnd, true).finish("a").part, Part::kThought);
}

TEST(ReplyView, DimsThoughtsAndPartsThemFromTheAnswer) {
  ReplyView view(kColours);
  EXPECT_EQ(view.push({Part::kThought, "\nhm"}, false), "\x1b[2mhm");
  EXPECT_EQ(view.push({Part::kThought, "m"}, false), "m");
  EXPECT_EQ(view.push({Part::kAnswer, "\n\n"}, false), "");
  EXPECT_EQ(view.push({Part::kAnswer, "\nYes"}, false), "\x1b[0m\n\nYes");
  EXPECT_EQ(view.push({Part::kAnswer, "\n\n"}, false), "\n\n");
  EXPECT_EQ(view.push({Part::kAnswer, "."}, false), ".");
  EXPECT_EQ(view.end(), "\n");
}

TEST(ReplyView, ColoursAcceptedDrafts) {
  ReplyView view(kColours);
  EXPECT_EQ(view.push({Part::kAnswer, "a"}, false), "a");
  EXPECT_EQ(view.push({Part::kAnswer, "b"}, true), "\x1b[32mb");
  EXPECT_EQ(view.push({Part::kAnswer, "c"}, true), "c");
  EXPECT_EQ(view.push({Part::kAnswer, "d"}, false), "\x1b[0md");
  EXPECT_EQ(view.push({Part::kAnswer, "e"}, true), "\x1b[32me");
  EXPECT_EQ(view.end(), "\x1b[0m\n");
}

TEST(ReplyView, LetsNoControlOfTheModelThrough_WhenATerminalReads) {
  ReplyView view(kColours);
  EXPECT_EQ(view.push({Part::kAnswer, "\x1b[2J"}, false), "\\x1b[2J");
}

TEST(ReplyView, WritesTheAnswerAsItIs_WhenAPipeReads) {
  ReplyView view(kPipe);
  EXPECT_EQ(view.push({Part::kThought, "hm"}, true), "");
  EXPECT_EQ(view.push({Part::kAnswer, "\n\x1b[2J"}, true), "\n\x1b[2J");
  EXPECT_EQ(view.end(), "\n");
  EXPECT_EQ(ReplyView(kPipe).end(), "\n");  // a reply of no text is still a line
}

}  // namespace
}  // namespace ft::apps
