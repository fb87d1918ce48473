#include "io/drive_probe.h"

#include "base/buffer.h"
#include "base/error.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace ft::io {
namespace {

double now_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// Whether the page cache holds any of the part. A direct read does not look there.
bool is_cached(const ProbeExtent& part) {
  if (part.file->is_direct()) return false;
  const auto size = static_cast<std::size_t>(part.size_bytes);
  void* mapping = mmap(nullptr,
                       size,
                       PROT_READ,
                       MAP_SHARED,
                       part.file->descriptor(),
                       static_cast<off_t>(part.offset));
  if (mapping == MAP_FAILED) return true;
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size + page_bytes - 1) / page_bytes);
  const bool is_known = mincore(mapping, size, pages.data()) == 0;
  munmap(mapping, size);
  return !is_known || std::any_of(pages.begin(), pages.end(), [](auto p) { return (p & 1) != 0; });
}

/// Parts of `part_bytes` in random order, most_bytes of them at most.
std::vector<ProbeExtent> cold_parts(std::span<const ProbeExtent> extents,
                                    std::size_t part_bytes,
                                    const ProbeOptions& options) {
  std::vector<ProbeExtent> parts;
  for (const ProbeExtent& extent : extents) {
    const std::uint64_t end = extent.offset + extent.size_bytes;
    for (std::uint64_t at = extent.offset; at < end; at += part_bytes) {
      const std::uint64_t size = std::min<std::uint64_t>(part_bytes, end - at);
      parts.push_back({.file = extent.file, .offset = at, .size_bytes = size});
    }
  }
  std::mt19937_64 random(options.seed);
  std::shuffle(parts.begin(), parts.end(), random);
  std::vector<ProbeExtent> cold;
  std::uint64_t n_bytes = 0;
  for (const ProbeExtent& part : parts) {
    if (n_bytes >= options.most_bytes) break;
    if (is_cached(part)) continue;
    cold.push_back(part);
    n_bytes += part.size_bytes;
  }
  return cold;
}

std::uint64_t bytes_of(std::span<const ProbeExtent> parts) {
  std::uint64_t n_bytes = 0;
  for (const ProbeExtent& part : parts) n_bytes += part.size_bytes;
  return n_bytes;
}

/// Keeps every slot of `memory` busy with the next part.
DriveRate read_parts(std::span<const ProbeExtent> parts, const ProbeOptions& options) {
  const std::size_t part_bytes = options.queue.piece_bytes;
  const std::size_t n_slots = 2 * options.queue.depth;
  Buffer memory(n_slots * part_bytes);
  const auto slots = memory.as<std::byte>(memory.size());
  std::fill(slots.begin(), slots.end(), std::byte{1});  // the first touch of a page is not timed
  const auto queue = make_read_queue(options.queue);    // goes before the memory
  DriveRate rate;
  const double start = now_s();
  std::size_t next = 0;
  const auto submit_into = [&](std::size_t slot) {
    const ProbeExtent& part = parts[next++];
    const auto size = static_cast<std::size_t>(part.size_bytes);
    const ReadRequest request{.file = part.file,
                              .offset = part.offset,
                              .destination = slots.subspan(slot * part_bytes, size),
                              .tag = slot,
                              .priority = ReadPriority::kDemand};
    queue->submit(std::span(&request, 1));
    rate.n_bytes += part.size_bytes;
  };
  std::size_t n_out = 0;
  for (; n_out < n_slots && next < parts.size(); ++n_out) submit_into(n_out);
  std::vector<ReadResult> finished;
  while (n_out > 0) {
    finished.clear();
    queue->wait(finished);
    for (const ReadResult& result : finished) {
      if (!result.error.empty()) throw IoError(result.error);
      const bool goes_on = next < parts.size() && now_s() - start < options.most_seconds;
      if (goes_on) {
        submit_into(static_cast<std::size_t>(result.tag));
      } else {
        --n_out;
      }
    }
  }
  rate.seconds = now_s() - start;
  if (rate.seconds > 0) rate.bytes_per_s = static_cast<double>(rate.n_bytes) / rate.seconds;
  return rate;
}

}  // namespace

std::optional<DriveRate> probe_drive(std::span<const ProbeExtent> extents,
                                     const ProbeOptions& options) {
  const auto parts = cold_parts(extents, options.queue.piece_bytes, options);
  if (parts.empty() || bytes_of(parts) < options.least_bytes) return std::nullopt;
  const DriveRate rate = read_parts(parts, options);
  if (rate.n_bytes < options.least_bytes) return std::nullopt;
  return rate;
}

}  // namespace ft::io
