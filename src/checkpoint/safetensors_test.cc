#include "checkpoint/safetensors.h"

#include "base/error.h"

#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Parses `json` as the header of a shard whose data section has `data_bytes`.
Header parse(const std::string& json, std::uint64_t data_bytes) {
  return parse_header(json, 8 + json.size() + data_bytes, "s.safetensors");
}

template <typename F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_THAT(message, StartsWith("s.safetensors: "));
    return message;
  }
  return "no error";
}

std::string error_of(const std::string& json, std::uint64_t data_bytes) {
  return message_of([&] { parse(json, data_bytes); });
}

std::uint64_t length_of(const std::string& first_bytes, std::uint64_t file_bytes) {
  return header_bytes(std::as_bytes(std::span(first_bytes)), file_bytes, "s.safetensors");
}

std::string little_endian(std::uint64_t value) {
  std::string bytes(8, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xFF);
    value >>= 8;
  }
  return bytes;
}

/// One F32 tensor 'a' with this shape and these offsets, both as JSON texts.
std::string one(const std::string& shape, const std::string& offsets) {
  return R"({"a": {"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}}";
}

TEST(HeaderBytes, ReadsLittleEndian) {
  EXPECT_EQ(length_of(little_endian(0x0102), 1000), 0x0102u);
  EXPECT_EQ(length_of(little_endian(0), 8), 0u);
  EXPECT_EQ(length_of(little_endian(992), 1000), 992u);
}

TEST(HeaderBytes, RefusesLengthsThatCannotBe) {
  for (std::uint64_t file_bytes : {0u, 1u, 7u}) {
    EXPECT_THAT(message_of([&] { length_of(std::string(file_bytes, '\1'), file_bytes); }),
                HasSubstr(fmt::format("{} bytes are too few", file_bytes)));
  }
  for (std::uint64_t length :
       {std::uint64_t{993}, ~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 63}) {
    EXPECT_THAT(message_of([&] { length_of(little_endian(length), 1000); }),
                HasSubstr(fmt::format("header of {} bytes in a file of 1000", length)));
  }
  EXPECT_THAT(message_of([] { length_of(little_endian(kMaxHeaderBytes + 1), 1u << 30); }),
              HasSubstr("at most 100000000 are read"));
  EXPECT_THAT(message_of([] { length_of("version https://git-lfs", 130); }),
              HasSubstr("Git LFS pointer"));
}

TEST(ParseHeader, ListsTensorsWithOffsetsFromTheStartOfTheFile) {
  const std::string json = R"({"__metadata__": {"format": "pt"},
      "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16], "other": null},
      "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
      "e": {"dtype": "F16", "shape": [7, 0], "data_offsets": [16, 16]},
      "f": {"dtype": "F8_E4M3", "shape": [5], "data_offsets": [16, 21]},
      "i": {"dtype": "I64", "shape": [1], "data_offsets": [21, 29]}}  )";
  const Header header = parse(json, 29);
  ASSERT_EQ(header.tensors.size(), 4u);
  const TensorInfo& b = header.tensors[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, DType::kBF16);
  EXPECT_EQ(b.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(b.offset_bytes, 8 + json.size() + 4);
  EXPECT_EQ(b.size_bytes, 12u);
  EXPECT_EQ(b.n_elements(), 6u);
  EXPECT_EQ(header.tensors[1].n_elements(), 1u);
  EXPECT_EQ(header.tensors[2].n_elements(), 0u);
  EXPECT_EQ(header.tensors[3].dtype, DType::kF8E4M3);
  ASSERT_EQ(header.foreign.size(), 1u);
  EXPECT_EQ(header.foreign[0].name, "i");
  EXPECT_EQ(header.foreign[0].dtype, "I64");
}

TEST(ParseHeader, AcceptsNoTensors) {
  EXPECT_TRUE(parse("{}", 0).tensors.empty());
  EXPECT_TRUE(parse(R"({"__metadata__": {}})", 0).tensors.empty());
}

TEST(ParseHeader, RefusesMetadataThatIsNoObject) {
  for (const char* value : {"[]", "1", "null", "\"pt\""}) {
    EXPECT_THAT(message_of([&] { parse(fmt::format(R"({{"__metadata__": {}}})", value), 0); }),
                HasSubstr("__metadata__"))
        << value;
  }
}

TEST(ParseHeader, RefusesWhatIsNoHeader) {
  for (const char* json : {"", "{", "null garbage", "{\"a\": {}", "\xff{}"}) {
    EXPECT_THAT(error_of(json, 0), HasSubstr("s.safetensors: header: ")) << json;
  }
  EXPECT_THAT(error_of("[]", 0), HasSubstr("header is an array, expected an object"));
  EXPECT_THAT(error_of(std::string(5000, '[') + std::string(5000, ']'), 0),
              HasSubstr("nested deeper"));
  EXPECT_THAT(message_of([] { parse_header("{}", 9, "s.safetensors"); }), HasSubstr("file of 9"));
}

TEST(ParseHeader, RefusesFieldsThatAreMissingOrOfTheWrongType) {
  EXPECT_THAT(error_of(R"({"a": 1})", 0),
              HasSubstr("tensor 'a' is an integer, expected an object"));
  EXPECT_THAT(error_of(R"({"a": {"shape": [1], "data_offsets": [0, 4]}})", 4),
              HasSubstr("tensor 'a' has no dtype"));
  EXPECT_THAT(error_of(R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", 4),
              HasSubstr("tensor 'a' has no shape"));
  EXPECT_THAT(error_of(R"({"a": {"dtype": "F32", "shape": [1]}})", 4),
              HasSubstr("has no data_offsets"));
  EXPECT_THAT(error_of(R"({"a": {"dtype": 3, "shape": [1], "data_offsets": [0, 4]}})", 4),
              HasSubstr("dtype is an integer, expected a string"));
  EXPECT_THAT(error_of(one("1", "[0, 4]"), 4), HasSubstr("shape is an integer, expected an array"));
  EXPECT_THAT(error_of(one("[1]", "{}"), 4), HasSubstr("data_offsets is an object"));
  EXPECT_THAT(error_of(one("[\"1\"]", "[0, 4]"), 4), HasSubstr("shape is a string"));
  EXPECT_THAT(error_of(one("[0.5]", "[0, 4]"), 4), HasSubstr("shape is 0.5"));
}

TEST(ParseHeader, RefusesOffsetsThatMakeNoSense) {
  EXPECT_THAT(error_of(one("[1]", "[4, 0]"), 4), HasSubstr("[4, 0] end before they begin"));
  EXPECT_THAT(error_of(one("[1]", "[-4, 0]"), 4), HasSubstr("data_offsets holds -4"));
  EXPECT_THAT(error_of(one("[1]", "[0]"), 4), HasSubstr("has 1 values"));
  EXPECT_THAT(error_of(one("[1]", "[0, 4, 8]"), 4), HasSubstr("has 3 values"));
  EXPECT_THAT(error_of(one("[1]", "[18446744073709551612, 18446744073709551616]"), 4),
              HasSubstr("expected a 64-bit integer"));
  EXPECT_NE(error_of(one("[1]", "[9223372036854775803, 9223372036854775807]"), 4), "no error");
}

TEST(ParseHeader, RefusesShapesThatDoNotMatchTheirBytes) {
  EXPECT_THAT(error_of(one("[1000, 1000]", "[0, 4]"), 4),
              AllOf(HasSubstr("tensor 'a'"),
                    HasSubstr("shape [1000, 1000] of F32 takes 4000000 bytes"),
                    HasSubstr("[0, 4] hold 4")));
  EXPECT_THAT(error_of(one("[32, 8]", "[0, 65536]"), 65536), HasSubstr("takes 1024 bytes"));
  EXPECT_THAT(error_of(one("[0]", "[0, 4]"), 4), HasSubstr("takes 0 bytes"));
}

TEST(ParseHeader, RefusesShapesWhoseProductWraps) {
  // 2^62 * 4 bytes = 2^64 = 0; (2^42 + 1) * 2^22 * 4 = 2^24 modulo 2^64.
  EXPECT_THAT(error_of(one("[4611686018427387904]", "[0, 0]"), 0),
              HasSubstr("more than 2^64 bytes"));
  EXPECT_THAT(error_of(one("[4398046511105, 4194304]", "[0, 16777216]"), 16777216),
              HasSubstr("more than 2^64 bytes"));
  EXPECT_THAT(error_of(one("[4294967296, 4294967296, 0]", "[0, 0]"), 0),
              HasSubstr("more than 2^64 bytes"));
  EXPECT_THAT(error_of(one("[-1, -4]", "[0, 16]"), 16), HasSubstr("shape holds -1"));
  EXPECT_THAT(error_of(one("[36893488147419103232]", "[0, 0]"), 0),
              HasSubstr("expected a 64-bit integer"));
}

TEST(ParseHeader, RefusesAMillionDimensions) {
  std::string shape = "[1";
  for (int i = 1; i < 1000000; ++i) {
    shape += ",1";
  }
  EXPECT_THAT(error_of(one(shape + "]", "[0, 4]"), 4), HasSubstr("1000000 dimensions, at most 8"));
}

std::string two(const std::string& first_offsets, const std::string& second_offsets) {
  return R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": )" + first_offsets +
         R"(}, "b": {"dtype": "F32", "shape": [2], "data_offsets": )" + second_offsets + "}}";
}

TEST(ParseHeader, RefusesOverlapsHolesAndRests) {
  EXPECT_EQ(error_of(two("[8, 16]", "[0, 8]"), 16), "no error");
  EXPECT_THAT(error_of(two("[0, 8]", "[4, 12]"), 12), HasSubstr("tensors 'a' and 'b' overlap"));
  EXPECT_THAT(error_of(two("[0, 8]", "[0, 8]"), 8), HasSubstr("overlap"));
  EXPECT_THAT(error_of(two("[0, 8]", "[12, 20]"), 20), HasSubstr("4 bytes before tensor 'b'"));
  EXPECT_THAT(error_of(two("[0, 8]", "[8, 16]"), 19), HasSubstr("the last 3 bytes"));
  EXPECT_THAT(error_of("{}", 5), HasSubstr("the last 5 bytes"));
}

TEST(ParseHeader, RefusesOverlapWithATensorOfAnotherType) {
  EXPECT_THAT(error_of(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                           "i": {"dtype": "I8", "shape": [8], "data_offsets": [4, 12]}})",
                       12),
              HasSubstr("tensors 'a' and 'i' overlap"));
}

TEST(ParseHeader, NamesTensorAndSizes_WhenTheShardIsShort) {
  const std::string json = two("[0, 8]", "[8, 16]");
  EXPECT_THAT(error_of(json, 15),
              HasSubstr(fmt::format("incomplete shard: {} bytes, but tensor 'b' ends at byte {}",
                                    8 + json.size() + 15,
                                    8 + json.size() + 16)));
  EXPECT_THAT(error_of(json, 0), HasSubstr("tensor 'a' ends"));
}

TEST(ParseHeader, RefusesATensorThatOccursTwice) {
  EXPECT_THAT(error_of(R"({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                           "x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
                       8),
              HasSubstr("header: duplicate key 'x'"));
}

TEST(ParseHeader, KeepsMessagesOnOneLine_WhateverTheName) {
  EXPECT_THAT(error_of("{\"a\\n\\u001b[2J\": {\"dtype\": \"F32\"}}", 0),
              HasSubstr("'a\\x0a\\x1b[2J'"));
}

}  // namespace
}  // namespace ft::checkpoint
