#include "io/read_queue.h"

#include "base/error.h"
#include "io/thread_read_queue.h"
#include "io/uring_read_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/uio.h>
#include <system_error>
#include <unistd.h>

namespace ft::io {
namespace {

/// Whether a direct read works; a file system may take the flag and refuse every read.
bool can_read_directly(int fd) {
  alignas(kBulkAlignment) std::array<std::byte, kBulkAlignment> block;
  ssize_t n = 0;
  do {
    n = ::pread(fd, block.data(), block.size(), 0);
  } while (n < 0 && errno == EINTR);
  return n >= 0 || errno != EINVAL;
}

void set_status_flags(const File& file, int flags) {
  if (fcntl(file.descriptor(), F_SETFL, flags) == 0) return;
  const int error = errno;
  throw IoError(fmt::format("cannot open {}: {}",
                            in_quotes(file.path().native()),
                            std::generic_category().message(error)));
}

}  // namespace

BulkFile BulkFile::open(const std::filesystem::path& path, bool direct) {
  BulkFile bulk;
  bulk.file_ = File::open(path);
  bulk.buffered_ = File::open(path);
  // This also takes off O_NONBLOCK, with which io_uring would answer "try again" instead of waiting
  // for the drive.
  bulk.is_direct_ = direct && fcntl(bulk.descriptor(), F_SETFL, O_DIRECT) == 0 &&
                    can_read_directly(bulk.descriptor());
  if (!bulk.is_direct_) set_status_flags(bulk.file_, 0);
  return bulk;
}

bool BulkFile::read_if_cached(std::span<std::byte> destination,
                              std::uint64_t offset) const noexcept {
  const iovec part{destination.data(), destination.size()};
  const ssize_t n =
      ::preadv2(buffered_.descriptor(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return n >= 0 && static_cast<std::size_t>(n) == destination.size();
}

std::unique_ptr<ReadQueue> make_read_queue(const ReadQueueOptions& options) {
  FT_CHECK(options.depth > 0);
  switch (options.kind) {
    case ReadQueueOptions::Kind::kAuto:
      try {
        return make_uring_read_queue(options);
      } catch (const IoError&) {
        return make_thread_read_queue(options);  // refused, as many containers have it
      }
    case ReadQueueOptions::Kind::kUring:
      return make_uring_read_queue(options);
    case ReadQueueOptions::Kind::kThreads:
      return make_thread_read_queue(options);
  }
  throw LogicError("no such kind of read queue");
}

}  // namespace ft::io
