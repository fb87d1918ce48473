#include "base/cores.h"

#include "base/thread_pool.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace ft {
namespace {

namespace fs = std::filesystem;

/// A made-up /proc and /sys in a folder of its own.
class Machine : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) /
            (std::string("ft_machine_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void allow(const std::string& list) {
    put("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + list + "\n");
  }
  std::size_t cores() const { return usable_cores_under(root_); }

  fs::path root_;
};

TEST_F(Machine, CountsAllowedCpus) {
  allow("0-3,8");
  EXPECT_EQ(cores(), 5u);
}

TEST_F(Machine, CountsHyperthreadSiblingsOnce) {
  allow("0-3,5");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string low = std::to_string(cpu % 4);
    put("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        low + "," + std::to_string(cpu % 4 + 4) + "\n");
  }
  EXPECT_EQ(cores(), 4u);  // 5 is the sibling of 1
  allow("1,5");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(Machine, HonoursCgroup2Quota_OfAncestors) {
  allow("0-15");
  put("proc/self/cgroup", "0::/a/b\n");
  put("proc/self/mountinfo",
      "30 23 0:27 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(), 16u);
  put("sys/fs/cgroup/a/cpu.max", "350000 100000\n");
  EXPECT_EQ(cores(), 3u);
  put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(Machine, HonoursCgroup1Quota_WhenOnlyItsSubtreeIsMounted) {
  allow("0-15");
  put("proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n");
  put("proc/self/mountinfo",
      "32 31 0:29 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "33 31 0:30 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cores(), 16u);
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(cores(), 2u);
}

TEST_F(Machine, HonoursBothHierarchies_WhenTheyAreMixed) {
  allow("0-15");
  put("proc/self/cgroup", "3:cpu,cpuacct:/job\n0::/job\n");
  put("proc/self/mountinfo",
      "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000\n");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(cores(), 6u);
  put("sys/fs/cgroup/unified/job/cpu.max", "200000 50000\n");
  EXPECT_EQ(cores(), 4u);
}

TEST_F(Machine, TakesNoQuotaOfAGroupThatIsNotItsOwn) {
  allow("0-7");
  put("proc/self/cgroup", "0::/docker/xy\n");
  put("proc/self/mountinfo", "33 31 0:30 /docker/x /cg rw - cgroup2 cgroup2 rw\n");
  put("cg/cpu.max", "100000 100000\n");
  put("cg/y/cpu.max", "100000 100000\n");
  EXPECT_EQ(cores(), 8u);
  // Seen from inside a cgroup namespace the group is the root.
  put("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(cores(), 1u);
}

TEST_F(Machine, QuotaAndAffinityBoundEachOther) {
  allow("0-1");
  put("proc/self/cgroup", "0::/a\n");
  put("proc/self/mountinfo", "30 23 0:27 / /cg rw - cgroup2 cgroup2 rw\n");
  put("cg/a/cpu.max", "800000 100000\n");
  EXPECT_EQ(cores(), 2u);
  EXPECT_EQ(allowed_cpus_under(root_), (std::vector<std::int64_t>{0, 1}));
}

TEST_F(Machine, SpreadsPinnedThreadsOverCoresFirst) {
  using Cpus = std::vector<std::int64_t>;
  allow("1-3,5-7");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string low = std::to_string(cpu % 4);
    put("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        low + "," + std::to_string(cpu % 4 + 4) + "\n");
  }
  EXPECT_EQ(cpus_for_threads_under(root_, 1), (Cpus{1}));
  EXPECT_EQ(cpus_for_threads_under(root_, 3), (Cpus{1, 2, 3}));
  EXPECT_EQ(cpus_for_threads_under(root_, 5), (Cpus{1, 2, 3, 5, 6}));
  EXPECT_EQ(cpus_for_threads_under(root_, 7), Cpus{});  // two would share a processor
  put("proc/self/cgroup", "0::/a\n");
  put("proc/self/mountinfo", "30 23 0:27 / /cg rw - cgroup2 cgroup2 rw\n");
  put("cg/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(cpus_for_threads_under(root_, 2), (Cpus{1, 2}));
  EXPECT_EQ(cpus_for_threads_under(root_, 3), Cpus{});  // above the quota
}

TEST_F(Machine, PinsNothing_WhenTheAllowedProcessorsAreUnknown) {
  EXPECT_TRUE(cpus_for_threads_under(root_, 1).empty());
}

TEST_F(Machine, IgnoresWhatItCannotRead) {
  EXPECT_GE(cores(), 1u);
  allow("0-99999999999999999999");
  EXPECT_GE(cores(), 1u);
  allow("0-1");
  put("proc/self/mountinfo", "x\n30 23 0:27 / /cg rw -\n30 23 0:27 / /cg rw - cgroup2 a b\n");
  put("cg/cpu.max", "-5 0\n");
  EXPECT_EQ(cores(), 2u);
}

TEST(UsableCores, IsBetweenOneAndAllCpus) {
  EXPECT_GE(usable_cores(), 1u);
  EXPECT_LE(usable_cores(), std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace ft
