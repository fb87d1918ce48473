#include "io/output_file.h"

#include "base/error.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::io {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              (std::string("ft_output_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string contents(const char* name) const { return read_text(folder_ / name, 1 << 20); }
  static std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, KeepsWhatIsThereAndWritesWhereTold) {
  {
    const OutputFile file = OutputFile::open(folder_ / "a", 6);
    file.write_at(bytes("xyz"), 3);
    file.sync();
  }
  EXPECT_EQ(contents("a"), std::string("\0\0\0xyz", 6));
  OutputFile::open(folder_ / "a", 8).write_at(bytes("ab"), 0);
  EXPECT_EQ(contents("a"), std::string("ab\0xyz\0\0", 8));
  EXPECT_GT(occupied_bytes(folder_ / "a"), 0U);
  EXPECT_EQ(occupied_bytes(folder_ / "b"), 0U);
  EXPECT_GT(free_bytes(folder_), 0U);
}

TEST_F(OutputFileTest, NamesWhatCannotBeWritten) {
  try {
    OutputFile::open(folder_ / "none" / "a", 1);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("none/a'"), HasSubstr("No such file")));
  }
  // A link could lead out of the folder.
  fs::create_symlink(folder_ / "target", folder_ / "link");
  EXPECT_THROW(OutputFile::open(folder_ / "link", 1), IoError);
  EXPECT_FALSE(fs::exists(folder_ / "target"));
}

TEST_F(OutputFileTest, AppendsBehindWhatIsKept) {
  AppendFile(folder_ / "log", 0).append("one\ntwo\ntorn");
  AppendFile(folder_ / "log", 8).append("three\n");
  EXPECT_EQ(contents("log"), "one\ntwo\nthree\n");
}

TEST_F(OutputFileTest, ReplacesInOneStep) {
  write_atomically(folder_ / "f", "old");
  write_atomically(folder_ / "f", "new one");
  EXPECT_EQ(contents("f"), "new one");
  EXPECT_FALSE(fs::exists(folder_ / "f.part"));
}

TEST_F(OutputFileTest, SeveralWritersAtOnceReplaceInOneStep) {
  const std::vector<std::string> texts = {
      std::string(9000, 'a'), std::string(200, 'b'), std::string(40'000, 'c')};
  write_atomically(folder_ / "f", texts.front());
  std::atomic<int> n_failed = 0;
  std::atomic<int> n_writing = static_cast<int>(texts.size());
  std::vector<std::thread> writers;
  for (const std::string& text : texts) {
    writers.emplace_back([&, this] {
      for (int i = 0; i < 20; ++i) {
        try {
          write_atomically(folder_ / "f", text);
        } catch (const Error&) {
          ++n_failed;
        }
      }
      --n_writing;
    });
  }
  std::size_t n_mixed = 0;
  while (n_writing > 0) n_mixed += std::ranges::count(texts, contents("f")) == 0 ? 1U : 0U;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(n_failed, 0);
  EXPECT_EQ(n_mixed, 0U);
  EXPECT_FALSE(fs::exists(folder_ / "f.part"));
}

}  // namespace
}  // namespace ft::io
