#include "io/process_memory.h"

#include "io/file.h"

#include <array>
#include <charconv>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace ft::io {
namespace {

// A line reads "RssAnon:\t    1234 kB".
std::uint64_t kib_field(std::string_view status, std::string_view name) noexcept {
  const std::size_t at = status.find(name);
  if (at == std::string_view::npos) return 0;
  const std::size_t digits = status.find_first_of("0123456789", at + name.size());
  if (digits == std::string_view::npos) return 0;
  std::uint64_t kib = 0;
  std::from_chars(status.data() + digits, status.data() + status.size(), kib);
  return kib * 1024;
}

}  // namespace

ProcessMemory process_memory() noexcept {
  const UniqueFd fd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return {};
  std::array<char, 8192> text{};
  std::size_t n = 0;
  while (n < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + n, text.size() - n);
    if (got <= 0) break;
    n += static_cast<std::size_t>(got);
  }
  const std::string_view status(text.data(), n);
  return {kib_field(status, "\nRssAnon:")};
}

}  // namespace ft::io
