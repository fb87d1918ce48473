#include "io/read_pieces.h"

#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

namespace ft::io {
namespace {

// A kernel that says "again" this often in a row will go on saying it.
constexpr int kMaxRetries = 1000;

std::int64_t now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

bool is_aligned(std::uint64_t value) noexcept {
  return value % kBulkAlignment == 0;
}

}  // namespace

ReadPieces::ReadPieces(std::size_t piece_bytes) : piece_bytes_(piece_bytes) {
  FT_CHECK(piece_bytes > 0 && is_aligned(piece_bytes));
}

void ReadPieces::add(const ReadRequest& request) {
  FT_CHECK(request.file != nullptr && is_aligned(request.offset));
  FT_CHECK(is_aligned(request.destination.size()));
  FT_CHECK(is_aligned(reinterpret_cast<std::uintptr_t>(request.destination.data())));
  const auto [entry, is_new] = requests_.try_emplace(request.tag);
  FT_CHECK(is_new);
  if (request.destination.empty()) {
    requests_.erase(entry);
    finished_.emplace_back().tag = request.tag;
    return;
  }
  entry->second.wanted = request;
  auto& waiting = request.priority == ReadPriority::kDemand ? demand_ : ahead_;
  waiting.push_back(&entry->second);
}

void ReadPieces::promote(std::uint64_t tag) noexcept {
  const auto entry = requests_.find(tag);
  if (entry == requests_.end() || entry->second.wanted.priority == ReadPriority::kDemand) return;
  entry->second.wanted.priority = ReadPriority::kDemand;
  if (std::erase(ahead_, &entry->second) > 0) demand_.push_back(&entry->second);
}

void ReadPieces::drop(std::uint64_t tag) noexcept {
  const auto entry = requests_.find(tag);
  if (entry == requests_.end()) return;
  Request& request = entry->second;
  const bool is_all_out = request.n_handed_out_bytes == request.wanted.destination.size();
  if (request.wanted.priority == ReadPriority::kDemand || is_all_out || !request.reason.empty()) {
    return;
  }
  request.is_dropped = true;
  fail_at(request, request.n_handed_out_bytes, "no longer wanted");
  if (request.n_out == 0) end(request);
}

bool ReadPieces::next(Piece& piece) {
  auto& waiting = demand_.empty() ? ahead_ : demand_;
  if (waiting.empty()) return false;
  Request& request = *waiting.front();
  const std::size_t at = request.n_handed_out_bytes;
  const std::size_t size = std::min(piece_bytes_, request.wanted.destination.size() - at);
  if (at == 0) request.started_us = now_us();
  piece = {.request = &request, .at = at, .end = at + size, .reached = at, .n_retries = 0};
  request.n_handed_out_bytes = piece.end;
  ++request.n_out;
  if (piece.end == request.wanted.destination.size()) waiting.pop_front();
  return true;
}

bool ReadPieces::advance(Piece& piece, std::int64_t answer) {
  Request& request = *piece.request;
  const bool is_wanted = request.reason.empty();
  bool can_go_on = false;
  if (answer == -EINTR || answer == -EAGAIN) {
    can_go_on = ++piece.n_retries <= kMaxRetries;
  } else if (answer > 0) {
    const std::size_t reached = std::min(piece.end, piece.at + static_cast<std::size_t>(answer));
    if (reached == piece.end) {
      end_piece(request);
      return false;
    }
    if (reached > piece.reached) {
      // A direct read may go on only at a multiple of the alignment, so some bytes come twice.
      piece.reached = reached;
      piece.at = std::max(piece.at, reached / kBulkAlignment * kBulkAlignment);
      piece.n_retries = 0;
      can_go_on = true;
    }
  }
  if (can_go_on) {
    if (is_wanted) return true;
    fail_at(request, piece.reached, request.reason);  // given up where it is
    end_piece(request);
    return false;
  }
  const bool is_end = answer >= 0;
  const auto error = static_cast<int>(is_end ? 0 : -answer);
  fail_at(request,
          piece.reached,
          is_end ? std::string(kFileEnds) : std::generic_category().message(error));
  end_piece(request);
  return false;
}

void ReadPieces::fail_at(Request& request, std::size_t at, std::string reason) {
  if (request.reason.empty()) stop_handing_out(request);
  // Pieces end in any order; what is told is the first byte missing.
  if (request.reason.empty() || at < request.failed_at) {
    request.failed_at = at;
    request.reason = std::move(reason);
  }
}

void ReadPieces::stop_handing_out(const Request& request) {
  auto& waiting = request.wanted.priority == ReadPriority::kDemand ? demand_ : ahead_;
  std::erase(waiting, &request);
}

void ReadPieces::end_piece(Request& request) {
  --request.n_out;
  if (request.n_out > 0) return;
  const bool is_complete = request.n_handed_out_bytes == request.wanted.destination.size();
  if (is_complete || !request.reason.empty()) end(request);
}

void ReadPieces::end(const Request& request) {
  const ReadRequest& wanted = request.wanted;
  ReadResult result{
      .tag = wanted.tag,
      .latency_us = request.n_handed_out_bytes > 0 ? now_us() - request.started_us : 0,
      .n_bytes = request.n_handed_out_bytes,
      .was_dropped = request.is_dropped,
      .error = {}};
  if (!request.reason.empty()) {
    result.error = read_error(wanted.file->path(),
                              wanted.destination.size(),
                              wanted.offset,
                              request.failed_at,
                              request.reason);
  }
  finished_.push_back(std::move(result));
  requests_.erase(wanted.tag);
}

void ReadPieces::take_finished(std::vector<ReadResult>& finished) {
  std::move(finished_.begin(), finished_.end(), std::back_inserter(finished));
  finished_.clear();
}

}  // namespace ft::io
