#include "io/thread_read_queue.h"

#include "base/error.h"
#include "io/read_pieces.h"

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace ft::io {
namespace {

/// One thread per piece at the drive. The lock is never held across a read.
class ThreadReadQueue final : public ReadQueue {
 public:
  explicit ThreadReadQueue(const ReadQueueOptions& options) : pieces_(options.piece_bytes) {
    readers_.reserve(options.depth);
    try {
      for (std::size_t i = 0; i < options.depth; ++i) {
        readers_.emplace_back([this] { read_pieces(); });
      }
    } catch (const std::system_error& error) {
      const std::size_t n_started = readers_.size();
      stop();
      throw ResourceExhausted(
          fmt::format("cannot start thread {} of {} that read: {}; raise the limit on threads",
                      n_started + 1,
                      options.depth,
                      error.what()));
    }
  }
  ~ThreadReadQueue() override { stop(); }
  ThreadReadQueue(const ThreadReadQueue&) = delete;
  ThreadReadQueue& operator=(const ThreadReadQueue&) = delete;
  ThreadReadQueue(ThreadReadQueue&&) = delete;
  ThreadReadQueue& operator=(ThreadReadQueue&&) = delete;

  std::string_view name() const noexcept override { return "threads"; }

  void submit(std::span<const ReadRequest> requests) override {
    {
      const std::lock_guard lock(mutex_);
      for (const ReadRequest& request : requests) pieces_.add(request);
    }
    piece_waits_.notify_all();
  }

  void promote(std::uint64_t tag) noexcept override {
    const std::lock_guard lock(mutex_);
    pieces_.promote(tag);
  }

  void drop(std::uint64_t tag) noexcept override {
    const std::lock_guard lock(mutex_);
    pieces_.drop(tag);
  }

  void wait(std::vector<ReadResult>& finished) override {
    std::unique_lock lock(mutex_);
    finished_or_woken_.wait(lock, [&] { return pieces_.has_finished() || is_woken_; });
    is_woken_ = false;
    pieces_.take_finished(finished);
  }

  void wake() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      is_woken_ = true;
    }
    finished_or_woken_.notify_one();
  }

 private:
  void read_pieces() {
    std::unique_lock lock(mutex_);
    while (true) {
      piece_waits_.wait(lock, [&] { return is_stopping_ || pieces_.has_waiting(); });
      ReadPieces::Piece piece;
      if (is_stopping_ || !pieces_.next(piece)) return;
      bool is_over = false;
      while (!is_over) {
        lock.unlock();
        const ssize_t n = ::pread(piece.descriptor(),
                                  piece.destination(),
                                  piece.size(),
                                  static_cast<off_t>(piece.offset()));
        const std::int64_t answer = n < 0 ? -std::int64_t{errno} : std::int64_t{n};
        lock.lock();
        is_over = !pieces_.advance(piece, answer);
      }
      if (pieces_.has_finished()) finished_or_woken_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    piece_waits_.notify_all();
    for (std::thread& reader : readers_) reader.join();
    readers_.clear();
  }

  std::mutex mutex_;  // guards all below but readers_
  std::condition_variable piece_waits_;
  std::condition_variable finished_or_woken_;
  ReadPieces pieces_;
  bool is_woken_ = false;
  bool is_stopping_ = false;
  std::vector<std::thread> readers_;
};

}  // namespace

std::unique_ptr<ReadQueue> make_thread_read_queue(const ReadQueueOptions& options) {
  return std::make_unique<ThreadReadQueue>(options);
}

}  // namespace ft::io
