#include "io/output_file.h"

#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>

namespace ft::io {
namespace {

constexpr std::size_t kMaxBytesPerCall = std::size_t{1} << 30;

[[noreturn]] void failed(std::string_view what, const std::filesystem::path& path, int error) {
  throw IoError(fmt::format(
      "cannot {} {}: {}", what, in_quotes(path.native()), std::generic_category().message(error)));
}

UniqueFd open_for_writing(const std::filesystem::path& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0666));
  if (!fd.is_open()) failed("create", path, errno);
  return fd;
}

void cut(const UniqueFd& fd, const std::filesystem::path& path, std::uint64_t size_bytes) {
  if (ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) failed("resize", path, errno);
}

void write_all(const UniqueFd& fd,
               const std::filesystem::path& path,
               std::span<const std::byte> bytes,
               std::uint64_t offset) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kMaxBytesPerCall);
    const ssize_t n = ::pwrite(fd.get(), bytes.data(), count, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) failed("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void sync_data(const UniqueFd& fd, const std::filesystem::path& path) {
  if (fdatasync(fd.get()) != 0) failed("write", path, errno);
}

bool is_file_at(const std::filesystem::path& path, const UniqueFd& fd) {
  struct stat named {};
  struct stat held {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(fd.get(), &held) == 0 &&
         named.st_dev == held.st_dev && named.st_ino == held.st_ino;
}

/// Opens or creates `path` when no other writer has it: one at a time fills it and renames it away.
UniqueFd open_alone(const std::filesystem::path& path) {
  for (;;) {
    UniqueFd fd = open_for_writing(path, O_CREAT);
    int rc = 0;
    do {
      rc = ::flock(fd.get(), LOCK_EX);
    } while (rc != 0 && errno == EINTR);
    // A file system without locks has the last writer win. Else the file may be another one by now.
    if (rc != 0 || is_file_at(path, fd)) return fd;
  }
}

}  // namespace

OutputFile OutputFile::open(const std::filesystem::path& path, std::uint64_t size_bytes) {
  OutputFile file;
  file.path_ = path;
  file.fd_ = open_for_writing(path, O_CREAT);
  cut(file.fd_, path, size_bytes);
  return file;
}

void OutputFile::write_at(std::span<const std::byte> bytes, std::uint64_t offset) const {
  write_all(fd_, path_, bytes, offset);
}

void OutputFile::sync() const {
  sync_data(fd_, path_);
}

AppendFile::AppendFile(const std::filesystem::path& path, std::uint64_t keep_bytes)
    : path_(path), fd_(open_for_writing(path, O_CREAT | O_APPEND)) {
  cut(fd_, path, keep_bytes);
}

void AppendFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd_.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) failed("write", path_, errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  sync_data(fd_, path_);
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!fd_.is_open()) failed("open the folder", folder, errno);
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) failed("lock the folder", folder, errno);
  fail("another program is writing into {}; wait for it, or choose another folder",
       in_quotes(folder.native()));
}

void write_atomically(const std::filesystem::path& path, std::string_view contents) {
  std::filesystem::path part = path;
  part += ".part";
  const UniqueFd fd = open_alone(part);
  cut(fd, part, 0);
  write_all(fd, part, std::as_bytes(std::span(contents)), 0);
  sync_data(fd, part);
  if (std::rename(part.c_str(), path.c_str()) != 0) failed("rename to", path, errno);
  sync_folder(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

void sync_folder(const std::filesystem::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) failed("open", folder, errno);
  // Some network file systems cannot sync a folder; their renames are durable by themselves.
  if (fsync(fd.get()) != 0 && errno != EINVAL) failed("write", folder, errno);
}

std::uint64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) failed("examine", folder, errno);
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

std::uint64_t occupied_bytes(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  constexpr std::uint64_t kStatBlockBytes = 512;  // st_blocks counts these, whatever the drive
  return static_cast<std::uint64_t>(status.st_blocks) * kStatBlockBytes;
}

}  // namespace ft::io
