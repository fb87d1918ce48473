// The public reply parser: what a program that serves chats gets to see.
#include "foretoken/foretoken.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace foretoken {
namespace {

constexpr const char* kTools =
    R"([{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}])";

TEST(PublicReplyParser, GivesReasoningAndCall) {
  // The parser keeps what it needs of the tokenizer alive.
  ReplyParser parser = [] {
    const Tokenizer tokenizer = Tokenizer::open(FT_SOURCE_DIR "/models/glm-mini");
    const ChatPrompt prompt = tokenizer.encode_chat(
        R"({"messages": [{"role": "user", "content": "What is the weather in Oslo?"}]})");
    return tokenizer.reply_parser(prompt.ids, kTools);
  }();
  std::vector<ReplyDelta> deltas =
      parser.push({.ids = {40, 1429, 13}, .text = "I need.", .logprobs = {}});
  ASSERT_EQ(deltas.size(), 1U);
  EXPECT_EQ(deltas[0].kind, ReplyDelta::Kind::kReasoning);
  EXPECT_EQ(deltas[0].text, "I need.");
  deltas =
      parser.push({.ids = {6130, 6131, 658, 1467, 6135, 659, 6136, 6137, 46, 82, 326, 6138, 6132},
                   .text = "</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>"
                           "Oslo</arg_value></tool_call>",
                   .logprobs = {}});
  ASSERT_EQ(deltas.size(), 2U);
  EXPECT_EQ(deltas[0].kind, ReplyDelta::Kind::kToolName);
  EXPECT_EQ(deltas[0].text, "get_weather");
  EXPECT_EQ(deltas[1].kind, ReplyDelta::Kind::kToolArguments);
  EXPECT_EQ(deltas[1].text, R"({"city":"Oslo"})");
  EXPECT_TRUE(parser.finish().empty());
  EXPECT_EQ(parser.n_calls(), 1U);
  EXPECT_EQ(parser.n_reasoning_tokens(), 3U);
}

TEST(PublicReplyParser, RefusesToolsThatAreNone) {
  const Tokenizer tokenizer = Tokenizer::open(FT_SOURCE_DIR "/models/glm-mini");
  for (const char* tools : {"{", "{}", "[{}]"}) {
    try {
      (void)tokenizer.reply_parser({}, tools);
      ADD_FAILURE() << tools;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    }
  }
}

}  // namespace
}  // namespace foretoken
