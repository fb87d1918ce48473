#include "io/file.h"

#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ft::io {
namespace {

// A read returns at most 2^31 - 4096 bytes on Linux whatever is asked.
constexpr std::size_t kMaxBytesPerCall = std::size_t{1} << 30;
// One write per this many bytes keeps a trace cheap; an interrupted run loses at most this much.
constexpr std::size_t kLineBufferBytes = std::size_t{64} << 10;

std::string name_of(const std::filesystem::path& path) {
  return in_quotes(path.native());
}

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// Writes everything; returns 0 or the error number.
int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) {
      return errno;
    }
    text.remove_prefix(n < 0 ? 0 : static_cast<std::size_t>(n));
  }
  return 0;
}

std::uint64_t regular_file_bytes(int fd, const std::filesystem::path& path) {
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    throw IoError(fmt::format("cannot examine {}: {}", name_of(path), reason(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    fail("{} is {}, expected a regular file",
         name_of(path),
         S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe");
  }
  return static_cast<std::uint64_t>(status.st_size);
}

UniqueFd open_for_reading(const std::filesystem::path& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!fd.is_open()) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) fail("{} does not exist", name_of(path));
    const std::string message = fmt::format("cannot open {}: {}", name_of(path), reason(error));
    if (error == ELOOP) throw InvalidInput(message);
    throw IoError(message);
  }
  return fd;
}

}  // namespace

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

UniqueFd::UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  UniqueFd moved(std::move(other));
  std::swap(fd_, moved.fd_);
  return *this;
}

File File::open(const std::filesystem::path& path) {
  File file;
  file.path_ = path;
  // O_NONBLOCK: a pipe without a writer must be refused, not waited for. It means nothing for a
  // regular file.
  file.fd_ = open_for_reading(path, O_NONBLOCK);
  file.size_bytes_ = regular_file_bytes(file.fd_.get(), path);
  return file;
}

std::string read_error(const std::filesystem::path& path,
                       std::size_t wanted,
                       std::uint64_t offset,
                       std::size_t got,
                       std::string_view reason) {
  return fmt::format("cannot read {}: wanted {} bytes at offset {}, got {}: {}",
                     name_of(path),
                     wanted,
                     offset,
                     got,
                     reason);
}

void File::read_exactly(std::span<std::byte> destination, std::uint64_t offset) const {
  const std::size_t wanted = destination.size();
  std::size_t got = 0;
  while (got < wanted) {
    const std::size_t count = std::min(wanted - got, kMaxBytesPerCall);
    const ssize_t n =
        ::pread(fd_.get(), destination.data() + got, count, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      const int error = errno;
      throw IoError(
          read_error(path_, wanted, offset, got, n == 0 ? std::string(kFileEnds) : reason(error)));
    }
    got += static_cast<std::size_t>(n);
  }
}

MappedFile::MappedFile(const File& file) {
  // Reading a mapped page behind the end of the file kills the process, so a file that has shrunk
  // is refused here.
  const std::uint64_t size_now = regular_file_bytes(file.descriptor(), file.path());
  if (size_now != file.size_bytes()) {
    throw IoError(fmt::format("cannot map {}: it had {} bytes when opened, now {}",
                              name_of(file.path()),
                              file.size_bytes(),
                              size_now));
  }
  if (size_now == 0) {
    return;
  }
  const auto size = static_cast<std::size_t>(size_now);
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (mapping == MAP_FAILED) {
    throw IoError(
        fmt::format("cannot map {} ({} bytes): {}", name_of(file.path()), size, reason(errno)));
  }
  data_ = static_cast<const std::byte*>(mapping);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    munmap(const_cast<std::byte*>(data_), size_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  MappedFile moved(std::move(other));
  std::swap(data_, moved.data_);
  std::swap(size_, moved.size_);
  return *this;
}

bool is_there(const std::filesystem::path& path) noexcept {
  std::error_code error;
  return std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found;
}

void refuse_unreachable(std::string_view what, const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::status(path, error).type() == std::filesystem::file_type::none) {
    fail("{} {}: {}", what, name_of(path), error.message());
  }
}

std::string read_text(const std::filesystem::path& path, std::size_t max_bytes) {
  const File file = File::open(path);
  if (file.size_bytes() > max_bytes) {
    fail("{} has {} bytes, at most {} are read", name_of(path), file.size_bytes(), max_bytes);
  }
  std::string text(static_cast<std::size_t>(file.size_bytes()), '\0');
  file.read_exactly(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

std::string read_input(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) || std::filesystem::is_regular_file(path, ignored) ||
      std::filesystem::is_directory(path, ignored))
    return read_text(path, max_bytes);
  const UniqueFd fd = open_for_reading(path, 0);
  std::string text;
  std::string block(std::size_t{64} << 10, '\0');
  while (true) {
    const ssize_t n = ::read(fd.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(fmt::format("cannot read {}: {}", name_of(path), reason(errno)));
    if (n == 0) return text;
    text.append(block, 0, static_cast<std::size_t>(n));
    if (text.size() > max_bytes) fail("{} has more than {} bytes", name_of(path), max_bytes);
  }
}

LineWriter::LineWriter(const std::filesystem::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (!fd_.is_open()) {
    fail("cannot create {}: {}", name_of(path), reason(errno));
  }
}

LineWriter::~LineWriter() {
  write_all(fd_.get(), pending_);  // who cares about an error calls flush() before
}

void LineWriter::write(std::string_view line) {
  pending_ += line;
  pending_ += '\n';
  if (pending_.size() >= kLineBufferBytes) {
    flush();
  }
}

void LineWriter::flush() {
  const int error = write_all(fd_.get(), pending_);
  pending_.clear();
  if (error != 0) {
    throw IoError(fmt::format("cannot write {}: {}", name_of(path_), reason(error)));
  }
}

}  // namespace ft::io
