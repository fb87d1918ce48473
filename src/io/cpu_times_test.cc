#include "io/cpu_times.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ft::io {
namespace {

namespace fs = std::filesystem;

class CpuTimesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) /
            (std::string("ft_cpu_times_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "proc/self");
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::ofstream(root_ / path) << text;
  }

  fs::path root_;
};

TEST_F(CpuTimesTest, CountsWhatIsNotIdleOnAllowedProcessors) {
  put("proc/self/status", "Cpus_allowed_list:\t1-2\n");
  put("proc/stat",
      "cpu  9999 9 9 9 9 9 9 9 0 0\n"
      "cpu0 5000 0 0 1 0 0 0 0 0 0\n"
      "cpu1 100 20 30 7777 888 4 5 6 50 0\n"
      "cpu2 10 0 0 9999 0 0 0 0 0 0\n"
      "cpu12 7000 0 0 0 0 0 0 0 0 0\n"
      "intr 1 2 3\n");
  const auto times = cpu_times_under(root_);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->n_cpus, 2U);
  EXPECT_DOUBLE_EQ(times->busy_s, (165.0 + 10.0) / static_cast<double>(sysconf(_SC_CLK_TCK)));
  EXPECT_GT(times->own_s, 0);
}

TEST_F(CpuTimesTest, SaysNothingWhereTheKernelDoesNot) {
  EXPECT_FALSE(cpu_times_under(root_).has_value());
  put("proc/stat", "cpu  0 0 0 0\ncpu0 0 0 0 0\n");
  EXPECT_FALSE(cpu_times_under(root_).has_value());
  put("proc/stat", "cpu0 x y\ncpu");
  EXPECT_FALSE(cpu_times_under(root_).has_value());
  EXPECT_EQ(cpu_name_under(root_), "");
}

TEST_F(CpuTimesTest, ReadsTheName) {
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n");
  EXPECT_EQ(cpu_name_under(root_), "Some CPU @ 2 GHz");
  put("proc/cpuinfo", "model name\n");
  EXPECT_EQ(cpu_name_under(root_), "");
}

TEST(OthersShare, IsWhatThisProcessDidNotUse) {
  const CpuTimes before{.busy_s = 100, .own_s = 1, .wall_s = 50, .n_cpus = 4};
  CpuTimes after{.busy_s = 112, .own_s = 9, .wall_s = 60, .n_cpus = 4};
  EXPECT_DOUBLE_EQ(others_share(before, after), 4.0 / 40);
  after.own_s = 20;  // ticks are coarse: more own time than busy time
  EXPECT_EQ(others_share(before, after), 0);
  EXPECT_EQ(others_share(after, after), 0);
}

}  // namespace
}  // namespace ft::io
