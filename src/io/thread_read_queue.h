// A read queue of threads that call pread: where io_uring is refused.
#pragma once

#include "io/read_queue.h"

#include <memory>

namespace ft::io {

/// Throws ResourceExhausted if its threads are refused.
std::unique_ptr<ReadQueue> make_thread_read_queue(const ReadQueueOptions& options);

}  // namespace ft::io
