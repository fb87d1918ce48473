#include "experts/mirror_shares.h"

#include <algorithm>

namespace ft::experts {
namespace {

// A read counts half after about 22 more: follows a drive that throttles, forgives one hiccup.
constexpr double kKept = 0.97;
constexpr std::size_t kFailuresToRest = 3;
constexpr std::int64_t kRestUs = 30'000'000;

}  // namespace

double MirrorShares::bytes_per_us(const Mirror& mirror) const noexcept {
  if (mirror.busy_us > 0) return mirror.bytes / mirror.busy_us;
  // Unknown: as fast as the fastest, so that it is tried.
  double fastest = 0;
  for (const Mirror& other : mirrors_) {
    if (other.busy_us > 0) fastest = std::max(fastest, other.bytes / other.busy_us);
  }
  return fastest > 0 ? fastest : 1;
}

std::size_t MirrorShares::choose(std::uint64_t n_bytes, std::int64_t now_us, std::size_t avoid) {
  const std::scoped_lock lock(mutex_);
  // Not avoided before avoided, awake before resting, then by the expected end.
  const auto rank = [&](std::size_t i) {
    return (i == avoid ? 2 : 0) + (now_us < mirrors_[i].rests_until_us ? 1 : 0);
  };
  const auto wait_us = [&](std::size_t i) {
    return static_cast<double>(mirrors_[i].bytes_under_way + n_bytes) / bytes_per_us(mirrors_[i]);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < mirrors_.size(); ++i) {
    if (rank(i) != rank(best) ? rank(i) < rank(best) : wait_us(i) < wait_us(best)) best = i;
  }
  if (mirrors_[best].bytes_under_way == 0) mirrors_[best].busy_since_us = now_us;
  mirrors_[best].bytes_under_way += n_bytes;
  return best;
}

void MirrorShares::finished(std::size_t mirror,
                            std::uint64_t n_bytes,
                            std::uint64_t n_read,
                            std::int64_t now_us) {
  const std::scoped_lock lock(mutex_);
  Mirror& m = mirrors_[mirror];
  m.bytes = m.bytes * kKept + static_cast<double>(n_read);
  m.busy_us = m.busy_us * kKept + static_cast<double>(now_us - m.busy_since_us);
  m.busy_since_us = now_us;
  m.bytes_under_way -= n_bytes;
}

void MirrorShares::judged(std::size_t mirror, bool is_good, std::int64_t now_us) {
  const std::scoped_lock lock(mutex_);
  Mirror& m = mirrors_[mirror];
  m.n_failures = is_good ? 0 : m.n_failures + 1;
  if (m.n_failures >= kFailuresToRest) m.rests_until_us = now_us + kRestUs;
}

}  // namespace ft::experts
