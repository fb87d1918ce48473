// How fast a drive gives cold extents: for predictions.
#pragma once

#include "io/read_queue.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ft::io {

struct ProbeExtent {
  const BulkFile* file = nullptr;
  std::uint64_t offset = 0;  // multiples of kBulkAlignment
  std::uint64_t size_bytes = 0;
};

struct ProbeOptions {
  std::uint64_t most_bytes = std::uint64_t{512} << 20;
  double most_seconds = 1;
  std::uint64_t least_bytes = std::uint64_t{64} << 20;  // less tells nothing
  std::uint64_t seed = 1;
  ReadQueueOptions queue;
};

struct DriveRate {
  double bytes_per_s = 0;
  std::uint64_t n_bytes = 0;  // read to find it
  double seconds = 0;
};

/// Reads parts of the extents in random order as experts are read, until one of the limits. Files
/// without direct reads are probed where the page cache holds nothing of them. Absent if fewer than
/// least_bytes are cold or could be read in time. Takes 2 · depth pieces of memory. Throws IoError
/// if a read fails.
std::optional<DriveRate> probe_drive(std::span<const ProbeExtent> extents,
                                     const ProbeOptions& options);

}  // namespace ft::io
