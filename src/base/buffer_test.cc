#include "base/buffer.h"

#include "base/error.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

namespace ft {
namespace {

std::uintptr_t address(const Buffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data());
}

TEST(Buffer, IsZeroAndAligned) {
  for (std::size_t size :
       {std::size_t{1}, std::size_t{63}, std::size_t{4097}, std::size_t{5} << 20}) {
    Buffer buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(address(buffer) % 64, 0u);
    const auto bytes = buffer.as<std::uint8_t>(size);
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; }));
    bytes.front() = 1;
    bytes.back() = 2;
  }
}

TEST(Buffer, IsAlignedToHugePages_WhenLarge) {
  const Buffer exact(std::size_t{2} << 20);
  const Buffer larger((std::size_t{2} << 20) + 1);
  EXPECT_EQ(address(exact) % (std::size_t{2} << 20), 0u);
  EXPECT_EQ(address(larger) % (std::size_t{2} << 20), 0u);
}

TEST(Buffer, HasNoMemory_WhenEmpty) {
  const Buffer none;
  const Buffer zero(0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(zero.data(), nullptr);
  EXPECT_EQ(zero.size(), 0u);
}

TEST(Buffer, MovesItsBlock) {
  Buffer a(100);
  a.as<std::uint8_t>(100)[99] = 42;
  const std::byte* block = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), block);
  EXPECT_EQ(a.data(),
            nullptr);  // NOLINT(bugprone-use-after-move): the moved-from state is the subject
  EXPECT_EQ(a.size(), 0u);
  Buffer c(7);
  c = std::move(b);
  EXPECT_EQ(c.data(), block);
  EXPECT_EQ(c.size(), 100u);
  EXPECT_EQ(std::as_const(c).as<std::uint8_t>(100)[99], 42);
  Buffer& alias = c;
  c = std::move(alias);
  EXPECT_EQ(c.data(), block);
}

TEST(Buffer, CommitsNothing_BeforeItIsTouched) {
  // Far more than the machine has; only address space is taken.
  Buffer buffer(std::size_t{1} << 36);
  buffer.as<std::uint8_t>(buffer.size()).back() = 1;
}

TEST(Buffer, ThrowsResourceExhausted_WhenTooLarge) {
  EXPECT_THROW(Buffer{std::numeric_limits<std::size_t>::max()}, ResourceExhausted);
  EXPECT_THROW(Buffer{std::size_t{1} << 60}, ResourceExhausted);
}

}  // namespace
}  // namespace ft
