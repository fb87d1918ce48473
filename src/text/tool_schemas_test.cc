#include "text/tool_schemas.h"

#include "base/error.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

using ::testing::HasSubstr;

ToolSchemas schemas(std::string_view tools) {
  return ToolSchemas::from_json(json::parse(tools, "test"));
}

/// What a value becomes under the schema of an argument, `$defs` beside it.
std::string typed(std::string_view schema, std::string_view value) {
  return schemas(
             fmt::format(
                 R"([{{"name": "f", "parameters": {{"$defs": {{"n": {{"type": "integer"}}, "a/b~":
                         {{"$ref": "#/$defs/n"}}, "loop": {{"anyOf": [{{"$ref": "#/$defs/loop"}},
                         {{"$ref": "#/$defs/loop"}}]}}}}, "properties": {{"k": {}}}}}}}])",
                 schema))
      .argument_json("f", "k", value);
}

std::string error_of(std::string_view tools) {
  try {
    schemas(tools);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(ToolSchemas, KeepStringsVerbatim) {
  EXPECT_EQ(typed(R"({"type": "string"})", "5"), R"("5")");
  EXPECT_EQ(typed(R"({"type": "string"})", " \"a\" "), R"(" \"a\" ")");
  EXPECT_EQ(typed(R"({"enum": ["1", "2"]})", "1"), R"("1")");
  EXPECT_EQ(typed(R"({"const": "null"})", "null"), R"("null")");
}

TEST(ToolSchemas, PassJsonOfTheirTypeOn) {
  EXPECT_EQ(typed(R"({"type": "integer"})", " 5\n"), "5");
  EXPECT_EQ(typed(R"({"type": "integer"})", "3.0"), "3.0");
  EXPECT_EQ(typed(R"({"type": "integer"})", "123456789012345678901234567890"),
            "123456789012345678901234567890");
  EXPECT_EQ(typed(R"({"type": "number"})", "5"), "5");
  EXPECT_EQ(typed(R"({"type": "number"})", "0.25"), "0.25");
  EXPECT_EQ(typed(R"({"type": "boolean"})", "true"), "true");
  EXPECT_EQ(typed(R"({"type": "array"})", "[1,\n \"x\"]"), "[1,\n \"x\"]");
  EXPECT_EQ(typed(R"({"type": "object"})", R"({"a": null})"), R"({"a": null})");
  EXPECT_EQ(typed(R"({"enum": [1, 2]})", "3"), "3");
}

TEST(ToolSchemas, MakeAnythingElseAString) {
  EXPECT_EQ(typed(R"({"type": "integer"})", "3.5"), R"("3.5")");
  EXPECT_EQ(typed(R"({"type": "integer"})", "three"), R"("three")");
  EXPECT_EQ(typed(R"({"type": "integer"})", "\"5\""), R"("\"5\"")");
  EXPECT_EQ(typed(R"({"type": "boolean"})", "True"), R"("True")");
  EXPECT_EQ(typed(R"({"type": "array"})", R"({"a": 1})"), R"("{\"a\": 1}")");
  EXPECT_EQ(typed(R"({"type": "object"})", R"({"a": 1, "a": 2})"), R"("{\"a\": 1, \"a\": 2}")");
  EXPECT_EQ(typed(R"({"type": "number"})", "NaN"), R"("NaN")");
  EXPECT_EQ(typed(R"({"type": "array"})", std::string(100, '[')),
            '"' + std::string(100, '[') + '"');
  EXPECT_EQ(typed(R"({"type": "number"})", ""), R"("")");
}

TEST(ToolSchemas, PreferOtherTypesToStrings_WhereBothAreAllowed) {
  EXPECT_EQ(typed(R"({"type": ["string", "null"]})", "null"), "null");
  EXPECT_EQ(typed(R"({"type": ["string", "null"]})", "5"), R"("5")");
  EXPECT_EQ(typed(R"({"type": ["string", "null"]})", "\"a\""), R"("\"a\"")");
  EXPECT_EQ(typed(R"({"anyOf": [{"type": "string"}, {"type": "integer"}]})", "5"), "5");
  EXPECT_EQ(typed(R"({"oneOf": [{"type": "string"}, {"type": "integer"}]})", "5.5"), R"("5.5")");
}

TEST(ToolSchemas, ReadJson_WhereNothingIsSaid) {
  for (const char* schema : {"{}",
                             "true",
                             R"({"type": "any"})",
                             R"({"type": 7})",
                             R"({"enum": 7})",
                             R"({"$ref": "http://x"})",
                             R"({"$ref": "#/no/where"})",
                             R"({"$ref": "#/$defs/loop"})",
                             R"({"anyOf": []})"}) {
    EXPECT_EQ(typed(schema, "[5]"), "[5]") << schema;
    EXPECT_EQ(typed(schema, "\"a\""), "\"a\"") << schema;
    EXPECT_EQ(typed(schema, "a"), "\"a\"") << schema;
  }
  EXPECT_EQ(schemas(R"([{"name": "f"}])").argument_json("f", "k", "5"), "5");
  EXPECT_EQ(schemas("[]").argument_json("g", "k", "x"), R"("x")");
}

TEST(ToolSchemas, FollowReferencesAndAllOf) {
  EXPECT_EQ(typed(R"({"$ref": "#/$defs/n"})", "5"), "5");
  EXPECT_EQ(typed(R"({"$ref": "#/$defs/n"})", "[5]"), R"("[5]")");
  EXPECT_EQ(typed(R"({"$ref": "#/$defs/a~1b~0"})", "[5]"), R"("[5]")");
  EXPECT_EQ(typed(R"({"allOf": [{"type": ["string", "integer"]}, {"type": "string"}]})", "5"),
            R"("5")");
}

TEST(ToolSchemas, ReadAllThreeWaysToWriteATool) {
  const ToolSchemas tools = schemas(R"([
      {"type": "function", "function": {"name": "a", "parameters":
        {"properties": {"k": {"type": "string"}}}}},
      {"type": "function", "name": "b", "parameters": {"properties": {"k": {"type": "string"}}}},
      {"name": "c", "input_schema": {"properties": {"k": {"type": "string"}}}},
      {"name": "d", "parameters": null}])");
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_TRUE(tools.has_tool(name));
    EXPECT_EQ(tools.argument_json(name, "k", "5"), R"("5")");
  }
  EXPECT_EQ(tools.argument_json("d", "k", "5"), "5");
  EXPECT_FALSE(tools.has_tool("e"));
}

TEST(ToolSchemas, RefuseToolsThatAreNone) {
  EXPECT_THAT(error_of("{}"), HasSubstr("tools is an object, expected an array"));
  EXPECT_THAT(error_of(R"([{"name": "f"}, {"type": "web_search"}])"),
              HasSubstr("tools[1] has no name"));
  EXPECT_THAT(error_of(R"([{"function": {"name": 7}}])"), HasSubstr("tools[0].name"));
  EXPECT_THAT(error_of(R"([{"name": "f"}, {"name": "f"}])"), HasSubstr("tools[1]: name 'f'"));
  EXPECT_THAT(error_of(R"([{"name": "f", "parameters": []}])"), HasSubstr("tools[0]: the schema"));
  EXPECT_THAT(error_of("[7]"), HasSubstr("tools[0] has no name"));
}

}  // namespace
}  // namespace ft::text
