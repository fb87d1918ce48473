#include "io/uring_read_queue.h"

#include "base/error.h"
#include "io/read_pieces.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>

namespace ft::io {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// A ring that is released with its owner.
class Ring {
 public:
  explicit Ring(unsigned n_entries) {
    const int status = io_uring_queue_init(n_entries, &ring_, 0);
    if (status < 0) throw IoError(fmt::format("io_uring is refused: {}", reason(-status)));
  }
  ~Ring() { io_uring_queue_exit(&ring_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  Ring(Ring&&) = delete;
  Ring& operator=(Ring&&) = delete;
  io_uring* get() noexcept { return &ring_; }
  /// Kernels before 5.6 have rings without plain reads.
  bool can_read() noexcept {
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    const bool can = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
    if (probe != nullptr) io_uring_free_probe(probe);
    return can;
  }

 private:
  io_uring ring_{};
};

/// Neither files nor buffers are registered: docs/streaming.md, "Reading".
class UringReadQueue final : public ReadQueue {
 public:
  explicit UringReadQueue(const ReadQueueOptions& options)
      : pieces_(options.piece_bytes),
        ring_(static_cast<unsigned>(options.depth) + 1),  // and the poll of the wake event
        wake_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        in_flight_(options.depth) {
    if (!wake_event_.is_open()) {
      throw IoError(fmt::format("cannot create an event: {}", reason(errno)));
    }
    if (!ring_.can_read()) throw IoError("io_uring is refused: this kernel's has no reads");
    for (std::size_t i = in_flight_.size(); i > 0; --i) free_.push_back(i - 1);
  }

  /// The kernel writes into destinations until the last piece has come back.
  ~UringReadQueue() override {
    wake();  // so that the poll of the event comes back too
    std::size_t n_out = in_flight_.size() - free_.size() + (is_watching_ ? 1 : 0);
    while (n_out > io_uring_sq_ready(ring_.get())) {  // but for what the kernel never took
      io_uring_cqe* entry = nullptr;
      const int status = io_uring_wait_cqe(ring_.get(), &entry);
      if (status == -EINTR || status == -EAGAIN) continue;
      if (status < 0) break;  // no answer will ever come; closing the ring cancels what is out
      io_uring_cqe_seen(ring_.get(), entry);
      --n_out;
    }
  }
  UringReadQueue(const UringReadQueue&) = delete;
  UringReadQueue& operator=(const UringReadQueue&) = delete;
  UringReadQueue(UringReadQueue&&) = delete;
  UringReadQueue& operator=(UringReadQueue&&) = delete;

  std::string_view name() const noexcept override { return "io_uring"; }

  void submit(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) pieces_.add(request);
    fill();
    enter(0);
  }

  void promote(std::uint64_t tag) noexcept override { pieces_.promote(tag); }
  void drop(std::uint64_t tag) noexcept override { pieces_.drop(tag); }

  void wait(std::vector<ReadResult>& finished) override {
    while (!reap() && !pieces_.has_finished()) {
      fill();
      watch_wake_event();
      enter(1);
    }
    fill();
    enter(0);  // the drive stays busy while the caller looks at the results
    pieces_.take_finished(finished);
  }

  void wake() noexcept override {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the event is set.
    [[maybe_unused]] const ssize_t n = ::write(wake_event_.get(), &one, sizeof(one));
  }

 private:
  // The kernel collects more than two entries of one call before the drive sees any, and merges
  // neighbouring pieces to requests of megabytes, which made reads 10 % slower.
  static constexpr unsigned kMostPerCall = 2;
  static constexpr std::uint64_t kWakeIndex = ~std::uint64_t{0};

  void prepare(std::size_t index) {
    const ReadPieces::Piece& piece = in_flight_[index];
    io_uring_sqe* entry = io_uring_get_sqe(ring_.get());
    FT_CHECK(entry != nullptr);
    io_uring_prep_read(entry,
                       piece.descriptor(),
                       piece.destination(),
                       static_cast<unsigned>(piece.size()),
                       piece.offset());
    io_uring_sqe_set_data64(entry, index);
  }

  void fill() {
    while (!free_.empty() && pieces_.next(in_flight_[free_.back()])) {
      const std::size_t index = free_.back();
      free_.pop_back();
      prepare(index);
      if (io_uring_sq_ready(ring_.get()) >= kMostPerCall) enter(0);
    }
  }

  void watch_wake_event() {
    if (is_watching_) return;
    io_uring_sqe* entry = io_uring_get_sqe(ring_.get());
    FT_CHECK(entry != nullptr);
    io_uring_prep_poll_add(entry, wake_event_.get(), POLLIN);
    io_uring_sqe_set_data64(entry, kWakeIndex);
    is_watching_ = true;
  }

  /// Gives what is prepared to the kernel and waits until `n_wanted` answers are there.
  void enter(unsigned n_wanted) {
    if (n_wanted == 0 && io_uring_sq_ready(ring_.get()) == 0) return;
    const int status = io_uring_submit_and_wait(ring_.get(), n_wanted);
    // Interrupted or short of memory for the moment: what is prepared stays for the next call.
    if (status >= 0 || status == -EINTR || status == -EAGAIN || status == -EBUSY) return;
    throw IoError(fmt::format("io_uring refuses to go on: {}", reason(-status)));
  }

  /// Takes all answers that are there; true if wake() was called.
  bool reap() {
    bool is_woken = false;
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(ring_.get(), &entry) == 0) {
      const std::uint64_t index = io_uring_cqe_get_data64(entry);
      const int answer = entry->res;
      io_uring_cqe_seen(ring_.get(), entry);
      if (index == kWakeIndex) {
        std::uint64_t n_wakes = 0;
        is_woken |= ::read(wake_event_.get(), &n_wakes, sizeof(n_wakes)) > 0;
        is_watching_ = false;
        continue;
      }
      if (pieces_.advance(in_flight_[index], answer)) {
        prepare(index);
      } else {
        free_.push_back(index);
      }
    }
    return is_woken;
  }

  ReadPieces pieces_;
  Ring ring_;
  UniqueFd wake_event_;
  bool is_watching_ = false;
  std::vector<ReadPieces::Piece> in_flight_;  // the index of one comes back from the kernel
  std::vector<std::size_t> free_;             // indices of in_flight_
};

}  // namespace

std::unique_ptr<ReadQueue> make_uring_read_queue(const ReadQueueOptions& options) {
  return std::make_unique<UringReadQueue>(options);
}

}  // namespace ft::io
