// Reads whole experts and checks every byte of them: owns the files, the read queue and the threads
// that serve it. A read that fails or whose checksum differs is repeated once, from another copy of
// the file if there is one. Should the queue itself fail, every read from then on does.
#pragma once

#include "base/clock.h"
#include "base/thread_pool.h"
#include "experts/mirror_shares.h"
#include "io/read_queue.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace ft::experts {

/// One layer's experts on the drive.
struct ExtentFiles {
  std::size_t layer = 0;
  std::uint64_t extent_bytes = 0;
  std::vector<std::uint64_t> checksums;  // one per expert
  std::vector<io::BulkFile> files;       // copies of each other; as many for every layer
  bool uses_page_cache = true;           // for demands of small experts
};

struct ExtentRead {
  std::uint64_t tag = 0;        // unique among reads not done
  std::size_t layer_index = 0;  // of the reader's ExtentFiles
  std::uint32_t expert = 0;
  std::span<std::byte> destination;
  io::ReadPriority priority = io::ReadPriority::kDemand;
};

/// The end of one. Only with an empty `error` the destination holds the expert.
struct ExtentOutcome {
  ExtentRead read;
  bool was_guess = false;        // never repeated: still kAhead when it ended
  bool was_dropped = false;      // a guess that ended because nobody wanted it
  std::int64_t latency_us = 0;   // of the attempt that succeeded
  std::uint64_t bytes_read = 0;  // asked of the drive, the repeated attempt included
  bool was_cached = false;       // copied from the page cache
  std::size_t n_failed = 0;      // attempts
  std::string error;             // one line naming expert, layer and file
};

class ExtentReader {
 public:
  /// Up to this size copying and checking an expert that the page cache holds takes less than
  /// handing it to another thread and back.
  static constexpr std::uint64_t kCopiedBytes = std::uint64_t{256} << 10;

  /// `done` is called for every read that ends, without any lock of the reader: on a thread of it,
  /// or within start() if the page cache had the expert or the queue has failed. It may call
  /// start(); it must not throw. Throws ResourceExhausted if threads are refused.
  ExtentReader(std::vector<ExtentFiles> layers,
               const Clock& clock,
               std::unique_ptr<io::ReadQueue> queue,
               std::function<void(const ExtentOutcome&)> done);
  /// Reads under way end, or never touch their destination again; `done` is not called any more.
  ~ExtentReader();
  ExtentReader(const ExtentReader&) = delete;
  ExtentReader& operator=(const ExtentReader&) = delete;
  ExtentReader(ExtentReader&&) = delete;
  ExtentReader& operator=(ExtentReader&&) = delete;

  // Thread-safe; none waits for the drive. Hold no lock that `done` takes in start().
  /// `pool`: lent by its thread for this call, to share the copying; may be null.
  void start(std::span<const ExtentRead> reads, ThreadPool* pool);
  /// A kAhead read not done yet is needed now.
  void promote(std::uint64_t tag);
  /// A kAhead read is not wanted any more; it ends as soon as it can.
  void drop(std::uint64_t tag);

 private:
  struct Attempt {
    std::size_t mirror = kNoMirror;
    ExtentOutcome outcome;
  };

  void serve_queue();
  void pass_on_reads();
  void serve_checks();
  void stop();
  bool may_be_copied(const ExtentRead& read) const noexcept;
  /// Whether the destination now holds the expert.
  bool copy_from_cache(const ExtentRead& read) const noexcept;
  bool has_queue_failed();
  void queue_up(std::vector<Attempt> attempts);
  void refuse(Attempt attempt);
  void submit(std::vector<Attempt>& attempts, std::vector<io::ReadRequest>& requests);
  void finish(const io::ReadResult& result);
  void check(Attempt attempt);
  std::string damage(const Attempt& attempt) const;
  std::string unreadable(const Attempt& attempt, std::string_view why) const;

  const std::vector<ExtentFiles> layers_;
  const Clock& clock_;
  const std::function<void(const ExtentOutcome&)> done_;
  std::unique_ptr<io::ReadQueue> queue_;
  MirrorShares mirrors_;
  std::unordered_map<std::uint64_t, Attempt> under_way_;  // of the queue's thread

  std::mutex mutex_;
  std::vector<Attempt> to_start_;
  std::vector<std::uint64_t> to_promote_;
  std::vector<std::uint64_t> to_drop_;
  std::vector<Attempt> to_check_;
  std::condition_variable has_checks_;
  bool is_stopping_ = false;
  std::string queue_failure_;  // why it serves no more reads; set once

  std::jthread queue_thread_;
  std::jthread check_thread_;
};

}  // namespace ft::experts
