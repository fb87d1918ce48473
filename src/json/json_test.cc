#include "json/json.h"

#include "base/error.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::json {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text, const Limits& limits = {}) {
  try {
    parse(text, "t.json", limits);
  } catch (const InvalidInput& error) {
    std::string message = error.what();
    EXPECT_THAT(message, testing::StartsWith("t.json: "));
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
  return "no error";
}

template <typename F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(JsonParse, ReadsEveryType_InDocumentOrder) {
  const Value v =
      parse(R"( {"z": null, "a": [true, false, -7, 2.5, "x\n\u00e9\ud83d\ude00"], "m": {}} )", "t");
  const Object& object = v.as_object("v");
  ASSERT_EQ(object.size(), 3u);
  EXPECT_EQ(object[0].first, "z");
  EXPECT_EQ(object[1].first, "a");
  EXPECT_TRUE(object[0].second.is_null());
  const Array& a = object[1].second.as_array("a");
  ASSERT_EQ(a.size(), 5u);
  EXPECT_TRUE(a[0].as_bool("a"));
  EXPECT_FALSE(a[1].as_bool("a"));
  EXPECT_EQ(a[2].as_integer("a"), -7);
  EXPECT_EQ(a[3].as_real("a"), 2.5);
  EXPECT_EQ(a[4].as_string("a"), "x\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_TRUE(v.find("m")->is_object());
  EXPECT_EQ(v.find("q"), nullptr);
  EXPECT_EQ(a[0].find("q"), nullptr);
}

TEST(JsonParse, AcceptsScalarsAsDocuments) {
  EXPECT_EQ(parse("3", "t").as_integer("t"), 3);
  EXPECT_EQ(parse("\"\"", "t").as_string("t"), "");
  EXPECT_TRUE(parse("null", "t").is_null());
}

TEST(JsonParse, TurnsLongIntegersIntoReals) {
  EXPECT_EQ(parse("9223372036854775807", "t").as_integer("t"),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse("-9223372036854775808", "t").as_integer("t"),
            std::numeric_limits<std::int64_t>::min());
  const Value v = parse(
      R"({"18446744073709551616": [9223372036854775808, 18446744073709551615, 18446744073709551616,
          -18446744073709551616, 100000000000000000000000000000000000000000, 1], "s": "a\"123456789012345678901\\"})",
      "t");
  const Array& a = v.find("18446744073709551616")->as_array("a");
  EXPECT_EQ(a[0].type(), Value::Type::kReal);
  EXPECT_EQ(a[0].as_real("a"), 0x1p63);
  EXPECT_EQ(a[1].as_real("a"), 0x1p64);
  EXPECT_EQ(a[2].as_real("a"), 0x1p64);
  EXPECT_EQ(a[3].as_real("a"), -0x1p64);
  EXPECT_EQ(a[4].as_real("a"), 1e41);
  EXPECT_EQ(a[5].type(), Value::Type::kInteger);
  EXPECT_EQ(v.find("s")->as_string("s"), "a\"123456789012345678901\\");
  EXPECT_THAT(message_of([&] { a[0].as_integer("n"); }), HasSubstr("n is 9.22337203685477"));
}

TEST(JsonParse, RefusesMalformedText) {
  for (const char* text : {"{",
                           "[1,]",
                           "{\"a\":}",
                           "{'a':1}",
                           "[1 2]",
                           "nul",
                           "01",
                           "1.",
                           "-",
                           "+1",
                           "1e999",
                           "0123456789012345678901",
                           "\"\\x\"",
                           "\"a",
                           "\"\t\"",
                           "NaN",
                           "[1]]",
                           "{} {}",
                           "\xef\xbb\xbf{}",
                           "[1e5.3]",
                           "// c\n1"}) {
    EXPECT_THAT(error_of(text), HasSubstr("not valid JSON")) << text;
  }
  EXPECT_THAT(error_of(""), HasSubstr("empty"));
  EXPECT_THAT(error_of("  \n"), HasSubstr("empty"));
}

TEST(JsonParse, RefusesTextThatIsNotUtf8) {
  for (const char* text :
       {"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\""}) {
    EXPECT_THAT(error_of(text), HasSubstr("UTF-8")) << text;
  }
}

TEST(JsonParse, RefusesHalfASurrogatePair) {
  for (const char* text : {R"("\ud800")", R"("\udc00")", R"("\ud800\u0041")", R"({"\udfff": 1})"}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
  EXPECT_EQ(parse(R"("\ud55c\ud83d\ude00")", "t").as_string("t"), "\xed\x95\x9c\xf0\x9f\x98\x80");
}

TEST(JsonParse, RefusesDuplicateKeys) {
  EXPECT_THAT(error_of(R"({"a": 1, "b": 2, "a": 1})"), HasSubstr("duplicate key 'a'"));
  EXPECT_THAT(error_of(R"([{"x": {"a\n": 1, "a\u000a": 2}}])"),
              HasSubstr("duplicate key 'a\\x0a'"));
  EXPECT_NO_THROW(parse(R"({"a": {"a": 1}, "A": 2, "": 3})", "t"));
}

TEST(JsonParse, BoundsDepthAndSize) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(parse(nested(60), "t"));
  EXPECT_THAT(error_of(nested(70)), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(error_of(nested(1000000)), HasSubstr("nested deeper"));
  EXPECT_NE(error_of(std::string(1000000, '[')), "no error");
  EXPECT_THAT(error_of(nested(10), {.max_bytes = 100, .max_depth = 5}),
              HasSubstr("nested deeper than 5"));
  EXPECT_THAT(error_of(nested(51), {.max_bytes = 101}),
              HasSubstr("102 bytes of JSON, at most 101"));
}

TEST(JsonParse, IsNearLinear_InTheNumberOfKeys) {
  std::string text = "{";
  for (int i = 0; i < 150000; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::string("token") + std::to_string(i) +
            "\":" + std::to_string(i);
  }
  const std::string twice = text + ",\"token77\":1}";
  text += "}";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse(text, "t").as_object("t").size(), 150000u);
  EXPECT_THAT(error_of(twice), HasSubstr("duplicate key 'token77'"));
  // About 0.1 s here; comparing all pairs would take a minute.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(JsonParse, ReadsTheShippedTokenizer) {
  std::ifstream file(FT_SOURCE_DIR "/models/glm-mini/tokenizer.json", std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const Value v = parse(text.str(), "tokenizer.json");
  const Value* model = v.find("model");
  ASSERT_NE(model, nullptr);
  EXPECT_GT(model->find("vocab")->as_object("vocab").size(), 5000u);
}

TEST(JsonValue, NamesPlaceAndTypes_WhenTheTypeIsWrong) {
  const Value v = parse(R"({"hidden_size": "x", "r": 2.5, "e": 3.0, "n": null})", "t");
  EXPECT_EQ(message_of([&] { v.find("hidden_size")->as_integer("config.json: hidden_size"); }),
            "config.json: hidden_size is a string, expected an integer");
  EXPECT_EQ(message_of([&] { v.find("r")->as_integer("r"); }),
            "r is 2.5, expected a 64-bit integer");
  EXPECT_EQ(v.find("e")->as_integer("e"), 3);
  EXPECT_EQ(message_of([&] { v.find("n")->as_bool("n"); }), "n is null, expected a boolean");
  EXPECT_EQ(message_of([&] { v.find("n")->as_real("n"); }), "n is null, expected a real number");
  EXPECT_EQ(message_of([&] { v.find("r")->as_string("r"); }),
            "r is a real number, expected a string");
  EXPECT_EQ(message_of([&] { v.find("n")->as_array("n"); }), "n is null, expected an array");
  EXPECT_EQ(message_of([&] { v.find("n")->as_object("n"); }), "n is null, expected an object");
  EXPECT_EQ(Value(std::int64_t{4}).as_real("i"), 4.0);
  EXPECT_EQ(message_of([] { Value(1e300).as_integer("i"); }),
            "i is 1e+300, expected a 64-bit integer");
  EXPECT_EQ(message_of([] { Value(0x1p63).as_integer("i"); }).find("no error"), std::string::npos);
  EXPECT_EQ(Value(-0x1p63).as_integer("i"), std::numeric_limits<std::int64_t>::min());
}

TEST(JsonValue, SharesItsContent_WhenCopied) {
  const Value original(Array{Value(std::string("x")), Value(true)});
  const Value copy = original;
  EXPECT_EQ(&original.as_array("a"), &copy.as_array("a"));
}

TEST(JsonWriter, PutsCommasAndNesting) {
  Writer w;
  w.begin_object()
      .member("a", 1)
      .key("b")
      .begin_array()
      .value(true)
      .null()
      .value("x")
      .begin_object()
      .end_object()
      .begin_array()
      .end_array()
      .end_array()
      .member("c", std::int64_t{-5});
  w.member("d", std::uint64_t{18446744073709551615u}).member("e", false).end_object();
  EXPECT_EQ(w.text(),
            R"({"a":1,"b":[true,null,"x",{},[]],"c":-5,"d":18446744073709551615,"e":false})");
}

TEST(JsonWriter, WritesValuesBackAsTheyWere) {
  const std::string text =
      R"({"a":[1,-2,0.5,true,null],"b":{"c":"\"x\"\n","d":{},"e":[]},"f":9223372036854775807})";
  EXPECT_EQ(Writer().value(parse(text, "t")).text(), text);
}

TEST(JsonWriter, EscapesStrings) {
  Writer w;
  w.value(std::string_view("\"\\\n\r\t\b\x1f\x7f/ \xc3\xa9\0", 13));
  EXPECT_EQ(w.text(), "\"\\\"\\\\\\n\\r\\t\\u0008\\u001f\x7f/ \xc3\xa9\\u0000\"");
}

TEST(JsonWriter, ReplacesInvalidUtf8) {
  const std::string good = "\xf0\x9f\x98\x80\xed\x9f\xbf\xe0\xa0\x80\xf4\x8f\xbf\xbf";
  EXPECT_EQ(Writer().value(good).text(), "\"" + good + "\"");
  const std::string_view replacement = "\xef\xbf\xbd";
  for (std::string_view bad : {"\x80", "\xc1", "\xff", "\xc3", "\xe2"}) {
    EXPECT_EQ(Writer().value(bad).text(), "\"" + std::string(replacement) + "\"");
  }
  EXPECT_EQ(Writer().value("a\xed\xa0\x80z").text(),
            fmt::format("\"a{0}{0}{0}z\"", replacement));  // a surrogate
}

TEST(JsonWriter, WritesRealsThatReadBackExactly) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bits = random();
    const double d = std::bit_cast<double>(bits);
    const float f = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isfinite(d)) {
      ASSERT_EQ(parse(Writer().value(d).text(), "t").as_real("t"), d);
    }
    if (std::isfinite(f)) {
      const double read = parse(Writer().value(f).text(), "t").as_real("t");
      ASSERT_EQ(static_cast<float>(read), f);
    }
  }
  EXPECT_EQ(Writer().value(0.1f).text(), "0.1");
  EXPECT_EQ(Writer().value(0.1).text(), "0.1");
  EXPECT_EQ(Writer().value(1e300).text(), "1e+300");
  EXPECT_TRUE(std::signbit(parse(Writer().value(-0.0).text(), "t").as_real("t")));
  EXPECT_EQ(Writer().value(std::numeric_limits<double>::quiet_NaN()).text(), "null");
  EXPECT_EQ(Writer().value(-std::numeric_limits<float>::infinity()).text(), "null");
}

}  // namespace
}  // namespace ft::json
