// The read queue on io_uring. The only code that includes liburing is its .cc.
#pragma once

#include "io/read_queue.h"

#include <memory>

namespace ft::io {

/// Throws IoError if the kernel refuses io_uring, as many containers have it.
std::unique_ptr<ReadQueue> make_uring_read_queue(const ReadQueueOptions& options);

}  // namespace ft::io
