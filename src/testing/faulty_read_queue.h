// A read queue for tests: it reads real files, one request per wait(), and does to chosen requests
// what a bad drive does. The script belongs to the test and outlives every queue that follows it.
#pragma once

#include "io/read_queue.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::testing {

/// What happens to a request.
struct ReadFault {
  enum class Kind : std::uint8_t {
    kNone,
    kFails,      // nothing comes; the error ends in `reason`
    kTruncated,  // `n_bytes` come, then the file ends
    kFlipped,    // all come, the one at `n_bytes` with its bits inverted; no error is told
  };
  Kind kind = Kind::kNone;
  std::string reason = "Input/output error";
  std::size_t n_bytes = 0;
  bool is_held = false;  // does not end before release() or release_all()
};

/// The order in which requests that are not held end.
enum class ReadOrder : std::uint8_t {
  kQueued,    // demand before ahead, oldest first, as the real queues
  kReversed,  // newest first
  kShuffled,  // any, by seed
};

/// What is done to the requests of all queues that follow it, and what they asked for. Thread-safe.
/// Requests are numbered from 0 in the order of submission.
class ReadScript {
 public:
  explicit ReadScript(std::uint64_t seed = 1) : random_(seed) {}
  void on_request(std::uint64_t number, ReadFault fault);
  /// Every request on this file, until clear(). A fault of on_request comes before.
  void on_file(const std::filesystem::path& path, ReadFault fault);
  /// Every request without a fault of its own or of its file, until clear().
  void on_all(ReadFault fault);
  /// No more faults for requests that have not ended; nothing is held any more.
  void clear();
  void set_order(ReadOrder order);
  /// Every call of wait() throws IoError with this message from now on, as if the kernel refused
  /// the queue itself.
  void fail_queues(std::string message);
  void release(std::uint64_t number);
  /// Lets go of what is held now.
  void release_all();

  std::uint64_t n_submitted() const;
  /// Blocks until `n` requests have been submitted.
  void await_submitted(std::uint64_t n) const;
  /// Blocks until `n` requests have ended.
  void await_ended(std::uint64_t n) const;
  struct Seen {
    std::filesystem::path file;
    std::uint64_t offset = 0;
    std::size_t size_bytes = 0;
    std::uint64_t tag = 0;
    io::ReadPriority priority = io::ReadPriority::kDemand;  // as submitted or promoted since
    bool has_ended = false;
  };
  std::vector<Seen> seen() const;

 private:
  friend class FaultyReadQueue;
  struct FileFault {
    std::filesystem::path path;
    ReadFault fault;
  };
  struct RequestFault {
    std::uint64_t number = 0;
    ReadFault fault;
  };
  ReadFault fault_of(std::uint64_t number) const;
  bool is_held(std::uint64_t number) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::mt19937_64 random_;
  ReadOrder order_ = ReadOrder::kQueued;
  std::vector<RequestFault> by_number_;
  std::vector<FileFault> by_file_;
  ReadFault for_all_;
  std::string queue_failure_;  // empty: queues work
  std::vector<std::uint64_t> released_;
  std::uint64_t n_released_all_ = 0;  // requests below this number were let go
  std::vector<Seen> seen_;
};

/// Threads as the real queues: one submits and waits, any wakes. A request is read inside wait(),
/// so its destination changes on that thread. Requests not ended when it is destroyed never end.
class FaultyReadQueue final : public io::ReadQueue {
 public:
  explicit FaultyReadQueue(ReadScript& script) : script_(script) {}
  std::string_view name() const noexcept override { return "faulty"; }
  void submit(std::span<const io::ReadRequest> requests) override;
  void promote(std::uint64_t tag) noexcept override;
  void drop(std::uint64_t tag) noexcept override;
  void wait(std::vector<io::ReadResult>& finished) override;
  void wake() noexcept override;

 private:
  struct Waiting {
    io::ReadRequest request;
    std::uint64_t number = 0;
  };
  std::optional<std::size_t> choose();

  ReadScript& script_;
  std::vector<io::ReadResult> dropped_;
  std::vector<Waiting> waiting_;  // oldest first; guarded by the script's lock, as all here
  bool is_woken_ = false;
};

}  // namespace ft::testing
