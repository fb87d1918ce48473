#include "text/reply_parser.h"

#include "text/chat_template.h"
#include "text/model_files_test_data.h"
#include "text/reply_parser_test_data.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Lines = std::vector<std::string>;

std::vector<Token> joined(const std::vector<std::vector<Token>>& parts) {
  std::vector<Token> ids;
  for (const auto& part : parts) ids.insert(ids.end(), part.begin(), part.end());
  return ids;
}

ParsedReply parsed(const ReplyCase& request) {
  return parse_token_by_token(reply_tokenizer(), reply_markup(), request);
}
Lines lines(const ReplyCase& request) {
  return described(parsed(request).deltas);
}
/// Of a reply that begins with content.
Lines lines(std::string_view text) {
  return lines({.ids = reply(text)});
}
/// Of one that begins with reasoning.
Lines thought_lines(std::string_view text) {
  return lines({.ids = reply(text), .prompt = reasoning_prompt()});
}

TEST(ReplyParser_Reasoning, EndsAtItsMark) {
  EXPECT_THAT(thought_lines("let me see</think>yes"),
              ElementsAre("reasoning: let me see", "content: yes"));
}

TEST(ReplyParser_Reasoning, IsAllThereIs_IfItNeverEnds) {
  EXPECT_THAT(thought_lines("let me see<|endoftext|>"), ElementsAre("reasoning: let me see"));
}

TEST(ReplyParser_Reasoning, MayRepeatItsBeginning) {
  EXPECT_THAT(thought_lines("\n<think>a<think>b</think>c"),
              ElementsAre("reasoning: a<think>b", "content: c"));
}

TEST(ReplyParser_Reasoning, HoldsCallsAsText) {
  EXPECT_THAT(thought_lines("<tool_call>get_weather</tool_call></think>x"),
              ElementsAre("reasoning: <tool_call>get_weather</tool_call>", "content: x"));
}

TEST(ReplyParser_Reasoning, IsTakenOffBeforeCalls) {
  EXPECT_THAT(thought_lines("need it\n</think>\n<tool_call>get_weather</tool_call>"),
              ElementsAre("reasoning: need it\n", "name 0: get_weather", "arguments 0: {}"));
}

TEST(ReplyParser_Reasoning, OfWhiteSpaceAloneIsNone) {
  EXPECT_THAT(thought_lines("\n\n</think>\n\nyes"), ElementsAre("content: \n\nyes"));
}

TEST(ReplyParser_Reasoning, MayBeginWithItsMark_BehindAnyPrompt) {
  EXPECT_THAT(lines("<think>a</think>b"), ElementsAre("reasoning: a", "content: b"));
  EXPECT_THAT(lines({.ids = reply("\n<think>a</think>b"), .prompt = reply("<|assistant|>")}),
              ElementsAre("reasoning: a", "content: b"));
  EXPECT_THAT(lines({.ids = reply("<think>a</think>b"), .prompt = {}}),
              ElementsAre("reasoning: a", "content: b"));
}

TEST(ReplyParser_Reasoning, DoesNotBegin_WhereThePromptOpenedNone) {
  EXPECT_THAT(lines({.ids = reply("just text"), .prompt = reply("<|assistant|>")}),
              ElementsAre("content: just text"));
  // An earlier turn's reasoning says nothing about this one.
  EXPECT_THAT(
      lines({.ids = reply("a"), .prompt = reply("<|assistant|><think>x<|user|>u<|assistant|>")}),
      ElementsAre("content: a"));
}

TEST(ReplyParser_Reasoning, GoesOnWhereThePromptLeftIt) {
  EXPECT_THAT(lines({.ids = reply("a"), .prompt = reply("<|assistant|><think>\n")}),
              ElementsAre("reasoning: a"));
  EXPECT_THAT(lines({.ids = reply("a</think>b"), .prompt = reply("<|assistant|><think>\nSo, ")}),
              ElementsAre("reasoning: a", "content: b"));
  EXPECT_THAT(
      lines({.ids = reply("a<think>b"), .prompt = reply("<|assistant|><think></think>So, ")}),
      ElementsAre("content: a<think>b"));
}

TEST(ReplyParser_Reasoning, IsNotOpenedByMarksThatAUserSpelled) {
  const auto prompt = joined({reply("<|user|>"), spelled("<think>"), reply("<|assistant|>")});
  EXPECT_THAT(lines({.ids = reply("a"), .prompt = prompt}), ElementsAre("content: a"));
  EXPECT_THAT(lines({.ids = joined({spelled("a</think>b"), reply("</think>c")}),
                     .prompt = reasoning_prompt()}),
              ElementsAre("reasoning: a</think>b", "content: c"));
}

TEST(ReplyParser_Reasoning, DoesNotExist_WithoutItsMarksInTheVocabulary) {
  const Tokenizer tokenizer = tokenizer_of(TokenizerFile{.added = {{"<think>", false}}}.text());
  const ReplyMarkup markup(tokenizer);
  const ReplyCase request{.ids = tokenizer.encode("<think>a</think>b"),
                          .prompt = tokenizer.encode("x<think>")};
  EXPECT_THAT(described(parse_token_by_token(tokenizer, markup, request).deltas),
              ElementsAre("content: <think>a</think>b"));
}

TEST(ReplyParser_Reasoning, CountsItsTokens) {
  const auto count = [](std::string_view text, std::vector<Token> prompt) {
    const ParsedReply out = parsed({.ids = reply(text), .prompt = std::move(prompt)});
    EXPECT_LE(out.n_reasoning_tokens, out.n_tokens);
    return out.n_reasoning_tokens;
  };
  EXPECT_EQ(count("abc</think>de", reasoning_prompt()), 3U);
  EXPECT_EQ(count("abc<|endoftext|>", reasoning_prompt()), 4U);
  EXPECT_EQ(count("</think>abc", reasoning_prompt()), 0U);
  EXPECT_EQ(count("<think>abc</think>de", content_prompt()), 4U);
  EXPECT_EQ(count("abc", content_prompt()), 0U);
}

TEST(ReplyParser_Content, IsVerbatim) {
  EXPECT_THAT(lines("  a < b\n<arg_key>\n"), ElementsAre("content:   a < b\n<arg_key>\n"));
  EXPECT_THAT(lines(" \n"), ElementsAre("content:  \n"));
  EXPECT_THAT(lines(""), IsEmpty());
}

TEST(ReplyParser_Content, KeepsMarksOfReasoning_UnlessItBeginsWithThem) {
  EXPECT_THAT(lines("</think>\nthe tag </think> ends <think>"),
              ElementsAre("content: \nthe tag </think> ends <think>"));
}

TEST(ReplyParser_Content, HasNoSpecialTokens) {
  EXPECT_THAT(lines("a<|user|>b<|endoftext|>"), ElementsAre("content: ab"));
  EXPECT_THAT(lines({.ids = {'a', kUnknownToken, -1, 'b'}}), ElementsAre("content: ab"));
}

TEST(ReplyParser_Content, HasWholeCharactersOnly) {
  // One half of a euro sign before a mark, and one never completed.
  const auto ids = joined({spelled("\xE2\x82"), {kEndThinkToken}, spelled("\xE2\x82\xAC\xF0\x9F")});
  EXPECT_THAT(lines({.ids = ids, .prompt = reasoning_prompt()}),
              ElementsAre("reasoning: \uFFFD", "content: \u20AC\uFFFD"));
}

TEST(ReplyParser_Content, FollowsAtOnce) {
  ReplyParser parser(reply_tokenizer(), reply_markup(), reasoning_prompt(), weather_tools());
  // What one round accepted.
  const auto deltas = parser.push(reply("a</think>{\"x\": 1"), "a</think>{\"x\": 1");
  EXPECT_THAT(described(deltas), ElementsAre("reasoning: a", "content: {\"x\": 1"));
  EXPECT_THAT(described(parser.push(reply("}"), "}")), ElementsAre("content: }"));
  EXPECT_THAT(parser.finish(), IsEmpty());
}

TEST(ReplyParser_Calls, HaveNameAndTypedArguments) {
  EXPECT_THAT(lines("<tool_call>get_weather<arg_key>city</arg_key><arg_value>12</arg_value>"
                    "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"),
              ElementsAre("name 0: get_weather", R"(arguments 0: {"city":"12","days":3})"));
}

TEST(ReplyParser_Calls, GiveOutOneDeltaPerArgument) {
  ReplyParser parser(reply_tokenizer(), reply_markup(), content_prompt(), weather_tools());
  const std::string text =
      "<tool_call>get_weather<arg_key>city</arg_key><arg_value>a</arg_value>"
      "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>";
  using Kind = ReplyDelta::Kind;
  EXPECT_THAT(parser.push(reply(text), text),
              ElementsAre(ReplyDelta{Kind::kToolName, "get_weather", 0},
                          ReplyDelta{Kind::kToolArguments, R"({"city":"a")", 0},
                          ReplyDelta{Kind::kToolArguments, R"(,"days":3})", 0}));
  EXPECT_EQ(parser.n_calls(), 1U);
}

TEST(ReplyParser_Calls, MayBeSeveral_WithContentBetween) {
  const ReplyCase request{.ids =
                              reply("Two:\n<tool_call>get_weather</tool_call>\n\n<tool_call>write"
                                    "</tool_call> and\n<tool_call>get_weather</tool_call>\n")};
  EXPECT_THAT(lines(request),
              ElementsAre("content: Two:\n",
                          "name 0: get_weather",
                          "arguments 0: {}",
                          "name 1: write",
                          "arguments 1: {}",
                          "content:  and\n",
                          "name 2: get_weather",
                          "arguments 2: {}"));
  EXPECT_EQ(parsed(request).n_calls, 3U);
}

TEST(ReplyParser_Calls, TrimNamesAndKeys_AndAllowSpaceBetweenMarks) {
  EXPECT_THAT(
      lines("<tool_call>\nget_weather\n<arg_key> days </arg_key>\\n \n<arg_value> 3\n"
            "</arg_value>\n<arg_key>city</arg_key><arg_value> a\n</arg_value>\\n</tool_call>"),
      ElementsAre("name 0: get_weather", R"(arguments 0: {"days":3,"city":" a\n"})"));
}

TEST(ReplyParser_Calls, KeepMarkupInValues) {
  // Spelled with other tokens, and as tokens: only an argument's or the call's end ends a value.
  const auto ids = joined({reply("<tool_call>write<arg_key>text</arg_key><arg_value>"),
                           spelled("if a < b: </arg_value></tool_call><arg_key>k</arg_key>"),
                           reply("<think></arg_value><tool_call>x</arg_key><arg_value>"),
                           reply("</arg_value>\n<arg_key>path</arg_key><arg_value>p</arg_value>"),
                           reply("</tool_call>")});
  EXPECT_THAT(
      lines({.ids = ids}),
      ElementsAre(
          "name 0: write",
          R"(arguments 0: {"text":"if a < b: </arg_value></tool_call><arg_key>k)"
          R"(</arg_key><think></arg_value><tool_call>x</arg_key><arg_value>","path":"p"})"));
}

TEST(ReplyParser_Calls, AcceptEveryTypeOfJson) {
  const auto of = [](std::string_view value) {
    std::string text = "<tool_call>f<arg_key>x</arg_key><arg_value>";
    return lines(text.append(value).append("</arg_value></tool_call>")).at(1);
  };
  EXPECT_EQ(of("[1, \"a\"]"), R"(arguments 0: {"x":[1, "a"]})");
  EXPECT_EQ(of("\"quoted\""), R"(arguments 0: {"x":"quoted"})");
  EXPECT_EQ(of("null"), R"(arguments 0: {"x":null})");
  EXPECT_EQ(of(R"({"a": {"b": []}})"), R"(arguments 0: {"x":{"a": {"b": []}}})");
  EXPECT_EQ(of("-1.5e3"), R"(arguments 0: {"x":-1.5e3})");
  EXPECT_EQ(of("Oslo"), R"(arguments 0: {"x":"Oslo"})");
  EXPECT_EQ(of(""), R"(arguments 0: {"x":""})");
  EXPECT_EQ(of("\xC3\x85s \"\\\n"), "arguments 0: {\"x\":\"\xC3\x85s \\\"\\\\\\n\"}");
}

TEST(ReplyParser_Calls, StayText_IfMalformed) {
  for (const std::string text : {
           "<tool_call></tool_call>",
           "<tool_call>no function</tool_call>",
           "<tool_call>{\"name\": \"f\"}</tool_call>",
           "<tool_call>f</arg_key></tool_call>",
           "<tool_call>f<arg_key>k</tool_call>",
           "<tool_call>f<arg_key></arg_key><arg_value>v</arg_value></tool_call>",
           "<tool_call>f<arg_key>k</arg_key></tool_call>",
           "<tool_call>f<arg_key>k</arg_key>no<arg_value>v</arg_value></tool_call>",
           "<tool_call>f<arg_key>k</arg_key><arg_value>v</tool_call>",
           "<tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value>no</tool_call>",
           "<tool_call>f<arg_key>k</arg_key><arg_value>v<arg_key>l</arg_key><arg_value>w"
           "</arg_value></tool_call>",
           "<tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value>"
           "<arg_key>k</arg_key><arg_value>w</arg_value></tool_call>",
           // A call within a value may be a quotation: it is not made.
           "<tool_call>f<arg_key>k</arg_key><arg_value><tool_call>g<arg_key>l</arg_key><arg_value>w"
           "</arg_value></tool_call></arg_value></tool_call>",
       }) {
    EXPECT_THAT(lines("\n" + text + " x"), ElementsAre("content: \n" + text + " x"));
  }
}

TEST(ReplyParser_Calls, MayBeginAnew) {
  EXPECT_THAT(lines("<tool_call>get_<tool_call>write<arg_key>te<tool_call>get_weather</tool_call>"),
              ElementsAre("content: <tool_call>get_<tool_call>write<arg_key>te",
                          "name 0: get_weather",
                          "arguments 0: {}"));
}

TEST(ReplyParser_Calls, StayText_IfUnfinished) {
  for (const std::string text : {"<tool_call>",
                                 "<tool_call>get_weather<arg_key>ci",
                                 "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Os",
                                 "<tool_call>get_weather</tool_call>\n<tool_call>write"}) {
    const std::size_t n_calls = text.find("</tool_call>") == std::string::npos ? 0 : 1;
    const ParsedReply out = parsed({.ids = reply(text)});
    EXPECT_EQ(out.n_calls, n_calls);
    EXPECT_EQ(described(out.deltas).back(),
              "content: " + (n_calls == 0 ? text : "\n<tool_call>write"));
  }
}

TEST(ReplyParser_Calls, StayText_IfTheRequestHasNoTools) {
  EXPECT_THAT(lines({.ids = reply("<tool_call>get_weather</tool_call>"), .tools = std::nullopt}),
              ElementsAre("content: <tool_call>get_weather</tool_call>"));
}

TEST(ReplyParser_Calls, MayBeBegunByThePrompt) {
  const ReplyCase request{
      .ids = reply("<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"),
      .prompt = reply("<|assistant|><think></think><tool_call>get_weather")};
  EXPECT_THAT(lines(request),
              ElementsAre("name 0: get_weather", R"(arguments 0: {"city":"Oslo"})"));
}

TEST(ReplyParser_Stops, EndACallWithin) {
  const auto ids =
      reply("<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value>");
  EXPECT_THAT(lines({.ids = ids, .stops = {"slo"}}),
              ElementsAre("content: <tool_call>get_weather<arg_key>city</arg_key><arg_value>O"));
  EXPECT_THAT(lines({.ids = ids, .stops = {"weather<arg"}}),
              ElementsAre("content: <tool_call>get_"));
  EXPECT_THAT(lines({.ids = ids, .stops = {"key>city"}}),
              ElementsAre("content: <tool_call>get_weather<arg_"));
}

TEST(ReplyParser_Stops, HoldTextBackAcrossMarks) {
  const auto ids = reply("ab</think>ac<tool_call>get_weather</tool_call>");
  const Lines expected = {"reasoning: ab", "content: ac", "name 0: get_weather", "arguments 0: {}"};
  EXPECT_EQ(lines({.ids = ids, .prompt = reasoning_prompt(), .stops = {"b</think>ad", "call>z"}}),
            expected);
  EXPECT_THAT(lines({.ids = ids, .prompt = reasoning_prompt(), .stops = {"b</think>ac"}}),
              ElementsAre("reasoning: a"));
}

/// Greedy replies of the shipped model to real prompts.
class ReplyParser_Mini : public testing::Test {
 protected:
  Lines lines(std::string_view request, std::vector<Token> ids) const {
    const json::Value parsed_request = json::parse(request, "request");
    const json::Value* tools = parsed_request.find("tools");
    ReplyCase reply_case{.ids = std::move(ids),
                         .prompt = tokenizer_.encode(template_.render(parsed_request)),
                         .tools = std::nullopt};
    if (tools != nullptr) reply_case.tools = ToolSchemas::from_json(*tools);
    return described(parse_token_by_token(tokenizer_, markup_, reply_case).deltas);
  }

  const Tokenizer tokenizer_ = tokenizer_of(read_model_file("glm-mini/tokenizer.json"));
  const ChatTemplate template_ =
      ChatTemplate::compile(read_model_file("glm-mini/chat_template.jinja"));
  const ReplyMarkup markup_{tokenizer_};
};

const std::string kWeather =
    R"("tools": [{"type": "function", "function": {"name": "get_weather", "parameters":
       {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])";
const std::string kOslo = R"({"role": "user", "content": "What is the weather in Oslo?"})";

TEST_F(ReplyParser_Mini, ThinksAndCallsTheWeather) {
  EXPECT_THAT(lines("{\"messages\": [" + kOslo + "], " + kWeather + "}",
                    {40,   1429, 275, 1307, 321,  5090, 326, 13,  6130, 6131, 658,
                     1467, 6135, 659, 6136, 6137, 46,   82,  326, 6138, 6132, 6117}),
              ElementsAre("reasoning: I need the weather of Oslo.",
                          "name 0: get_weather",
                          R"(arguments 0: {"city":"Oslo"})"));
}

TEST_F(ReplyParser_Mini, CallsTheWeatherWithoutThinking) {
  EXPECT_THAT(lines("{\"messages\": [" + kOslo + "], \"enable_thinking\": false, " + kWeather + "}",
                    {6131, 658, 1467, 6135, 659, 6136, 6137, 46, 82, 326, 6138, 6132, 6117}),
              ElementsAre("name 0: get_weather", R"(arguments 0: {"city":"Oslo"})"));
}

TEST_F(ReplyParser_Mini, UsesTheResult) {
  const std::string call =
      R"({"role": "assistant", "tool_calls": [{"function": {"name": "get_weather",
          "arguments": "{\"city\": \"Oslo\"}"}}]}, {"role": "tool", "content": "{\"temperature\": 12}"})";
  EXPECT_THAT(lines("{\"messages\": [" + kOslo + ", " + call + "], " + kWeather + "}",
                    {6130, 40, 1322, 220, 689, 306, 5090, 326, 13, 6115}),
              ElementsAre("content: I found 12 in Oslo."));
}

TEST_F(ReplyParser_Mini, ThinksAndAnswers) {
  const std::string messages =
      R"({"messages": [{"role": "user", "content": "What is the capital of France?"}])";
  EXPECT_THAT(lines(messages + "}",
                    {753, 1034, 5316, 373, 275, 894, 321, 512,  5665, 13,   1186, 337, 1749,
                     287, 13,   6130, 753, 894, 321, 512, 5665, 337,  1749, 287,  13,  6115}),
              ElementsAre("reasoning: The user asks for the capital of France. It is Paris.",
                          "content: The capital of France is Paris."));
  EXPECT_THAT(lines(messages + ", \"enable_thinking\": false}",
                    {753, 894, 321, 512, 5665, 337, 1749, 287, 13, 6115}),
              ElementsAre("content: The capital of France is Paris."));
}

TEST_F(ReplyParser_Mini, StartsAsEachRenderedPromptEnds) {
  const json::Value goldens = json::parse(read_model_file("goldens/chat.json"), "goldens");
  std::size_t n_thinking = 0;
  for (const json::Value& golden : goldens.as_array("goldens")) {
    const std::string& prompt = golden.find("prompt")->as_string("prompt");
    const ReplyCase request{.ids = tokenizer_.encode("yes"),
                            .prompt = tokenizer_.encode(template_.render(*golden.find("request")))};
    const bool is_thinking = prompt.ends_with("<think>");
    n_thinking += is_thinking ? 1 : 0;
    EXPECT_THAT(described(parse_token_by_token(tokenizer_, markup_, request).deltas),
                ElementsAre(is_thinking ? "reasoning: yes" : "content: yes"))
        << prompt;
  }
  EXPECT_GT(n_thinking, 5U);
  EXPECT_LT(n_thinking, goldens.as_array("goldens").size());
}

}  // namespace
}  // namespace ft::text
