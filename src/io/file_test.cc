#include "io/file.h"

#include "base/error.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::io {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              (std::string("ft_io_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path put(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  static std::string content_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  fs::path folder_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename E, typename F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "no such error";
}

TEST_F(FileTest, ReadsAtAnyOffset) {
  const File file = File::open(put("a", "0123456789"));
  EXPECT_EQ(file.size_bytes(), 10u);
  EXPECT_EQ(file.path(), folder_ / "a");
  std::array<std::byte, 4> bytes{};
  file.read_exactly(bytes, 6);
  EXPECT_EQ(text_of(bytes), "6789");
  file.read_exactly(bytes, 0);
  EXPECT_EQ(text_of(bytes), "0123");
  file.read_exactly({}, 10);
}

TEST_F(FileTest, SaysWhatItWantedAndGot_WhenTheFileIsShort) {
  const File file = File::open(put("short", "0123456789"));
  std::array<std::byte, 4> bytes{};
  const std::string message = message_of<IoError>([&] { file.read_exactly(bytes, 8); });
  EXPECT_THAT(message, HasSubstr("short'"));
  EXPECT_THAT(message, HasSubstr("wanted 4 bytes at offset 8, got 2: the file ends there"));
  EXPECT_THAT(message_of<IoError>([&] { file.read_exactly(bytes, 1u << 30); }), HasSubstr("got 0"));
  EXPECT_THROW(file.read_exactly(bytes, ~std::uint64_t{0}), IoError);
}

TEST_F(FileTest, RefusesWhatIsNoRegularFile) {
  EXPECT_THAT(message_of<InvalidInput>([&] { File::open(folder_ / "none"); }),
              HasSubstr("none' does not exist"));
  EXPECT_THAT(message_of<InvalidInput>([&] { File::open(put("f", "x") / "below"); }),
              HasSubstr("does not exist"));
  EXPECT_THAT(message_of<InvalidInput>([&] { File::open(folder_); }), HasSubstr("is a folder"));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<InvalidInput>([&] { File::open(folder_ / "pipe"); }),
              HasSubstr("is a device or pipe"));
  EXPECT_THROW(File::open(folder_ / std::string(5000, 'x')), IoError);
}

TEST_F(FileTest, NamesALoopOfLinks) {
  const fs::path loop = folder_ / "loop";
  fs::create_symlink(loop, loop);
  for (const fs::path& path : {loop, loop / "below"}) {
    EXPECT_THAT(message_of<InvalidInput>([&] { File::open(path); }),
                HasSubstr("Too many levels of symbolic links"));
    EXPECT_THAT(message_of<InvalidInput>([&] { read_input(path, 9); }), HasSubstr("loop"));
    EXPECT_THAT(message_of<InvalidInput>([&] { refuse_unreachable("model", path); }),
                HasSubstr("model '"));
    EXPECT_TRUE(is_there(path));
  }
  refuse_unreachable("model", folder_ / "none");
  refuse_unreachable("model", folder_);
  EXPECT_FALSE(is_there(folder_ / "none"));
  EXPECT_TRUE(is_there(folder_));
}

TEST_F(FileTest, MapsWholeFiles) {
  const File file = File::open(put("m", std::string(100000, 'q') + "end"));
  MappedFile first(file);
  EXPECT_EQ(first.bytes().size(), 100003u);
  MappedFile second(std::move(first));
  EXPECT_TRUE(
      first.bytes()
          .empty());  // NOLINT(bugprone-use-after-move): the moved-from state is the subject
  MappedFile third;
  third = std::move(second);
  EXPECT_EQ(text_of(third.bytes().last(3)), "end");
}

TEST_F(FileTest, MapsAnEmptyFileToNothing) {
  const MappedFile empty(File::open(put("e", "")));
  EXPECT_TRUE(empty.bytes().empty());
  EXPECT_TRUE(MappedFile().bytes().empty());
}

TEST_F(FileTest, RefusesToMapAFileThatShrank) {
  const fs::path path = put("s", "0123456789");
  const File file = File::open(path);
  fs::resize_file(path, 3);
  EXPECT_THAT(message_of<IoError>([&] { MappedFile mapped(file); }),
              HasSubstr("had 10 bytes when opened, now 3"));
}

TEST_F(FileTest, ReadsTexts_UpToTheirBound) {
  EXPECT_EQ(read_text(put("t", "abc\n"), 4), "abc\n");
  EXPECT_EQ(read_text(put("empty", ""), 4), "");
  EXPECT_THAT(message_of<InvalidInput>([&] { read_text(put("t", "abcde"), 4); }),
              HasSubstr("t' has 5 bytes, at most 4 are read"));
  EXPECT_THROW(read_text(folder_ / "none", 4), InvalidInput);
}

TEST_F(FileTest, ReadsInputFromAPipe_ToItsEnd) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(100'000, 'x');
  const auto feed = [&] { std::ofstream(pipe) << text; };
  std::jthread first(feed);
  EXPECT_EQ(read_input(pipe, text.size()), text);
  first.join();
  EXPECT_EQ(read_input(put("regular", "abc"), 3), "abc");
  EXPECT_THAT(message_of<InvalidInput>([&] { read_input(folder_, 3); }), HasSubstr("a folder"));
  EXPECT_THAT(message_of<InvalidInput>([&] { read_input(folder_ / "none", 3); }),
              HasSubstr("does not exist"));
}

TEST_F(FileTest, WritesLines_AndFlushesOnDestruction) {
  const fs::path path = put("log", "old content that is longer than the new");
  {
    LineWriter writer(path);
    EXPECT_EQ(content_of(path), "");
    writer.write("one");
    writer.write("");
    writer.flush();
    EXPECT_EQ(content_of(path), "one\n\n");
    writer.write("two");
  }
  EXPECT_EQ(content_of(path), "one\n\ntwo\n");
}

TEST_F(FileTest, WritesMoreThanItsBuffer) {
  const std::string line(1000, 'x');
  {
    LineWriter writer(folder_ / "big");
    for (int i = 0; i < 300; ++i) {
      writer.write(line);
    }
  }
  EXPECT_EQ(fs::file_size(folder_ / "big"), 300u * 1001u);
}

TEST_F(FileTest, SaysWhyALineWriterFails) {
  EXPECT_THAT(message_of<InvalidInput>([&] { LineWriter writer(folder_ / "no" / "log"); }),
              HasSubstr("cannot create"));
  if (fs::exists("/dev/full")) {
    LineWriter writer("/dev/full");
    writer.write("x");
    EXPECT_THAT(message_of<IoError>([&] { writer.flush(); }),
                HasSubstr("cannot write '/dev/full'"));
  }
}

}  // namespace
}  // namespace ft::io
