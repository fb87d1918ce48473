#include "checkpoint/container_format.h"

#include "base/error.h"
#include "checkpoint/checksum.h"

#include <functional>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::checkpoint {
namespace {

using ::testing::HasSubstr;

TensorLayout elements(std::string name, DType dtype, std::vector<std::uint64_t> shape) {
  TensorLayout tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

TensorLayout panels(std::string name, QuantFormat format, std::uint64_t rows, std::uint64_t cols) {
  TensorLayout tensor = elements(std::move(name), DType::kBF16, {rows, cols});
  tensor.panels = format;
  return tensor;
}

ContainerIndex sample() {
  ContainerIndex index;
  index.family = "glm_moe_dsa";
  index.converter = "test 1";
  index.formats = {{"dense", "q8"}, {"experts", "q4"}};
  index.sources = {{"model.safetensors", 1234, 0xfedcba9876543210}};
  index.metadata = {{"config.json", 17, 5}};
  index.dense = {elements("norm", DType::kF32, {7}),
                 panels("q_a", QuantFormat::kQ8, 20, 100),
                 elements("embed", DType::kBF16, {3, 5})};
  index.dense[1].checksum = 0x0123456789abcdef;
  ExpertLayer layer;
  layer.layer = 3;
  layer.file = "experts-00003.bin";
  layer.tensors = {panels("e.{}.gate_up", QuantFormat::kQ4, 32, 64),
                   elements("e.{}.down", DType::kF16, {5, 5})};
  layer.checksums = {1, std::numeric_limits<std::uint64_t>::max()};
  index.experts.push_back(layer);
  lay_out(index);
  return index;
}

std::string message_of(const std::string& bytes) {
  try {
    parse_container_index(bytes, "index");
  } catch (const InvalidInput& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_TRUE(message.starts_with("index")) << message;
    return message;
  }
  return "";
}

/// The index file after a change of its JSON text, header made to fit.
std::string with_text(const std::string& from, const std::string& to) {
  const std::string file = write_container_index(sample());
  std::string text = file.substr(64);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::string header = file.substr(0, 64);
  const std::uint64_t length = text.size();
  const std::uint64_t checksum = checksum_of(std::as_bytes(std::span(text)));
  header.replace(16, 8, reinterpret_cast<const char*>(&length), 8);
  header.replace(24, 8, reinterpret_cast<const char*>(&checksum), 8);
  return header + text;
}

TEST(ContainerFormat, LaysTensorsOutAsDocumented) {
  const ContainerIndex index = sample();
  EXPECT_EQ(index.dense[0].bytes, 28U);
  EXPECT_EQ(index.dense[1].offset, 64U);
  // 2 panels of 2 blocks: 1024 bytes of codes and 16 scales of 2 bytes each.
  EXPECT_EQ(index.dense[1].bytes, 4U * (1024 + 32));
  EXPECT_EQ(index.dense[2].offset, 64U + 4224U);
  EXPECT_EQ(index.dense_bytes(), 64U + 4224U + 64U);
  EXPECT_EQ(index.experts[0].tensors[1].offset, 2U * (512 + 32));
  EXPECT_EQ(index.experts[0].extent_bytes, 4096U);
  EXPECT_EQ(index.experts[0].file_bytes(), 8192U);
}

TEST(ContainerFormat, ReadsWhatItWrites) {
  const ContainerIndex index = sample();
  const std::string bytes = write_container_index(index);
  const ContainerIndex back = parse_container_index(bytes, "index");
  EXPECT_EQ(write_container_index(back), bytes);
  EXPECT_EQ(back.dense[1].checksum, 0x0123456789abcdefU);
  EXPECT_EQ(back.sources[0].identity, 0xfedcba9876543210U);
  EXPECT_EQ(back.experts[0].checksums[1], std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(back.formats, index.formats);
}

TEST(ContainerFormat, RefusesASmallIndexThatStandsForMuch) {
  ContainerIndex index = sample();
  ExpertLayer& layer = index.experts[0];
  layer.tensors.clear();
  for (int i = 0; i < 1025; ++i) {
    layer.tensors.push_back(elements(fmt::format("e.{{}}.{}", i), DType::kF32, {0}));
  }
  layer.checksums.assign(1024, 0);
  lay_out(index);
  EXPECT_THAT(message_of(write_container_index(index)), HasSubstr("tensors of experts"));
  layer.tensors.pop_back();
  lay_out(index);
  EXPECT_EQ(message_of(write_container_index(index)), "");

  index = sample();
  index.dense[0].name = std::string(513, 'n');
  lay_out(index);
  EXPECT_THAT(message_of(write_container_index(index)), HasSubstr("name has 513 bytes"));
}

TEST(ContainerFormat, NamesAReservedByteThatIsNotZero) {
  const std::string good = write_container_index(sample());
  for (const std::size_t at : {12, 15, 32, 63}) {
    std::string bad = good;
    bad[at] = '\x05';
    EXPECT_THAT(message_of(bad),
                HasSubstr(fmt::format("byte {} of its header is 0x05, expected zero", at)));
  }
}

TEST(ContainerFormat, FindsEveryFlippedBit) {
  const std::string good = write_container_index(sample());
  for (std::size_t i = 0; i < 8 * good.size(); ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(static_cast<unsigned char>(bad[i / 8]) ^ (1U << (i % 8)));
    ASSERT_NE(message_of(bad), "") << "bit " << i;
  }
  for (std::size_t n = 0; n < good.size(); n += 7) ASSERT_NE(message_of(good.substr(0, n)), "");
  EXPECT_NE(message_of(good + " "), "");
}

TEST(ContainerFormat, RefusesInconsistentIndexes) {
  EXPECT_THAT(message_of(with_text(R"("offset":64)", R"("offset":128)")), HasSubstr("'q_a' has"));
  EXPECT_THAT(message_of(with_text(R"("bytes":28)", R"("bytes":24)")), HasSubstr("'norm' has"));
  EXPECT_THAT(message_of(with_text(R"("shape":[7])", R"("shape":[-7])")), HasSubstr("-7"));
  EXPECT_THAT(message_of(with_text(R"([20,100])", R"([9223372036854775807,9223372036854775807])")),
              HasSubstr("more bytes than a file can"));
  EXPECT_THAT(message_of(with_text(R"([3,5])", R"([4611686018427387904,4])")),
              HasSubstr("more bytes than a file can"));
  EXPECT_THAT(message_of(with_text(R"([20,100])", R"([20])")), HasSubstr("1 dimensions"));
  EXPECT_THAT(message_of(with_text(R"("name":"embed")", R"("name":"norm")")),
              HasSubstr("tensor 'norm' is listed twice"));
  EXPECT_THAT(message_of(with_text(R"("format":"q8")", R"("format":"q3")")), HasSubstr("'q3'"));
  EXPECT_THAT(message_of(with_text(R"("scales":"BF16")", R"("scales":"F16")")),
              HasSubstr("type of scales 'F16'"));
  EXPECT_THAT(message_of(with_text(R"(experts-00003.bin)", R"(../experts.bin)")),
              HasSubstr("'../experts.bin'"));
  EXPECT_THAT(message_of(with_text(R"(experts-00003.bin)", R"(dense.bin)")),
              HasSubstr("file 'dense.bin' is listed twice"));
  EXPECT_THAT(message_of(with_text(R"(e.{}.down)", R"(e.0.down)")), HasSubstr("must have one"));
  EXPECT_THAT(message_of(with_text(R"("experts":2)", R"("experts":3)")), HasSubstr("3 experts"));
  EXPECT_THAT(message_of(with_text(R"("extent_bytes":4096)", R"("extent_bytes":8192)")),
              HasSubstr("extents of 8192 bytes"));
  EXPECT_THAT(message_of(with_text(R"("group_columns":64)", R"("group_columns":32)")),
              HasSubstr("groups of 32 columns are not read"));
  EXPECT_THAT(message_of(with_text(R"("0123456789abcdef")", R"("0123456789ABCDEF")")),
              HasSubstr("expected 16 hex digits"));
}

TEST(ContainerFormat, NamesTheVersionItCannotRead) {
  std::string bytes = write_container_index(sample());
  bytes[8] = 2;
  EXPECT_THAT(message_of(bytes), HasSubstr("container version 2, this program reads version 1"));
}

TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum_text(checksum_of({})), "2d06800538d394c2");  // the reference's empty input
  Checksum pieces;
  pieces.update("foretoken ");
  pieces.update("container");
  const std::string whole = "foretoken container";
  EXPECT_EQ(pieces.value(), checksum_of(std::as_bytes(std::span(whole))));
  EXPECT_EQ(checksum_from_text("2d06800538d394c2"), checksum_of({}));
  EXPECT_FALSE(checksum_from_text("2d06800538d394c"));
  EXPECT_FALSE(checksum_from_text("2d06800538d394cx"));
}

}  // namespace
}  // namespace ft::checkpoint
