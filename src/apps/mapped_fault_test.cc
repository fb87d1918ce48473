#include "apps/mapped_fault.h"

#include "io/file.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ft::apps {
namespace {

namespace fs = std::filesystem;

TEST(MappedFaultDeathTest, AFileCutShortEndsTheProcessWithOneLine) {
  const fs::path path =
      fs::path(testing::TempDir()) / ("ft_mapped_fault_" + std::to_string(::getpid()));
  std::ofstream(path) << std::string(3 << 20, 'x');
  const io::MappedFile file(io::File::open(path));
  fs::resize_file(path, 0);
  const auto read_end = [&file] {
    end_on_mapped_fault();
    const volatile std::byte* const last = &file.bytes().back();
    static_cast<void>(*last);
  };
  EXPECT_EXIT(read_end(), testing::ExitedWithCode(1), "^foretoken: a file of the model .*\n$");
  fs::remove(path);
}

}  // namespace
}  // namespace ft::apps
