#include "io/process_memory.h"

#include "base/buffer.h"

#include <cstddef>

#include <gtest/gtest.h>

namespace ft::io {
namespace {

TEST(ProcessMemory, SeesTouchedAnonymousPages) {
  const ProcessMemory before = process_memory();
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  Buffer buffer(kBytes);
  for (std::size_t i = 0; i < kBytes; i += 4096) buffer.data()[i] = std::byte{1};
  const ProcessMemory after = process_memory();
  EXPECT_GE(after.anonymous_bytes, before.anonymous_bytes + kBytes / 2);
}

}  // namespace
}  // namespace ft::io
