#include "testing/faulty_read_queue.h"

#include "base/error.h"
#include "io/read_pieces.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <unistd.h>
#include <utility>

namespace ft::testing {
namespace {

constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max() / io::kBulkAlignment *
                               io::kBulkAlignment;  // no request is larger than this piece

io::ReadResult read_now(const io::ReadRequest& request) {
  io::ReadPieces pieces(kWhole);
  pieces.add(request);
  io::ReadPieces::Piece piece;
  if (pieces.next(piece)) {
    bool is_over = false;
    while (!is_over) {
      const ssize_t n = ::pread(piece.descriptor(),
                                piece.destination(),
                                piece.size(),
                                static_cast<off_t>(piece.offset()));
      is_over = !pieces.advance(piece, n < 0 ? -std::int64_t{errno} : std::int64_t{n});
    }
  }
  std::vector<io::ReadResult> finished;
  pieces.take_finished(finished);
  FT_CHECK(finished.size() == 1);
  return finished.front();
}

io::ReadResult failure_of(const io::ReadRequest& request,
                          std::size_t n_bytes,
                          std::string_view reason) {
  return {.tag = request.tag,
          .latency_us = 0,
          .error = io::read_error(
              request.file->path(), request.destination.size(), request.offset, n_bytes, reason)};
}

io::ReadResult read_with(const io::ReadRequest& request, const ReadFault& fault) {
  switch (fault.kind) {
    case ReadFault::Kind::kNone:
      return read_now(request);
    case ReadFault::Kind::kFails:
      return failure_of(request, 0, fault.reason);
    case ReadFault::Kind::kTruncated: {
      io::ReadResult whole = read_now(request);
      return whole.error.empty() ? failure_of(request, fault.n_bytes, io::kFileEnds) : whole;
    }
    case ReadFault::Kind::kFlipped: {
      io::ReadResult whole = read_now(request);
      FT_CHECK(fault.n_bytes < request.destination.size());
      request.destination[fault.n_bytes] = ~request.destination[fault.n_bytes];
      return whole;
    }
  }
  throw LogicError("no such kind of fault");
}

}  // namespace

void ReadScript::on_request(std::uint64_t number, ReadFault fault) {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_number_, [&](const RequestFault& old) { return old.number == number; });
  by_number_.push_back({.number = number, .fault = std::move(fault)});
}

void ReadScript::on_file(const std::filesystem::path& path, ReadFault fault) {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_file_, [&](const FileFault& old) { return old.path == path; });
  by_file_.push_back({.path = path, .fault = std::move(fault)});
}

void ReadScript::on_all(ReadFault fault) {
  const std::lock_guard lock(mutex_);
  for_all_ = std::move(fault);
}

void ReadScript::clear() {
  {
    const std::lock_guard lock(mutex_);
    by_number_.clear();
    by_file_.clear();
    for_all_ = {};
  }
  changed_.notify_all();
}

void ReadScript::set_order(ReadOrder order) {
  const std::lock_guard lock(mutex_);
  order_ = order;
}

void ReadScript::fail_queues(std::string message) {
  {
    const std::lock_guard lock(mutex_);
    queue_failure_ = std::move(message);
  }
  changed_.notify_all();
}

void ReadScript::release(std::uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    released_.push_back(number);
  }
  changed_.notify_all();
}

void ReadScript::release_all() {
  {
    const std::lock_guard lock(mutex_);
    n_released_all_ = seen_.size();
  }
  changed_.notify_all();
}

std::uint64_t ReadScript::n_submitted() const {
  const std::lock_guard lock(mutex_);
  return seen_.size();
}

void ReadScript::await_submitted(std::uint64_t n) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return seen_.size() >= n; });
}

void ReadScript::await_ended(std::uint64_t n) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const auto n_ended =
        std::count_if(seen_.begin(), seen_.end(), [](const Seen& seen) { return seen.has_ended; });
    return static_cast<std::uint64_t>(n_ended) >= n;
  });
}

std::vector<ReadScript::Seen> ReadScript::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

ReadFault ReadScript::fault_of(std::uint64_t number) const {
  for (const RequestFault& entry : by_number_) {
    if (entry.number == number) return entry.fault;
  }
  for (const FileFault& entry : by_file_) {
    if (entry.path == seen_[number].file) return entry.fault;
  }
  return for_all_;
}

bool ReadScript::is_held(std::uint64_t number) const {
  return fault_of(number).is_held && number >= n_released_all_ &&
         std::find(released_.begin(), released_.end(), number) == released_.end();
}

void FaultyReadQueue::submit(std::span<const io::ReadRequest> requests) {
  {
    const std::lock_guard lock(script_.mutex_);
    for (const io::ReadRequest& request : requests) {
      waiting_.push_back({.request = request, .number = script_.seen_.size()});
      script_.seen_.push_back({.file = request.file->path(),
                               .offset = request.offset,
                               .size_bytes = request.destination.size(),
                               .tag = request.tag,
                               .priority = request.priority,
                               .has_ended = false});
    }
  }
  script_.changed_.notify_all();
}

void FaultyReadQueue::promote(std::uint64_t tag) noexcept {
  const std::lock_guard lock(script_.mutex_);
  for (Waiting& waiting : waiting_) {
    if (waiting.request.tag != tag) continue;
    waiting.request.priority = io::ReadPriority::kDemand;
    script_.seen_[waiting.number].priority = io::ReadPriority::kDemand;
  }
}

void FaultyReadQueue::drop(std::uint64_t tag) noexcept {
  const std::lock_guard lock(script_.mutex_);
  const auto waiting = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) {
    return one.request.tag == tag && one.request.priority == io::ReadPriority::kAhead;
  });
  if (waiting == waiting_.end()) return;
  io::ReadResult& result = dropped_.emplace_back();
  result.tag = tag;
  result.was_dropped = true;
  result.error = "cannot read: no longer wanted";
  script_.seen_[waiting->number].has_ended = true;
  waiting_.erase(waiting);
  script_.changed_.notify_all();
}

std::optional<std::size_t> FaultyReadQueue::choose() {
  std::vector<std::size_t> ready;  // in the order of submission
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (!script_.is_held(waiting_[i].number)) ready.push_back(i);
  }
  if (ready.empty()) return std::nullopt;
  switch (script_.order_) {
    case ReadOrder::kQueued: {
      const auto demand = std::find_if(ready.begin(), ready.end(), [&](std::size_t i) {
        return waiting_[i].request.priority == io::ReadPriority::kDemand;
      });
      return demand == ready.end() ? ready.front() : *demand;
    }
    case ReadOrder::kReversed:
      return ready.back();
    case ReadOrder::kShuffled:
      return ready[script_.random_() % ready.size()];
  }
  throw LogicError("no such order");
}

void FaultyReadQueue::wait(std::vector<io::ReadResult>& finished) {
  Waiting chosen;
  ReadFault fault;
  {
    std::unique_lock lock(script_.mutex_);
    std::optional<std::size_t> index;
    script_.changed_.wait(lock, [&] {
      if (!is_woken_ && dropped_.empty()) index = choose();
      return is_woken_ || !dropped_.empty() || index.has_value() || !script_.queue_failure_.empty();
    });
    if (!script_.queue_failure_.empty()) throw IoError(script_.queue_failure_);
    is_woken_ = false;
    std::move(dropped_.begin(), dropped_.end(), std::back_inserter(finished));
    dropped_.clear();
    if (!index.has_value()) return;
    chosen = waiting_[*index];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(*index));
    fault = script_.fault_of(chosen.number);
  }
  finished.push_back(read_with(chosen.request, fault));
  finished.back().n_bytes = chosen.request.destination.size();
  {
    const std::lock_guard lock(script_.mutex_);
    script_.seen_[chosen.number].has_ended = true;
  }
  script_.changed_.notify_all();
}

void FaultyReadQueue::wake() noexcept {
  {
    const std::lock_guard lock(script_.mutex_);
    is_woken_ = true;
  }
  script_.changed_.notify_all();
}

}  // namespace ft::testing
