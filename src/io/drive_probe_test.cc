#include "io/drive_probe.h"

#include "base/error.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace ft::io {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFileBytes = std::uint64_t{4} << 20;

class DriveProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::path(testing::TempDir()) /
            (std::string("ft_probe_") + info->name() + "_" + std::to_string(::getpid()));
    std::ofstream(path_, std::ios::binary) << std::string(kFileBytes, 'x');
  }
  void TearDown() override { fs::remove(path_); }
  static ProbeOptions options() {
    ProbeOptions options;
    options.least_bytes = 1 << 20;
    options.queue.piece_bytes = std::size_t{256} << 10;
    options.queue.depth = 3;
    return options;
  }

  fs::path path_;
};

TEST_F(DriveProbeTest, ReadsEveryExtentOnce_UnlessItReachesALimit) {
  const BulkFile file = BulkFile::open(path_, true);
  const std::vector<ProbeExtent> extents{
      {.file = &file, .offset = 0, .size_bytes = 1 << 20},
      {.file = &file, .offset = 2 << 20, .size_bytes = 300 << 10}};
  ProbeOptions limits = options();
  limits.most_seconds = 60;
  auto rate = probe_drive(extents, limits);
  if (!file.is_direct()) {
    EXPECT_FALSE(rate.has_value()) << "what was just written is in the page cache";
    return;
  }
  ASSERT_TRUE(rate.has_value());
  EXPECT_EQ(rate->n_bytes, (1U << 20) + (300U << 10));
  EXPECT_GT(rate->seconds, 0);
  EXPECT_DOUBLE_EQ(rate->bytes_per_s, static_cast<double>(rate->n_bytes) / rate->seconds);
  limits.most_bytes = 1 << 20;
  rate = probe_drive(extents, limits);
  ASSERT_TRUE(rate.has_value());
  EXPECT_LE(rate->n_bytes, (1U << 20) + (256U << 10));
}

TEST_F(DriveProbeTest, TellsNothing_WhereTooLittleIsCold) {
  const BulkFile file = BulkFile::open(path_, true);
  const ProbeExtent small{.file = &file, .offset = 0, .size_bytes = 512 << 10};
  EXPECT_FALSE(probe_drive(std::span(&small, 1), options()).has_value());
  EXPECT_FALSE(probe_drive({}, options()).has_value());
  const BulkFile cached = BulkFile::open(path_, false);
  std::ifstream stream(path_, std::ios::binary);
  std::string all(kFileBytes, '\0');
  stream.read(all.data(), static_cast<std::streamsize>(all.size()));
  const ProbeExtent warm{.file = &cached, .offset = 0, .size_bytes = kFileBytes};
  EXPECT_FALSE(probe_drive(std::span(&warm, 1), options()).has_value());
}

TEST_F(DriveProbeTest, NamesAReadThatFails) {
  const BulkFile file = BulkFile::open(path_, true);
  fs::resize_file(path_, 1 << 20);
  const ProbeExtent extent{.file = &file, .offset = 0, .size_bytes = kFileBytes};
  if (file.is_direct()) {
    EXPECT_THROW(probe_drive(std::span(&extent, 1), options()), IoError);
  } else {
    EXPECT_FALSE(probe_drive(std::span(&extent, 1), options()).has_value());
  }
}

}  // namespace
}  // namespace ft::io
