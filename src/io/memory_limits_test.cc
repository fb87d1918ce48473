#include "io/memory_limits.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ft::io {
namespace {

namespace fs = std::filesystem;

class MemoryLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) /
            (std::string("ft_memory_limits_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    put("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 5 kB\nMemAvailable:   800 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void put_v2(const std::string& path, const std::string& mount_root = "/") {
    put("proc/self/cgroup", "0::" + path + "\n");
    put("proc/self/mountinfo",
        "20 1 8:1 / / rw - ext4 /dev/sda rw\n"
        "30 20 0:25 " +
            mount_root + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  void put_v1(const std::string& path, const std::string& mount_root = "/") {
    put("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:" + path + "\n0::/\n");
    put("proc/self/mountinfo",
        "31 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "32 20 0:27 " +
            mount_root + " /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n");
  }
  MemoryLimits limits() const { return memory_limits_under(root_); }

  fs::path root_;
  const std::string v2_ = "sys/fs/cgroup/";
  const std::string v1_ = "sys/fs/cgroup/mem ory/";
};

TEST_F(MemoryLimitsTest, TellsTheMachineAlone_WithoutGroups) {
  const MemoryLimits found = limits();
  EXPECT_EQ(found.total_bytes, 1000U * 1024);
  EXPECT_EQ(found.available_bytes, 800U * 1024);
  EXPECT_FALSE(found.are_groups_known);
  EXPECT_FALSE(found.group.has_value());
  EXPECT_FALSE(found.pressure.has_value());
  EXPECT_EQ(found.most_bytes(), 1000U * 1024);
  EXPECT_EQ(found.allocatable_bytes(), 800U * 1024);
}

TEST_F(MemoryLimitsTest, SaysNothing_WhereTheKernelDoesNot) {
  put("proc/meminfo", "MemTotal: x kB\nMemAvailable: 99999999999999999999 kB\n");
  EXPECT_FALSE(limits().total_bytes.has_value());
  EXPECT_FALSE(limits().available_bytes.has_value());
  put("proc/meminfo", "MemTotal: 18446744073709551615 kB\n");
  EXPECT_FALSE(limits().most_bytes().has_value());
  fs::remove_all(root_);
  EXPECT_FALSE(limits().allocatable_bytes().has_value());
}

TEST_F(MemoryLimitsTest, TakesTheTightestGroupOnTheWayUp) {
  put_v2("/a/b");
  put(v2_ + "a/b/memory.max", "max\n");
  put(v2_ + "a/b/memory.current", "1000\n");
  put(v2_ + "a/memory.max", "500000\n");
  put(v2_ + "a/memory.high", "400000\n");
  put(v2_ + "a/memory.current", "300000\n");
  put(v2_ + "a/memory.stat", "anon 1\nactive_file 20000\ninactive_file 30000\nshmem 7\n");
  put(v2_ + "memory.max", "900000\n");
  put(v2_ + "memory.current", "300000\n");
  const MemoryLimits found = limits();
  ASSERT_TRUE(found.group.has_value());
  EXPECT_EQ(found.group->folder, root_ / v2_ / "a");
  EXPECT_EQ(found.group->limit_bytes, 400000U);
  EXPECT_EQ(found.group->cache_bytes, 50000U);
  EXPECT_EQ(found.group->available_bytes(), 150000U);
  EXPECT_EQ(found.most_bytes(), 400000U);
  EXPECT_EQ(found.allocatable_bytes(), 150000U);
}

TEST_F(MemoryLimitsTest, ALargerGroupMayLeaveLess) {
  put_v2("/a");
  put(v2_ + "a/memory.max", "400000\n");
  put(v2_ + "a/memory.current", "100000\n");
  put(v2_ + "memory.max", "500000\n");
  put(v2_ + "memory.current", "499000\n");
  EXPECT_EQ(limits().group->available_bytes(), 1000U);
  put(v2_ + "memory.current", "600000\n");
  EXPECT_EQ(limits().allocatable_bytes(), 0U) << "over its limit";
}

TEST_F(MemoryLimitsTest, KnowsThatNothingLimits) {
  put_v2("/a");
  put(v2_ + "a/memory.max", "max\n");
  put(v2_ + "a/memory.current", "1000\n");
  EXPECT_TRUE(limits().are_groups_known);
  EXPECT_FALSE(limits().group.has_value());
  put_v1("/");
  put(v1_ + "memory.limit_in_bytes", "9223372036854771712\n");
  put(v1_ + "memory.usage_in_bytes", "5\n");
  EXPECT_TRUE(limits().are_groups_known);
  EXPECT_FALSE(limits().group.has_value());
}

TEST_F(MemoryLimitsTest, ReadsVersion1) {
  put_v1("/outer/own", "/outer");
  put(v1_ + "own/memory.limit_in_bytes", "9223372036854771712\n");
  put(v1_ + "own/memory.usage_in_bytes", "60000\n");
  put(v1_ + "own/memory.stat",
      "active_file 1\ninactive_file 1\nhierarchical_memory_limit 100000\n"
      "total_active_file 3000\ntotal_inactive_file 2000\n");
  const MemoryLimits found = limits();
  ASSERT_TRUE(found.group.has_value());
  EXPECT_EQ(found.group->folder, root_ / v1_ / "own");
  EXPECT_EQ(found.group->limit_bytes, 100000U) << "of a group that is not to be seen";
  EXPECT_EQ(found.allocatable_bytes(), 45000U);
}

TEST_F(MemoryLimitsTest, ReadsTheTop_WhereTheOwnGroupIsNotShown) {
  for (const std::string path : {"/host/name", "/../elsewhere", "/"}) {
    put_v1(path);
    put(v1_ + "memory.limit_in_bytes", "70000\n");
    put(v1_ + "memory.usage_in_bytes", "20000\n");
    EXPECT_EQ(limits().allocatable_bytes(), 50000U) << path;
    EXPECT_EQ(limits().group->folder, (root_ / v1_).parent_path()) << path;
  }
  put_v1("/elsewhere", "/host");
  EXPECT_EQ(limits().allocatable_bytes(), 50000U);
}

TEST_F(MemoryLimitsTest, AnUnknownUseLeavesTheLimit) {
  put_v2("/");
  put(v2_ + "memory.max", "70000\n");
  EXPECT_EQ(limits().most_bytes(), 70000U);
  EXPECT_FALSE(limits().group->available_bytes().has_value());
  EXPECT_EQ(limits().allocatable_bytes(), 800U * 1024);
}

TEST_F(MemoryLimitsTest, TellsPressureOfTheNearestThatSays) {
  put("proc/pressure/memory", "some avg10=50.00 avg60=1.00 avg300=0.10 total=1\nfull avg10=0.00\n");
  EXPECT_DOUBLE_EQ(limits().pressure.value(), 0.5);
  put_v2("/a");
  put(v2_ + "a/memory.pressure", "some avg10=2.50 avg60=1.00\n");
  EXPECT_DOUBLE_EQ(limits().pressure.value(), 0.025);
  put(v2_ + "a/memory.pressure", "some avg10=x\n");
  EXPECT_DOUBLE_EQ(limits().pressure.value(), 0.5);
}

TEST_F(MemoryLimitsTest, TornFilesTellNothing) {
  put("proc/self/cgroup", "4:memory\n:\n\n0");
  put("proc/self/mountinfo", "1 2\n - \n1 2 3 4 5 - cgroup2\n1 2 3 / /x\\9 rw - cgroup2 a b\n");
  EXPECT_FALSE(limits().are_groups_known);
}

TEST_F(MemoryLimitsTest, TheWayUpEnds_EvenPastItsTop) {
  put("proc/self/cgroup", "0::/g\n");
  put("proc/self/mountinfo", "1 2 0:3 / /x/ rw - cgroup2 cgroup2 rw\n");
  put("x/g/memory.max", "5000\n");
  ASSERT_TRUE(limits().group.has_value());
  EXPECT_EQ(limits().group->limit_bytes, 5000U);
}

TEST(MemoryLimits, OfThisMachineAreThere) {
  const MemoryLimits found = memory_limits();
  ASSERT_TRUE(found.total_bytes.has_value());
  EXPECT_GT(found.allocatable_bytes().value(), 0U);
  EXPECT_LE(found.allocatable_bytes().value(), found.total_bytes.value());
}

}  // namespace
}  // namespace ft::io
