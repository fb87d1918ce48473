#include "base/error.h"

#include <string>

#include <gtest/gtest.h>

namespace ft {
namespace {

TEST(Error, CarriesCodeAndMessage) {
  try {
    fail("config: hidden_size is {}, expected > 0", -1);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    EXPECT_STREQ(error.what(), "config: hidden_size is -1, expected > 0");
  }
}

TEST(Error, CheckThrowsLogicErrorWithItsCondition) {
  FT_CHECK(1 + 1 == 2);
  try {
    FT_CHECK(1 + 1 == 3);
    FAIL();
  } catch (const LogicError& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
  }
}

TEST(InQuotes, KeepsOrdinaryTextAndUtf8) {
  EXPECT_EQ(in_quotes("model.layers.3.weight"), "'model.layers.3.weight'");
  EXPECT_EQ(in_quotes("d\xc3\xa9j\xc3\xa0"), "'d\xc3\xa9j\xc3\xa0'");
  EXPECT_EQ(in_quotes(""), "''");
}

TEST(InQuotes, EscapesWhatWouldBreakALine) {
  EXPECT_EQ(in_quotes("a\nb\x1b[31m\x7f"), "'a\\x0ab\\x1b[31m\\x7f'");
  EXPECT_EQ(in_quotes(std::string_view("\0", 1)), "'\\x00'");
}

TEST(InQuotes, ShortensLongText_AtACharacterBoundary) {
  const std::string long_text(1000, 'x');
  EXPECT_EQ(in_quotes(long_text), "'" + std::string(400, 'x') + "...' (1000 bytes)");
  const std::string accents = "y" + [] {
    std::string text;
    for (int i = 0; i < 300; ++i) {
      text += "\xc3\xa9";
    }
    return text;
  }();
  const std::string shortened = in_quotes(accents);
  EXPECT_EQ(shortened.substr(0, 1 + 399), "'" + accents.substr(0, 399));
  EXPECT_EQ(shortened.substr(1 + 399), "...' (601 bytes)");
}

}  // namespace
}  // namespace ft
