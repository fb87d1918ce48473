#include "io/read_queue.h"

#include "base/buffer.h"
#include "base/error.h"
#include "testing/faulty_read_queue.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <map>
#include <random>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::io {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kBlock = kBulkAlignment;
constexpr std::size_t kExtent = 10 * kBlock;
constexpr std::size_t kExtents = 40;

std::string random_text(std::size_t n_bytes) {
  std::string text(n_bytes, '\0');
  std::mt19937 random(7);
  for (char& c : text) c = static_cast<char>(random());
  return text;
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

class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("ft_queue_") + info->test_suite_name() + info->name();
    std::replace(name.begin(), name.end(), '/', '_');
    folder_ = fs::path(::testing::TempDir()) / (name + "_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path put(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  fs::path folder_;
};

/// A file of extents and as much memory to read them into.
struct Fixture {
  Fixture(const fs::path& path, std::string all, bool direct)
      : text(std::move(all)), file(BulkFile::open(path, direct)), memory(text.size()) {}
  ReadRequest request(std::size_t extent, ReadPriority priority = ReadPriority::kDemand) {
    return {.file = &file,
            .offset = extent * kExtent,
            .destination = memory.as<std::byte>(memory.size()).subspan(extent * kExtent, kExtent),
            .tag = extent,
            .priority = priority};
  }
  bool has(std::size_t extent) const {
    return std::memcmp(text.data() + extent * kExtent, memory.data() + extent * kExtent, kExtent) ==
           0;
  }

  std::string text;
  BulkFile file;
  Buffer memory;
};

std::map<std::uint64_t, ReadResult> wait_for(ReadQueue& queue, std::size_t n) {
  std::map<std::uint64_t, ReadResult> results;
  std::vector<ReadResult> finished;
  while (results.size() < n) {
    finished.clear();
    queue.wait(finished);
    for (const ReadResult& result : finished) {
      EXPECT_TRUE(results.emplace(result.tag, result).second) << "tag twice: " << result.tag;
    }
  }
  return results;
}

using BulkFileTest = FolderTest;

TEST_F(BulkFileTest, ReadsFromThePageCacheWhatIsThereAndNothingElse) {
  const std::string text = random_text(64 * kBlock);
  const fs::path path = put("cached", text);
  const BulkFile file = BulkFile::open(path, true);
  std::vector<std::byte> memory(2 * kBlock);
  // Just written, so it is there: but for file systems that keep nothing.
  if (!file.read_if_cached(memory, 3 * kBlock)) GTEST_SKIP() << "the kernel cannot tell";
  EXPECT_EQ(std::memcmp(memory.data(), text.data() + 3 * kBlock, memory.size()), 0);
  EXPECT_FALSE(file.read_if_cached(memory, 63 * kBlock)) << "beyond the end";
  const int fd = file.descriptor();
  ASSERT_EQ(fdatasync(fd), 0);
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_FALSE(file.read_if_cached(memory, 3 * kBlock));
}

TEST_F(BulkFileTest, OpensAsAsked) {
  const fs::path path = put("a", std::string(kBlock + 5, 'x'));
  const BulkFile buffered = BulkFile::open(path, false);
  EXPECT_FALSE(buffered.is_direct());
  EXPECT_EQ(buffered.size_bytes(), kBlock + 5);
  EXPECT_EQ(buffered.path(), path);
  EXPECT_EQ(BulkFile::open(path, true).size_bytes(), kBlock + 5);
}

TEST_F(BulkFileTest, ReadsBuffered_WhereTheFileSystemRefusesDirectReads) {
  // The kernel's own files have no direct reads on any system.
  EXPECT_FALSE(BulkFile::open("/proc/self/status", true).is_direct());
}

TEST_F(BulkFileTest, NamesWhatIsWrong) {
  EXPECT_THAT(message_of<InvalidInput>([&] { BulkFile::open(folder_ / "none", true); }),
              HasSubstr("none' does not exist"));
  EXPECT_THAT(message_of<InvalidInput>([&] { BulkFile::open(folder_, true); }),
              HasSubstr("is a folder, expected a regular file"));
}

struct Setting {
  ReadQueueOptions::Kind kind = ReadQueueOptions::Kind::kAuto;
  bool is_direct = false;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << (setting.kind == ReadQueueOptions::Kind::kThreads ? "threads" : "auto")
       << (setting.is_direct ? ", direct" : ", buffered");
}

class ReadQueueTest : public FolderTest, public ::testing::WithParamInterface<Setting> {
 protected:
  std::unique_ptr<ReadQueue> queue(std::size_t depth = 4, std::size_t blocks_per_piece = 3) const {
    return make_read_queue(
        {.kind = GetParam().kind, .piece_bytes = blocks_per_piece * kBlock, .depth = depth});
  }
  Fixture fixture(std::size_t n_bytes = kExtents * kExtent) const {
    std::string text = random_text(n_bytes);
    const fs::path path = put("extents", text);
    return {path, std::move(text), GetParam().is_direct};
  }
};

INSTANTIATE_TEST_SUITE_P(Each,
                         ReadQueueTest,
                         ::testing::Values(Setting{ReadQueueOptions::Kind::kAuto, false},
                                           Setting{ReadQueueOptions::Kind::kAuto, true},
                                           Setting{ReadQueueOptions::Kind::kThreads, false},
                                           Setting{ReadQueueOptions::Kind::kThreads, true}));

TEST_P(ReadQueueTest, FillsEveryDestinationOnce) {
  Fixture data = fixture();
  for (const std::size_t depth : {1UL, 2UL, 16UL}) {
    for (const std::size_t blocks_per_piece : {1UL, 3UL, 100UL}) {
      std::memset(data.memory.data(), 0, data.memory.size());
      const auto queue_of_depth = queue(depth, blocks_per_piece);
      std::vector<ReadRequest> requests;
      for (std::size_t i = 0; i < kExtents; ++i) {
        requests.push_back(
            data.request(i, i % 3 == 0 ? ReadPriority::kAhead : ReadPriority::kDemand));
      }
      const std::span all(requests);
      queue_of_depth->submit(all.first(kExtents / 2));
      queue_of_depth->submit(all.subspan(kExtents / 2));
      queue_of_depth->promote(3);
      queue_of_depth->promote(999);
      for (const auto& [tag, result] : wait_for(*queue_of_depth, kExtents)) {
        EXPECT_EQ(result.error, "");
        EXPECT_GE(result.latency_us, 0);
        EXPECT_TRUE(data.has(tag)) << tag;
      }
    }
  }
}

/// Makes io_uring fail in this thread and those it starts, as containers do.
void forbid_io_uring() {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST(MakeReadQueue, UsesThreads_WhereIoUringIsRefused) {
  std::thread confined([] {
    forbid_io_uring();
    EXPECT_EQ(make_read_queue({})->name(), "threads");
    EXPECT_THAT(
        message_of<IoError>([] { make_read_queue({.kind = ReadQueueOptions::Kind::kUring}); }),
        HasSubstr("io_uring is refused: Operation not permitted"));
  });
  confined.join();
}

TEST(MakeReadQueue, MakesWhatIsAskedFor) {
  EXPECT_EQ(make_read_queue({.kind = ReadQueueOptions::Kind::kThreads})->name(), "threads");
  std::string_view found = "threads";
  try {
    found = make_read_queue({.kind = ReadQueueOptions::Kind::kUring})->name();
    EXPECT_EQ(found, "io_uring");
  } catch (const IoError&) {
    // This kernel has none.
  }
  EXPECT_EQ(make_read_queue({})->name(), found);
}

TEST_P(ReadQueueTest, ReadsNothingAtOnce) {
  Fixture data = fixture();
  const auto reads = queue();
  ReadRequest request = data.request(1);
  request.destination = request.destination.first(0);
  reads->submit(std::span(&request, 1));
  EXPECT_EQ(wait_for(*reads, 1).at(1).error, "");
}

TEST_P(ReadQueueTest, RefusesWhatDirectReadsCannotDo) {
  Fixture data = fixture();
  const auto reads = queue();
  ReadRequest request = data.request(0);
  request.offset = 512;
  EXPECT_THROW(reads->submit(std::span(&request, 1)), LogicError);
  request = data.request(0);
  request.destination = request.destination.first(100);
  EXPECT_THROW(reads->submit(std::span(&request, 1)), LogicError);
  request = data.request(0);
  request.destination = request.destination.subspan(64, kBlock);
  EXPECT_THROW(reads->submit(std::span(&request, 1)), LogicError);
}

TEST_P(ReadQueueTest, SaysWhereAFileEnds_WhenItShrankAfterOpening) {
  Fixture data = fixture();
  const std::size_t kept = 2 * kExtent + 4 * kBlock + 17;
  fs::resize_file(data.file.path(), kept);
  const auto reads = queue();
  const std::vector<ReadRequest> requests{data.request(1), data.request(2), data.request(5)};
  reads->submit(requests);
  const auto results = wait_for(*reads, 3);
  EXPECT_EQ(results.at(1).error, "");
  EXPECT_TRUE(data.has(1));
  const std::string name = in_quotes(data.file.path().native());
  EXPECT_EQ(results.at(2).error,
            fmt::format("cannot read {}: wanted {} bytes at offset {}, got {}: the file ends there",
                        name,
                        kExtent,
                        2 * kExtent,
                        4 * kBlock + 17));
  EXPECT_EQ(results.at(5).error,
            fmt::format("cannot read {}: wanted {} bytes at offset {}, got 0: the file ends there",
                        name,
                        kExtent,
                        5 * kExtent));
}

TEST_P(ReadQueueTest, GivesTheKernelsReason_AndReadsOn) {
  // A write-only descriptor in place of the file's makes each read fail with EBADF.
  Fixture data = fixture();
  Fixture broken = fixture();
  const int write_only = ::open(broken.file.path().c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(write_only, 0);
  ASSERT_EQ(::dup2(write_only, broken.file.descriptor()), broken.file.descriptor());
  ::close(write_only);
  const auto reads = queue();
  std::vector<ReadRequest> requests{broken.request(3), data.request(4)};
  reads->submit(requests);
  auto results = wait_for(*reads, 2);
  EXPECT_EQ(results.at(3).error,
            fmt::format("cannot read {}: wanted {} bytes at offset {}, got 0: Bad file descriptor",
                        in_quotes(broken.file.path().native()),
                        kExtent,
                        3 * kExtent));
  EXPECT_EQ(results.at(4).error, "");
  EXPECT_TRUE(data.has(4));
  requests = {data.request(3)};  // the tag is free again
  reads->submit(requests);
  EXPECT_EQ(wait_for(*reads, 1).at(3).error, "");
}

TEST_P(ReadQueueTest, WakesTheWaitingThread) {
  const auto reads = queue();
  for (int i = 0; i < 50; ++i) {
    std::vector<ReadResult> finished;
    std::thread other([&] { reads->wake(); });
    reads->wait(finished);
    other.join();
    EXPECT_TRUE(finished.empty());
  }
  reads->wake();
  reads->wake();
  std::vector<ReadResult> finished;
  reads->wait(finished);
  EXPECT_TRUE(finished.empty());
}

TEST_P(ReadQueueTest, WakesWhileReading) {
  Fixture data = fixture();
  const auto reads = queue(2, 1);
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) reads->wake();
  });
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < kExtents; ++i) requests.push_back(data.request(i));
  reads->submit(requests);
  EXPECT_EQ(wait_for(*reads, kExtents).size(), kExtents);
  other.join();
  for (std::size_t i = 0; i < kExtents; ++i) EXPECT_TRUE(data.has(i)) << i;
}

TEST_P(ReadQueueTest, LetsGoOfDestinations_WhenDestroyed) {
  Fixture data = fixture();
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < kExtents; ++i) requests.push_back(data.request(i));
  for (int i = 0; i < 20; ++i) {
    auto reads = queue(8, 1);
    reads->submit(requests);
    reads.reset();
    std::memset(data.memory.data(), 0x55, data.memory.size());
    const auto bytes = data.memory.as<const unsigned char>(data.memory.size());
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](auto b) { return b == 0x55; }));
  }
}

// The queue for tests of what stands above.
class FaultyReadQueueTest : public FolderTest {
 protected:
  void submit(Fixture& data, std::initializer_list<std::size_t> extents) {
    for (const std::size_t extent : extents) {
      const ReadRequest request = data.request(extent);
      queue_.submit(std::span(&request, 1));
    }
  }
  std::vector<std::uint64_t> order(std::size_t n) {
    std::vector<ReadResult> finished;
    while (finished.size() < n) queue_.wait(finished);
    std::vector<std::uint64_t> tags;
    for (const ReadResult& result : finished) tags.push_back(result.tag);
    return tags;
  }
  Fixture fixture(const std::string& name) const {
    std::string text = random_text(kExtents * kExtent);
    const fs::path path = put(name, text);
    return {path, std::move(text), true};
  }

  ft::testing::ReadScript script_;
  ft::testing::FaultyReadQueue queue_{script_};
};

using ft::testing::ReadFault;
using ft::testing::ReadOrder;

TEST_F(FaultyReadQueueTest, DoesWhatTheScriptSays) {
  Fixture data = fixture("a");
  script_.on_request(0, {.kind = ReadFault::Kind::kFails, .reason = "Remote I/O error"});
  script_.on_request(1, {.kind = ReadFault::Kind::kTruncated, .n_bytes = 5});
  script_.on_request(2, {.kind = ReadFault::Kind::kFlipped, .n_bytes = 9});
  submit(data, {10, 11, 12, 13});
  const auto results = wait_for(queue_, 4);
  EXPECT_THAT(results.at(10).error, HasSubstr("got 0: Remote I/O error"));
  EXPECT_THAT(results.at(11).error, HasSubstr("got 5: the file ends there"));
  EXPECT_EQ(results.at(12).error, "");
  EXPECT_FALSE(data.has(12));
  data.memory.data()[12 * kExtent + 9] ^= std::byte{0xff};
  EXPECT_TRUE(data.has(12));
  EXPECT_TRUE(data.has(13));
  const auto seen = script_.seen();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[3].offset, 13 * kExtent);
  EXPECT_TRUE(seen[3].has_ended);
}

TEST_F(FaultyReadQueueTest, FailsAFileUntilCleared) {
  Fixture a = fixture("a");
  Fixture b = fixture("b");
  script_.on_file(a.file.path(), {.kind = ReadFault::Kind::kFails});
  submit(a, {1});
  submit(b, {2});
  auto results = wait_for(queue_, 2);
  EXPECT_THAT(results.at(1).error, HasSubstr("Input/output error"));
  EXPECT_TRUE(b.has(2));
  script_.clear();
  submit(a, {1});
  EXPECT_EQ(wait_for(queue_, 1).at(1).error, "");
  EXPECT_TRUE(a.has(1));
}

TEST_F(FaultyReadQueueTest, EndsInTheOrderAskedFor) {
  Fixture data = fixture("a");
  submit(data, {1, 2, 3});
  EXPECT_THAT(order(3), ElementsAre(1, 2, 3));
  script_.set_order(ReadOrder::kReversed);
  submit(data, {1, 2, 3});
  EXPECT_THAT(order(3), ElementsAre(3, 2, 1));
  script_.set_order(ReadOrder::kShuffled);
  submit(data, {1, 2, 3, 4, 5});
  EXPECT_THAT(order(5), ::testing::UnorderedElementsAre(1, 2, 3, 4, 5));
}

TEST_F(FaultyReadQueueTest, HoldsUntilReleased) {
  Fixture data = fixture("a");
  script_.on_request(0, {.is_held = true});
  script_.on_request(1, {.is_held = true});
  submit(data, {1, 2, 3});
  EXPECT_THAT(order(1), ElementsAre(3));
  std::thread other([&] {
    script_.release(1);
    script_.await_ended(2);
    script_.release_all();
  });
  EXPECT_THAT(order(2), ElementsAre(2, 1));
  other.join();
  script_.on_all({.is_held = true});
  submit(data, {4});
  queue_.wake();
  std::vector<ReadResult> finished;
  queue_.wait(finished);
  EXPECT_TRUE(finished.empty());
}

}  // namespace
}  // namespace ft::io
