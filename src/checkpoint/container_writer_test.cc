#include "checkpoint/container_writer.h"

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/container_verify.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ContainerIndex sample() {
  ContainerIndex index;
  index.family = "test";
  index.formats = {{"dense", "f32"}};
  index.sources = {{"a.safetensors", 10, 20}};
  index.dense.resize(2);
  index.dense[0].name = "norm";
  index.dense[0].shape = {5};
  index.dense[1].name = "q";
  index.dense[1].panels = QuantFormat::kQ8;
  index.dense[1].dtype = DType::kBF16;
  index.dense[1].shape = {16, 64};
  index.experts.resize(1);
  ExpertLayer& layer = index.experts[0];
  layer.layer = 1;
  layer.file = "experts-00001.bin";
  layer.checksums.resize(3);
  layer.tensors.resize(2);
  layer.tensors[0].name = "e.{}.up";
  layer.tensors[0].shape = {3, 3};
  layer.tensors[1].name = "e.{}.down";
  layer.tensors[1].shape = {2, 700};
  return index;
}

const std::vector<MetadataText> kMetadata{{"config.json", "{\"model_type\": \"test\"}"}};

/// Bytes of a unit without padding, a function of the unit.
std::vector<std::byte> content(std::size_t unit, std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(1 + (unit * 37 + i) % 250);
  return bytes;
}

std::size_t content_bytes(const ContainerIndex& index, std::size_t unit) {
  if (unit < index.dense.size()) return index.dense[unit].bytes;
  std::size_t n = 0;
  for (const TensorLayout& tensor : index.experts[0].tensors) n += tensor.bytes;
  return n;
}

class ContainerWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              (std::string("ft_writer_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write_unit(ContainerWriter& writer, std::size_t unit, std::size_t piece) {
    writer.begin(unit);
    const std::vector<std::byte> bytes = content(unit, content_bytes(writer.index(), unit));
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      writer.append(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    writer.end();
  }
  void write_all(const fs::path& folder, std::size_t piece) const {
    ContainerWriter writer(folder, sample(), kMetadata);
    writer.start();
    for (std::size_t i = 0; i < writer.n_units(); ++i) write_unit(writer, i, piece);
    writer.finish();
  }
  static std::map<std::string, std::string> files_of(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      files[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return files;
  }
  std::vector<std::string> problems() const {
    return verify_container(folder_, [](std::uint64_t, std::uint64_t) {});
  }
  static std::string message_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

TEST_F(ContainerWriterTest, WritesWhatTheReaderFinds) {
  write_all(folder_, 1000);
  EXPECT_THAT(problems(), IsEmpty());
  Checkpoint checkpoint = Checkpoint::open(folder_);
  checkpoint.map();
  ASSERT_NE(checkpoint.container(), nullptr);
  const TensorInfo* norm = checkpoint.find("norm");
  ASSERT_NE(norm, nullptr);
  const std::vector<std::byte> expected = content(0, 20);
  EXPECT_TRUE(std::ranges::equal(checkpoint.bytes(*norm), expected));
  const PanelTensor* q = checkpoint.find_panels("q");
  ASSERT_NE(q, nullptr);
  const QuantMatrix matrix = checkpoint.panels(*q);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix.codes) % 64, 0U);
  EXPECT_EQ(matrix.code(3, 5), static_cast<int>(content(1, 1056)[64 + 3 * 4 + 1]) - 128);
  const TensorInfo* down = checkpoint.find("e.2.down");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->offset_bytes, 2U * 8192 + 64);  // 36 bytes before it, then zeros
  EXPECT_EQ(checkpoint.bytes(*down)[0], content(4, 37)[36]);
  EXPECT_EQ(checkpoint.shards()[1].path.filename(), "experts-00001.bin");
}

TEST_F(ContainerWriterTest, BytesDependNeitherOnPiecesNorOnOrder) {
  write_all(folder_, 1);
  const auto first = files_of(folder_);
  fs::remove_all(folder_);
  ContainerWriter writer(folder_, sample(), kMetadata);
  writer.start();
  for (std::size_t i = writer.n_units(); i-- > 0;) write_unit(writer, i, 100000);
  writer.finish();
  EXPECT_EQ(files_of(folder_), first);
}

TEST_F(ContainerWriterTest, GoesOnFromWhateverAKillLeaves) {
  write_all(folder_, 500);
  const auto expected = files_of(folder_);
  // A journal that noted some units, the last line torn; a unit that is not noted is half written.
  fs::remove_all(folder_);
  {
    ContainerWriter writer(folder_, sample(), kMetadata);
    writer.start();
    for (const std::size_t unit : {0, 3, 1}) write_unit(writer, unit, 500);
    writer.save();
    writer.begin(2);
    writer.append(content(2, 10));
  }
  EXPECT_FALSE(fs::exists(folder_ / kIndexFileName));
  EXPECT_THAT(message_of([&] { Checkpoint::open(folder_); }), HasSubstr("did not finish"));
  std::ofstream(folder_ / kJournalFileName, std::ios::app) << "4 0123456789abcd";
  {
    ContainerWriter writer(folder_, sample(), kMetadata);
    EXPECT_EQ(writer.state(), ContainerWriter::State::kResumed);
    EXPECT_TRUE(writer.is_done(0) && writer.is_done(1) && writer.is_done(3));
    EXPECT_FALSE(writer.is_done(2) || writer.is_done(4));
    writer.start();
    for (std::size_t i = 0; i < writer.n_units(); ++i) {
      if (!writer.is_done(i)) write_unit(writer, i, 500);
    }
    writer.finish();
  }
  EXPECT_EQ(files_of(folder_), expected);
  EXPECT_EQ(ContainerWriter(folder_, sample(), kMetadata).state(),
            ContainerWriter::State::kComplete);
}

TEST_F(ContainerWriterTest, DoesNotTrustUnitsOfAMissingFile) {
  {
    ContainerWriter writer(folder_, sample(), kMetadata);
    writer.start();
    for (std::size_t i = 0; i < 4; ++i) write_unit(writer, i, 500);
    writer.save();
  }
  fs::remove(folder_ / "experts-00001.bin");
  {
    ContainerWriter writer(folder_, sample(), kMetadata);
    EXPECT_TRUE(writer.is_done(1));
    EXPECT_FALSE(writer.is_done(2));
    writer.start();  // makes the file again, as zeros; then it is stopped once more
  }
  const ContainerWriter writer(folder_, sample(), kMetadata);
  EXPECT_TRUE(writer.is_done(1));
  EXPECT_FALSE(writer.is_done(2));
}

TEST_F(ContainerWriterTest, WritesAnewWhatIsNotAsTheJournalSays) {
  write_all(folder_, 500);
  const auto expected = files_of(folder_);
  const auto damage = [this](const std::string& name, std::size_t at) {
    std::fstream file(folder_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('\0');  // what a drive shows of a block that it did not keep
  };
  const auto interrupt = [this] {
    fs::remove_all(folder_);
    ContainerWriter writer(folder_, sample(), kMetadata);
    writer.start();
    for (const std::size_t unit : {0, 1, 2, 3}) write_unit(writer, unit, 500);
    writer.save();
  };
  const auto done_units = [](const ContainerWriter& writer) {
    std::vector<std::size_t> units;
    for (std::size_t i = 0; i < writer.n_units(); ++i) {
      if (writer.is_done(i)) units.push_back(i);
    }
    return units;
  };
  interrupt();
  damage("experts-00001.bin", 8192 + 70);  // expert 1: unit 3, the last
  EXPECT_THAT(done_units(ContainerWriter(folder_, sample(), kMetadata)), ElementsAre(0, 1, 2));
  damage("experts-00001.bin", 70);  // and the one before it
  EXPECT_THAT(done_units(ContainerWriter(folder_, sample(), kMetadata)), ElementsAre(0, 1));
  interrupt();
  damage("dense.bin", 70);  // unit 1, the last of its file; later ones count no more
  {
    ContainerWriter writer(folder_, sample(), kMetadata);
    EXPECT_THAT(done_units(writer), ElementsAre(0));
    EXPECT_EQ(writer.done_bytes(), 64U);
    writer.start();
    write_unit(writer, 1, 500);
    writer.save();
  }
  ContainerWriter writer(folder_, sample(), kMetadata);
  EXPECT_THAT(done_units(writer), ElementsAre(0, 1));  // the journal was cut
  writer.start();
  for (const std::size_t unit : {2, 3, 4}) write_unit(writer, unit, 500);
  writer.finish();
  EXPECT_EQ(files_of(folder_), expected);
}

TEST_F(ContainerWriterTest, VerifySaysWhatIsNoContainer) {
  {
    ContainerWriter writer(folder_, sample(), kMetadata);
    writer.start();
  }
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("did not finish; run the same command again")));
  fs::remove(folder_ / kJournalFileName);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("holds no model.foretoken")));
}

TEST_F(ContainerWriterTest, RefusesALoopOfLinks) {
  fs::create_symlink(folder_, folder_);
  EXPECT_THAT(message_of([&] { ContainerWriter(folder_, sample(), kMetadata); }),
              HasSubstr("cannot write a container into"));
  EXPECT_THAT(message_of([&] { Checkpoint::open(folder_); }), HasSubstr("symbolic links"));
}

TEST_F(ContainerWriterTest, OpensOnlyWithItsOwnSmallFiles) {
  write_all(folder_, 500);
  std::ofstream(folder_ / "config.json") << "{\"model_type\": \"best\"}";
  EXPECT_THAT(message_of([&] { Checkpoint::open(folder_); }),
              AllOf(HasSubstr("config.json"), HasSubstr("is not what the container's index says")));
}

TEST_F(ContainerWriterTest, OpensOnlyAsTheFamilyItWasMadeFrom) {
  ContainerIndex index = sample();
  index.family = "another";
  ContainerWriter writer(folder_, index, kMetadata);
  writer.start();
  for (std::size_t i = 0; i < writer.n_units(); ++i) write_unit(writer, i, 500);
  writer.finish();
  EXPECT_THAT(message_of([&] { Checkpoint::open(folder_); }), HasSubstr("family 'another'"));
}

TEST_F(ContainerWriterTest, IsAloneInItsFolder) {
  {
    const ContainerWriter writer(folder_, sample(), kMetadata);
    EXPECT_THAT(message_of([&] { ContainerWriter(folder_, sample(), kMetadata); }),
                HasSubstr("another program is writing"));
  }
  const ContainerWriter next(folder_, sample(), kMetadata);
}

TEST_F(ContainerWriterTest, NamesWhatACompleteContainerLacks) {
  write_all(folder_, 500);
  fs::remove(folder_ / "experts-00001.bin");
  EXPECT_THAT(message_of([&] { ContainerWriter(folder_, sample(), kMetadata); }),
              HasSubstr("whose file 'experts-00001.bin' cannot be read"));
}

TEST_F(ContainerWriterTest, RefusesOtherFolders) {
  {
    ContainerWriter writer(folder_, sample(), kMetadata);
    writer.start();
  }
  ContainerIndex other = sample();
  other.formats = {{"dense", "q8"}};
  EXPECT_THAT(message_of([&] { ContainerWriter(folder_, other, kMetadata); }),
              AllOf(HasSubstr("with other formats (dense=f32)"), HasSubstr("remove the folder")));
  other = sample();
  other.sources[0].identity = 21;
  EXPECT_THAT(message_of([&] { ContainerWriter(folder_, other, kMetadata); }),
              HasSubstr("of another source"));
  fs::remove_all(folder_);
  write_all(folder_, 500);
  EXPECT_THAT(message_of([&] { ContainerWriter(folder_, other, kMetadata); }),
              HasSubstr("already is a container"));
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  std::ofstream(folder_ / "letter.txt") << "dear";
  EXPECT_THAT(message_of([&] { ContainerWriter(folder_, sample(), kMetadata); }),
              HasSubstr("is not empty (it holds 'letter.txt')"));
}

TEST_F(ContainerWriterTest, VerifyNamesEveryFlippedByte) {
  write_all(folder_, 500);
  const auto flip = [this](const std::string& name, std::size_t at) {
    std::fstream file(folder_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  };
  const std::map<std::string, std::vector<std::size_t>> places{
      {"dense.bin", {0, 19, 40, 64, 64 + 1055, 64 + 1087}},  // 40, 1087: zero bytes behind tensors
      {"experts-00001.bin", {0, 50, 8191, 8192, 16384 + 5000}},
      {"config.json", {3}},
      {"model.foretoken", {0, 9, 40, 64, 300}}};
  for (const auto& [name, offsets] : places) {
    for (const std::size_t at : offsets) {
      flip(name, at);
      EXPECT_THAT(problems(), ElementsAre(HasSubstr(name))) << name << " " << at;
      flip(name, at);
    }
  }
  flip("dense.bin", 70);
  flip("experts-00001.bin", 8192 + 5);
  EXPECT_THAT(problems(),
              ElementsAre(AllOf(HasSubstr("dense.bin"), HasSubstr("tensor 'q', bytes 64 to 1152")),
                          AllOf(HasSubstr("experts-00001.bin"),
                                HasSubstr("layer 1, expert 1, bytes 8192 to 16384"))));
  fs::resize_file(folder_ / "experts-00001.bin", 24575);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("'q'"), HasSubstr("24575 bytes, expected 24576")));
  EXPECT_THAT(message_of([&] { Checkpoint::open(folder_); }),
              HasSubstr("24575 bytes, the container's index says 24576"));
}

TEST_F(ContainerWriterTest, ReaderNamesWhatIsMissing) {
  write_all(folder_, 500);
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(message_of([&] { Checkpoint::open(folder_); }), HasSubstr("config.json"));
}

}  // namespace
}  // namespace ft::checkpoint
