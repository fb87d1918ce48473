#include "apps/chat_input.h"

#include "base/error.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The inputs that lines make, the unfinished one at the end included.
std::vector<std::string> inputs_of(const std::vector<std::string>& lines) {
  InputAssembler assembler;
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    if (const auto input = assembler.push(line)) out.push_back(input->text);
  }
  if (const auto input = assembler.end()) out.push_back(input->text);
  EXPECT_FALSE(assembler.is_open());
  return out;
}

std::string refusal(const std::string& line) {
  try {
    parse_command({line});
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(InputAssembler, TakesALineAsAnInput_WithoutTheCarriageReturnOfOtherSystems) {
  EXPECT_THAT(inputs_of({"one", "", "two\r"}), ElementsAre("one", "", "two"));
}

TEST(InputAssembler, JoinsLines_WhenTheyEndInABackslash) {
  EXPECT_THAT(inputs_of({"a\\", " b\\\r", "c", "d"}), ElementsAre("a\n b\nc", "d"));
  EXPECT_THAT(inputs_of({"a\\"}), ElementsAre("a\n"));
}

TEST(InputAssembler, JoinsABlock_WhateverItsLinesSay) {
  EXPECT_THAT(inputs_of({"\"\"\"", "/help", "a\\", "", "\"\"\"", "b"}),
              ElementsAre("/help\na\\\n", "b"));
  EXPECT_THAT(inputs_of({"\"\"\"a", "b\"\"\""}), ElementsAre("a\nb"));
  EXPECT_THAT(inputs_of({"\"\"\"a\"\"\""}), ElementsAre("a"));
  EXPECT_THAT(inputs_of({"\"\"\"", "\"\"\""}), ElementsAre(""));
  EXPECT_THAT(inputs_of({"\"\"\"", "open"}), ElementsAre("open"));
}

TEST(InputAssembler, TakesPastedLinesAsOneMessage) {
  InputAssembler assembler;
  const auto input = assembler.push("/quit\nx\\");
  ASSERT_TRUE(input);
  EXPECT_EQ(input->text, "/quit\nx\\");
  EXPECT_FALSE(parse_command(*input));
}

TEST(InputAssembler, ForgetsWhatWasBegun_WhenItIsReset) {
  InputAssembler assembler;
  assembler.push("\"\"\"");
  assembler.push("lost");
  EXPECT_TRUE(assembler.is_open());
  assembler.reset();
  EXPECT_EQ(assembler.push("kept")->text, "kept");
}

TEST(ChatCommands, HaveANameAndAnArgument) {
  const auto set = parse_command({"/set  top_p 0.5 "});
  ASSERT_TRUE(set);
  EXPECT_EQ(set->verb, ChatVerb::kSet);
  EXPECT_EQ(set->argument, "top_p 0.5");
  EXPECT_EQ(parse_command({"/system one\ntwo"})->argument, "one\ntwo");
  EXPECT_EQ(parse_command({"/quit"})->verb, ChatVerb::kQuit);
}

TEST(ChatCommands, AreNotWhatMessagesBeginWith) {
  EXPECT_FALSE(parse_command({"hello /quit"}));
  EXPECT_FALSE(parse_command({" /quit"}));
  EXPECT_FALSE(parse_command({"//quit"}));
  EXPECT_EQ(message_of({"//quit"}), "/quit");
  EXPECT_FALSE(parse_command({"/quit", false}));
  EXPECT_EQ(message_of({"//quit", false}), "//quit");
}

TEST(ChatCommands, AreRefused_WhenTheyCannotBe) {
  EXPECT_THAT(refusal("/exti"), HasSubstr("unknown command '/exti'"));
  EXPECT_THAT(refusal("/"), HasSubstr("unknown command '/'"));
  EXPECT_THAT(refusal("/save"), HasSubstr("/save needs a FILE"));
  EXPECT_THAT(refusal("/clear all"), HasSubstr("/clear is followed by 'all'"));
}

TEST(ChatCommands, AreAllInTheHelp) {
  for (const char* name :
       {"/help", "/set", "/stats", "/save", "/load", "/regen", "/clear", "/system", "/quit"}) {
    EXPECT_THAT(chat_help(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace ft::apps
