// Many large reads at once, past the page cache: how experts come from the drive.
#pragma once

#include "io/file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::io {

/// Offsets, sizes and destinations of bulk reads are multiples of this.
inline constexpr std::size_t kBulkAlignment = 4096;

/// A regular file open for bulk reads: O_DIRECT where the file system takes it, else buffered.
/// Thread-safe.
class BulkFile {
 public:
  /// `direct` false asks for buffered reads. Throws as File::open.
  static BulkFile open(const std::filesystem::path& path, bool direct);
  const std::filesystem::path& path() const noexcept { return file_.path(); }
  std::uint64_t size_bytes() const noexcept { return file_.size_bytes(); }
  bool is_direct() const noexcept { return is_direct_; }
  int descriptor() const noexcept { return file_.descriptor(); }
  /// Copies from the page cache if all of it is there: no drive, no wait. Else false, and the
  /// destination holds anything. Where the kernel cannot tell, false. Thread-safe.
  bool read_if_cached(std::span<std::byte> destination, std::uint64_t offset) const noexcept;

 private:
  File file_;
  File buffered_;
  bool is_direct_ = false;
};

enum class ReadPriority : std::uint8_t {
  kDemand,  // somebody waits
  kAhead,   // a guess: waits behind every demand
};

struct ReadRequest {
  const BulkFile* file = nullptr;  // outlives the request
  std::uint64_t offset = 0;
  std::span<std::byte> destination;
  std::uint64_t tag = 0;  // comes back with the result; unique among requests not finished
  ReadPriority priority = ReadPriority::kDemand;
};

/// The end of one request. Only with an empty `error` the destination holds the bytes.
struct ReadResult {
  std::uint64_t tag = 0;
  std::int64_t latency_us = 0;  // from its first piece handed to the kernel to its last one done
  std::size_t n_bytes = 0;      // that the kernel was asked for
  bool was_dropped = false;     // by drop(), with an `error`
  std::string error;            // "cannot read 'FILE': wanted N bytes at offset O, got G: REASON"
};

/// Splits requests into pieces and keeps a bounded number of them at the drive. One thread submits
/// and waits; wake() is for any thread. Destruction waits until the kernel has let go of every
/// destination.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;
  /// "io_uring", "threads": for logs.
  virtual std::string_view name() const noexcept = 0;
  /// Never blocks for a drive. Throws IoError, as wait() does, only if the kernel refuses the queue
  /// itself; a read that fails is a result.
  virtual void submit(std::span<const ReadRequest> requests) = 0;
  /// A kAhead request not finished yet becomes kDemand.
  virtual void promote(std::uint64_t tag) noexcept = 0;
  /// Of a kAhead request no further byte is read. It ends with an error, unless all of it was asked
  /// for already.
  virtual void drop(std::uint64_t tag) noexcept = 0;
  /// Blocks until a request has finished or wake() was called since the last return; appends what
  /// has finished.
  virtual void wait(std::vector<ReadResult>& finished) = 0;
  virtual void wake() noexcept = 0;
};

struct ReadQueueOptions {
  enum class Kind { kAuto, kUring, kThreads };
  Kind kind = Kind::kAuto;  // auto: io_uring, or threads where it is refused
  // The best of 256 KiB … 2 MiB and depths 4 … 24 by measurement: docs/streaming.md, "Reading".
  std::size_t piece_bytes = std::size_t{512} << 10;
  std::size_t depth = 12;  // pieces at the drive at once
};

/// Throws IoError if kUring is asked for and refused, ResourceExhausted if threads are.
std::unique_ptr<ReadQueue> make_read_queue(const ReadQueueOptions& options);

}  // namespace ft::io
