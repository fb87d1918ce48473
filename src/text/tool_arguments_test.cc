#include "text/tool_arguments.h"

#include "base/error.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

json::Value prepared(std::string_view messages) {
  return with_parsed_arguments(json::parse(messages, "test"));
}

/// The arguments of the only call of message 1.
json::Value arguments(const std::string& call) {
  const json::Value messages =
      prepared(R"([{"role": "user"}, {"role": "assistant", "tool_calls": [)" + call + "]}]");
  const json::Value& parsed =
      messages.as_array("messages")[1].find("tool_calls")->as_array("tool_calls")[0];
  const json::Value* function = parsed.find("function");
  return *(function != nullptr ? function : &parsed)->find("arguments");
}

std::string error_of(std::string_view messages) {
  try {
    prepared(messages);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}
std::string error_of_arguments(const std::string& json) {
  return error_of(
      R"([{}, {"tool_calls": [{"function": {"name": "f"}}, {"function": {"arguments": )" + json +
      "}}]}]");
}

TEST(ToolArguments, ParseText) {
  const json::Value parsed =
      arguments(R"({"function": {"name": "f", "arguments": "{\"b\": [1], \"a\": \"x\"}"}})");
  EXPECT_EQ(parsed.as_object("arguments")[0].first, "b");
  EXPECT_TRUE(parsed.find("b")->is_array());
  EXPECT_EQ(parsed.find("a")->as_string("a"), "x");
  EXPECT_TRUE(arguments(R"({"name": "f", "arguments": "{\"k\": 1}"})").find("k")->is_number());
}

TEST(ToolArguments, KeepObjects) {
  EXPECT_EQ(arguments(R"({"function": {"arguments": {"k": "{}"}}})").find("k")->as_string("k"),
            "{}");
}

TEST(ToolArguments, AreNone_IfTheTextIsEmpty) {
  for (const char* text : {"", " \\n", "{}"}) {
    const std::string call = fmt::format(R"({{"function": {{"arguments": "{}"}}}})", text);
    EXPECT_TRUE(arguments(call).as_object("arguments").empty());
  }
}

TEST(ToolArguments, AreRefused_IfTheyAreNoJsonObject) {
  const auto names_place = HasSubstr("messages[1].tool_calls[1].function.arguments");
  EXPECT_THAT(error_of_arguments(R"("{bad")"), AllOf(names_place, HasSubstr("not valid JSON")));
  EXPECT_THAT(error_of_arguments(R"("[1]")"),
              AllOf(names_place, HasSubstr("is an array, expected an object")));
  EXPECT_THAT(error_of_arguments(R"("\"{}\"")"), AllOf(names_place, HasSubstr("is a string")));
  EXPECT_THAT(error_of_arguments(R"("null")"), AllOf(names_place, HasSubstr("is null")));
  EXPECT_THAT(error_of_arguments("null"), AllOf(names_place, HasSubstr("is null")));
  EXPECT_THAT(error_of_arguments("[]"), AllOf(names_place, HasSubstr("is an array")));
  EXPECT_THAT(error_of_arguments(R"("{\"a\": 1, \"a\": 2}")"),
              AllOf(names_place, HasSubstr("duplicate key")));
}

TEST(ToolArguments, LeaveEverythingElseAlone) {
  const json::Value messages = prepared(R"([{"content": null, "tool_calls": null},
      {"tool_calls": [7, {"id": "x", "function": 7}, {"function": {"name": "f"}}]}])");
  const json::Array& all = messages.as_array("messages");
  EXPECT_TRUE(all[0].find("tool_calls")->is_null());
  const json::Array& calls = all[1].find("tool_calls")->as_array("calls");
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[1].find("id")->as_string("id"), "x");
  EXPECT_EQ(calls[2].find("function")->find("arguments"), nullptr);
}

TEST(ToolArguments, NeedMessages) {
  EXPECT_THAT(error_of("[]"), HasSubstr("messages is empty"));
  EXPECT_THAT(error_of("{}"), HasSubstr("messages is an object"));
  EXPECT_THAT(error_of("[{}, 7]"), HasSubstr("messages[1] is an integer"));
}

}  // namespace
}  // namespace ft::text
