#include "apps/sizes.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace ft::apps {
namespace {

TEST(Sizes, ReadsBareNumbersAndBothPowers) {
  EXPECT_EQ(parse_size("0", "--x"), 0U);
  EXPECT_EQ(parse_size("4096", "--x"), 4096U);
  EXPECT_EQ(parse_size("1K", "--x"), 1000U);
  EXPECT_EQ(parse_size("1Ki", "--x"), 1024U);
  EXPECT_EQ(parse_size("1.5G", "--x"), 1'500'000'000U);
  EXPECT_EQ(parse_size("2GiB", "--x"), 2'147'483'648U);
  EXPECT_EQ(parse_size("3MB", "--x"), 3'000'000U);
  EXPECT_EQ(parse_size("1T", "--x"), 1'000'000'000'000U);
  EXPECT_EQ(parse_size("1Ti", "--x"), 1'099'511'627'776U);
}

TEST(Sizes, RefusesWhatIsNoSizeAndNamesTheOption) {
  for (const char* text :
       {"", "G", "-1", "1X", "1Kx", "1e3", "nan", "inf", "1 G", "99999999999T", "0x10"}) {
    try {
      parse_size(text, "--ram-budget");
      FAIL() << text;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find("--ram-budget"), std::string::npos) << error.what();
    }
  }
}

TEST(Sizes, FormatsThreeDigits) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(999), "999 B");
  EXPECT_EQ(format_size(31'800'000), "31.8 MB");
  EXPECT_EQ(format_size(1'500'000'000), "1.5 GB");
}

}  // namespace
}  // namespace ft::apps
