#include "experts/heat_file.h"

#include "io/file.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::experts {
namespace {

using ::testing::HasSubstr;

class HeatFileTest : public ::testing::Test {
 protected:
  HeatFileTest() { std::filesystem::create_directories(folder_); }
  ~HeatFileTest() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("ft_heat_" + std::to_string(::getpid()));
  const std::filesystem::path path_ = folder_ / "model.heat";
};

TEST_F(HeatFileTest, ComesBackAsWritten) {
  Heat heat;
  heat.passes = 812.5;
  heat.entries = {{3, 17, 40.25}, {3, 18, 0.001}, {77, 255, 1}};
  write_heat_file(path_, heat);
  EXPECT_EQ(io::read_text(path_, 1000), "foretoken-heat 1 812.50\n3 17 40.25\n77 255 1.00\n");
  const Heat read = read_heat_file(path_);
  EXPECT_EQ(read.warning, "");
  EXPECT_EQ(read.passes, 812.5);
  ASSERT_EQ(read.entries.size(), 2U);
  EXPECT_EQ(read.entries[0].layer, 3U);
  EXPECT_EQ(read.entries[0].expert, 17U);
  EXPECT_EQ(read.entries[0].uses, 40.25);
  EXPECT_EQ(read.entries[1].layer, 77U);
}

TEST_F(HeatFileTest, AMissingFileIsNoHeat) {
  const Heat heat = read_heat_file(path_);
  EXPECT_TRUE(heat.entries.empty());
  EXPECT_EQ(heat.warning, "");
}

TEST_F(HeatFileTest, ADamagedFileIsAWarning) {
  for (const std::string text : {"",
                                 "foretoken-heat 2 5\n",
                                 "foretoken-heat 1 \n",
                                 "foretoken-heat 1 nan\n",
                                 "foretoken-heat 1 -1\n",
                                 "foretoken-heat 1 5 6\n",
                                 "foretoken-heat 1 1e13\n"}) {
    const Heat heat = parse_heat(text, "experts: usage file 'h'");
    EXPECT_EQ(
        heat.warning,
        "experts: usage file 'h': line 1 is not 'foretoken-heat 1 PASSES'; learning starts afresh")
        << text;
  }
  for (const std::string line : {"",
                                 "3",
                                 "3 4",
                                 "3 4 ",
                                 "3 4 x",
                                 "3 4 5 6",
                                 "-3 4 5",
                                 "3 4 -5",
                                 "3 4 inf",
                                 "3 4 nan",
                                 "3 4 1e999",
                                 "3  4 5",
                                 " 3 4 5",
                                 "3 4294967296 5",
                                 "99999999999999999999999 4 5"}) {
    const Heat heat =
        parse_heat("foretoken-heat 1 5\n1 2 3\n" + line + "\n", "experts: usage file 'h'");
    EXPECT_EQ(heat.warning,
              "experts: usage file 'h': line 3 is not 'LAYER EXPERT USES'; learning starts afresh")
        << line;
    EXPECT_TRUE(heat.entries.empty());
    EXPECT_EQ(heat.passes, 0);
  }
  std::ofstream(path_) << "foretoken-heat 1 5\n1 2";
  EXPECT_THAT(read_heat_file(path_).warning, HasSubstr("model.heat': line 2 is not"));
}

TEST_F(HeatFileTest, WhatCannotBeReadIsAWarning) {
  std::filesystem::create_directory(path_);
  EXPECT_THAT(read_heat_file(path_).warning, HasSubstr("learning starts afresh"));
}

}  // namespace
}  // namespace ft::experts
