// Which copy of the experts' files the next read goes to: the one that would finish it first, by
// the speed each has shown; a copy that fails again and again gets a rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ft::experts {

inline constexpr std::size_t kNoMirror = ~std::size_t{0};

/// Thread-safe. Times are of one clock, in microseconds.
class MirrorShares {
 public:
  explicit MirrorShares(std::size_t n_mirrors) : mirrors_(n_mirrors) {}

  /// The mirror to read `n_bytes` from, which count as under way until finished(). `avoid`: the one
  /// that just failed, taken only if it is the only one; or kNoMirror.
  std::size_t choose(std::uint64_t n_bytes, std::int64_t now_us, std::size_t avoid);
  /// A read has ended: of `n_bytes` told to choose(), `n_read` were asked of the drive.
  void finished(std::size_t mirror,
                std::uint64_t n_bytes,
                std::uint64_t n_read,
                std::int64_t now_us);
  /// `is_good`: all bytes came and are what they should be.
  void judged(std::size_t mirror, bool is_good, std::int64_t now_us);

 private:
  struct Mirror {
    std::uint64_t bytes_under_way = 0;
    std::int64_t busy_since_us = 0;  // or the last end of a read since
    // Sums over reads, older ones counting less: bytes, and the time with a read under way.
    double bytes = 0;
    double busy_us = 0;
    std::size_t n_failures = 0;  // since the last good read
    std::int64_t rests_until_us = 0;
  };
  double bytes_per_us(const Mirror& mirror) const noexcept;

  std::mutex mutex_;
  std::vector<Mirror> mirrors_;
};

}  // namespace ft::experts
