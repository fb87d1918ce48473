// The part that all read queues share: requests cut into pieces, which piece goes to the drive
// next, and when a request has ended. Knows nothing of threads or of the kernel.
#pragma once

#include "io/read_queue.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

namespace ft::io {

/// Not thread-safe.
class ReadPieces {
 public:
  /// One request under way. Its address is stable until it has ended.
  struct Request {
    ReadRequest wanted;
    std::size_t n_handed_out_bytes = 0;
    std::size_t n_out = 0;  // pieces handed out that have not come back
    std::int64_t started_us = 0;
    std::size_t failed_at = 0;  // where in the destination the first missing byte is, with `reason`
    std::string reason;         // empty: nothing has failed
    bool is_dropped = false;
  };
  /// What one read of the kernel is asked for: bytes [at, end) of the request.
  struct Piece {
    Request* request = nullptr;
    std::size_t at = 0;
    std::size_t end = 0;
    std::size_t reached = 0;  // bytes below this have come
    int n_retries = 0;

    int descriptor() const noexcept { return request->wanted.file->descriptor(); }
    std::byte* destination() const noexcept { return request->wanted.destination.data() + at; }
    std::size_t size() const noexcept { return end - at; }
    std::uint64_t offset() const noexcept { return request->wanted.offset + at; }
  };

  explicit ReadPieces(std::size_t piece_bytes);
  /// Throws LogicError unless offset, size and destination are multiples of kBulkAlignment and the
  /// tag is new.
  void add(const ReadRequest& request);
  void promote(std::uint64_t tag) noexcept;
  void drop(std::uint64_t tag) noexcept;
  /// Takes the next piece into `piece`; false if nothing waits. Every piece taken must come back
  /// through advance() until that says it is over.
  bool next(Piece& piece);
  /// What the kernel answered: bytes read, or minus an error number. True: hand the piece, now
  /// shorter, to the kernel again. False: it is over, and with the last one so is its request.
  bool advance(Piece& piece, std::int64_t answer);
  bool has_waiting() const noexcept { return !demand_.empty() || !ahead_.empty(); }
  bool has_finished() const noexcept { return !finished_.empty(); }
  /// Moves the results of ended requests to the end of `finished`.
  void take_finished(std::vector<ReadResult>& finished);

 private:
  void end_piece(Request& request);
  void end(const Request& request);
  void fail_at(Request& request, std::size_t at, std::string reason);
  void stop_handing_out(const Request& request);

  std::size_t piece_bytes_;
  std::unordered_map<std::uint64_t, Request> requests_;  // not ended, by tag
  std::deque<Request*> demand_;                          // with bytes not handed out, oldest first
  std::deque<Request*> ahead_;
  std::vector<ReadResult> finished_;
};

}  // namespace ft::io
