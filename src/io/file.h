// The only code that opens a file. Reading is positional or mapped; writing is for traces and
// tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ft::io {

/// A file descriptor that closes itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  ~UniqueFd();
  UniqueFd(UniqueFd&& other) noexcept;
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  int get() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A regular file open for reading. Thread-safe: reads are positional.
class File {
 public:
  /// Throws InvalidInput if `path` does not exist, is no regular file or leads through a loop of
  /// links, IoError if it cannot be opened.
  static File open(const std::filesystem::path& path);
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// Fills `destination` from `offset`. Throws IoError on an error or if the file ends before.
  void read_exactly(std::span<std::byte> destination, std::uint64_t offset) const;
  int descriptor() const noexcept { return fd_.get(); }

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  std::uint64_t size_bytes_ = 0;
};

/// "cannot read 'FILE': wanted N bytes at offset O, got G: REASON".
std::string read_error(const std::filesystem::path& path,
                       std::size_t wanted,
                       std::uint64_t offset,
                       std::size_t got,
                       std::string_view reason);
/// The reason of a read that came back with nothing.
inline constexpr std::string_view kFileEnds = "the file ends there";

/// A whole file mapped read-only. The bytes live as long as this object.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws IoError. An empty file maps to an empty span.
  explicit MappedFile(const File& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Whether something is at `path`. Also true if that cannot be told, because of a loop of links or
/// a folder that may not be entered: whoever opens it then gets the reason.
bool is_there(const std::filesystem::path& path) noexcept;
/// Throws InvalidInput, saying `what` it is and why, if that cannot be told.
void refuse_unreachable(std::string_view what, const std::filesystem::path& path);

/// Whole contents of a small file. Throws InvalidInput if it is missing or larger than max_bytes.
std::string read_text(const std::filesystem::path& path, std::size_t max_bytes);

/// The same of what a user names as input: pipes and devices are read to their end, waiting for
/// them.
std::string read_input(const std::filesystem::path& path, std::size_t max_bytes);

/// Appends lines to a file it creates or truncates; buffered, flushed per call of flush() and on
/// destruction.
class LineWriter {
 public:
  /// Throws InvalidInput if the file cannot be created.
  explicit LineWriter(const std::filesystem::path& path);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  LineWriter(LineWriter&&) = delete;
  LineWriter& operator=(LineWriter&&) = delete;
  /// Writes `line` and a newline. Throws IoError.
  void write(std::string_view line);
  void flush();

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  std::string pending_;
};

}  // namespace ft::io
