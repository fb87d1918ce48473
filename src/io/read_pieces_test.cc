// What the kernel may answer, without a kernel.
#include "io/read_pieces.h"

#include "base/buffer.h"
#include "base/error.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::io {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

constexpr std::size_t kBlock = kBulkAlignment;

class ReadPiecesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path path =
        fs::path(::testing::TempDir()) / ("ft_pieces_" + std::to_string(::getpid()));
    std::ofstream(path) << "x";
    file_ = BulkFile::open(path, false);
    fs::remove(path);  // it stays open, and nothing is read
  }
  ReadRequest request(std::uint64_t tag,
                      std::size_t blocks,
                      ReadPriority priority = ReadPriority::kDemand) {
    return {.file = &file_,
            .offset = tag * 100 * kBlock,
            .destination = memory_.as<std::byte>(blocks * kBlock),
            .tag = tag,
            .priority = priority};
  }
  ReadPieces::Piece next() {
    ReadPieces::Piece piece;
    EXPECT_TRUE(pieces_.next(piece));
    return piece;
  }
  std::vector<std::string> finished() {
    std::vector<ReadResult> results;
    pieces_.take_finished(results);
    std::vector<std::string> lines;
    for (const ReadResult& result : results) {
      const std::size_t got = result.error.find(", got ");
      lines.push_back(std::to_string(result.tag) +
                      (result.error.empty() ? "" : result.error.substr(got)));
    }
    return lines;
  }

  BulkFile file_;
  Buffer memory_{64 * kBlock};
  ReadPieces pieces_{2 * kBlock};
};

TEST_F(ReadPiecesTest, DemandComesBeforeAhead) {
  pieces_.add(request(1, 4, ReadPriority::kAhead));
  pieces_.add(request(2, 2, ReadPriority::kAhead));
  EXPECT_EQ(next().offset(), 100 * kBlock);
  pieces_.add(request(3, 4));
  EXPECT_EQ(next().offset(), 300 * kBlock);
  pieces_.promote(2);
  pieces_.promote(2);
  EXPECT_EQ(next().offset(), 302 * kBlock);
  EXPECT_EQ(next().offset(), 200 * kBlock);
  EXPECT_EQ(next().offset(), 102 * kBlock);
  EXPECT_FALSE(pieces_.has_waiting());
}

TEST_F(ReadPiecesTest, WhatIsDroppedReadsNoMore) {
  pieces_.add(request(1, 4, ReadPriority::kAhead));  // not begun
  pieces_.drop(1);
  EXPECT_THAT(finished(), ElementsAre("1, got 0: no longer wanted"));
  pieces_.add(request(2, 4, ReadPriority::kAhead));  // half of it is out
  ReadPieces::Piece piece = next();
  pieces_.drop(2);
  EXPECT_FALSE(pieces_.has_waiting());
  EXPECT_THAT(finished(), ElementsAre());
  EXPECT_FALSE(pieces_.advance(piece, 2 * kBlock));
  std::vector<ReadResult> results;
  pieces_.take_finished(results);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].was_dropped);
  EXPECT_EQ(results[0].n_bytes, 2 * kBlock);
  pieces_.add(request(3, 2, ReadPriority::kAhead));  // all of it is out
  piece = next();
  pieces_.drop(3);
  EXPECT_FALSE(pieces_.advance(piece, 2 * kBlock));
  pieces_.add(request(4, 2));  // somebody waits for it
  pieces_.drop(4);
  pieces_.drop(99);
  piece = next();
  EXPECT_FALSE(pieces_.advance(piece, 2 * kBlock));
  EXPECT_THAT(finished(), ElementsAre("3", "4"));
}

TEST_F(ReadPiecesTest, ShortReadsGoOnAtAMultipleOfTheAlignment) {
  pieces_.add(request(1, 2));
  ReadPieces::Piece piece = next();
  EXPECT_TRUE(pieces_.advance(piece, 700));
  EXPECT_EQ(piece.offset(), 100 * kBlock);
  EXPECT_EQ(piece.size(), 2 * kBlock);
  EXPECT_TRUE(pieces_.advance(piece, kBlock + 700));
  EXPECT_EQ(piece.offset(), 101 * kBlock);
  EXPECT_EQ(piece.size(), kBlock);
  EXPECT_FALSE(pieces_.advance(piece, kBlock));
  EXPECT_THAT(finished(), ElementsAre("1"));
}

TEST_F(ReadPiecesTest, AFileEndsWhereNothingMoreComes) {
  pieces_.add(request(1, 2));
  ReadPieces::Piece piece = next();
  EXPECT_TRUE(pieces_.advance(piece, kBlock + 700));
  EXPECT_FALSE(pieces_.advance(piece, 700));
  EXPECT_THAT(finished(), ElementsAre("1, got 4796: the file ends there"));
}

TEST_F(ReadPiecesTest, TriesAgainWhenTold_ButNotForEver) {
  pieces_.add(request(1, 2));
  ReadPieces::Piece piece = next();
  EXPECT_TRUE(pieces_.advance(piece, -EINTR));
  EXPECT_TRUE(pieces_.advance(piece, -EAGAIN));
  EXPECT_FALSE(pieces_.advance(piece, 2 * kBlock));
  EXPECT_THAT(finished(), ElementsAre("1"));
  pieces_.add(request(1, 2));
  piece = next();
  int n = 0;
  while (pieces_.advance(piece, -EAGAIN)) ++n;
  EXPECT_EQ(n, 1000);
  EXPECT_THAT(finished(), ElementsAre("1, got 0: Resource temporarily unavailable"));
}

TEST_F(ReadPiecesTest, AFailureEndsWhenItsLastPieceHasComeBack) {
  pieces_.add(request(1, 9));
  pieces_.add(request(2, 2));
  ReadPieces::Piece a = next();
  ReadPieces::Piece b = next();
  ReadPieces::Piece c = next();
  EXPECT_FALSE(pieces_.advance(c, -EIO));
  EXPECT_THAT(finished(), ElementsAre());
  ReadPieces::Piece other = next();
  EXPECT_EQ(other.offset(), 200 * kBlock) << "the rest of a failed request is not read";
  EXPECT_FALSE(pieces_.advance(a, 100)) << "nor a piece of it twice";
  EXPECT_THAT(finished(), ElementsAre());
  EXPECT_FALSE(pieces_.advance(b, 2 * kBlock));
  EXPECT_THAT(finished(), ElementsAre("1, got 100: Input/output error"));
  EXPECT_FALSE(pieces_.advance(other, 2 * kBlock));
  EXPECT_THAT(finished(), ElementsAre("2"));
}

TEST_F(ReadPiecesTest, TellsTheFirstByteMissing) {
  pieces_.add(request(1, 6, ReadPriority::kAhead));
  ReadPieces::Piece a = next();
  ReadPieces::Piece b = next();
  EXPECT_FALSE(pieces_.advance(b, -EIO));
  pieces_.promote(1);
  EXPECT_FALSE(pieces_.advance(a, -EIO));
  EXPECT_THAT(finished(), ElementsAre("1, got 0: Input/output error"));
  EXPECT_FALSE(pieces_.has_waiting());
}

TEST_F(ReadPiecesTest, ATagIsUniqueWhileItIsRead) {
  pieces_.add(request(1, 2));
  EXPECT_THROW(pieces_.add(request(1, 2)), LogicError);
}

}  // namespace
}  // namespace ft::io
