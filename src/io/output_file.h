// Files that must survive a kill at any moment: positional writes, syncs and renames. Used by what
// writes models.
#pragma once

#include "io/file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace ft::io {

/// A regular file open for positional writing. Throws IoError from every member, naming the file.
class OutputFile {
 public:
  /// Opens `path`, creates it if it is not there and gives it this size; what it holds below that
  /// size stays.
  static OutputFile open(const std::filesystem::path& path, std::uint64_t size_bytes);
  const std::filesystem::path& path() const noexcept { return path_; }
  /// Writes all bytes at `offset`. Thread-safe.
  void write_at(std::span<const std::byte> bytes, std::uint64_t offset) const;
  /// Returns when everything written is on the drive.
  void sync() const;

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
};

/// A file that grows at its end; every append is on the drive when it returns.
class AppendFile {
 public:
  /// Opens or creates `path` and cuts it to `keep_bytes`.
  AppendFile(const std::filesystem::path& path, std::uint64_t keep_bytes);
  void append(std::string_view text);

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
};

/// Held by the one program that writes into a folder; a kill releases it.
class FolderLock {
 public:
  /// Throws InvalidInput if another program holds it, IoError.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  UniqueFd fd_;
};

/// Replaces or creates `path` in one step: after a crash it has the old contents or all of the new
/// ones. Leaves "<path>.part" behind if it is killed. Of several writers at once one is the last.
void write_atomically(const std::filesystem::path& path, std::string_view contents);
/// Makes names in `folder` (creations, renames, removals) survive a crash.
void sync_folder(const std::filesystem::path& folder);

/// Bytes this process may still write below `folder`.
std::uint64_t free_bytes(const std::filesystem::path& folder);
/// Bytes of the drive that a file occupies; 0 if it does not exist.
std::uint64_t occupied_bytes(const std::filesystem::path& path);

}  // namespace ft::io
