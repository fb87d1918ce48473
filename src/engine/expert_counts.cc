#include "engine/expert_counts.h"

namespace ft::engine {
namespace {

foretoken::ExpertTierStatistics tier_between(const experts::TierStats& start,
                                             const experts::TierStats& end) {
  return {.hits = end.hits - start.hits,
          .misses = end.misses - start.misses,
          .bytes_read = end.bytes_read - start.bytes_read,
          .evictions = end.evictions - start.evictions,
          .reads_ahead = end.reads_ahead - start.reads_ahead,
          .used_ahead = end.used_ahead - start.used_ahead,
          .dropped_ahead = end.dropped_ahead - start.dropped_ahead,
          .from_page_cache = end.from_page_cache - start.from_page_cache,
          .failed_reads = end.failed_reads - start.failed_reads,
          .n_slots = end.n_slots,
          .slot_bytes = end.slot_bytes};
}

double milliseconds(std::int64_t microseconds) {
  return static_cast<double>(microseconds) / 1000;
}

}  // namespace

foretoken::ExpertStatistics experts_between(const experts::ExpertStats& start,
                                            const experts::ExpertStats& end) {
  foretoken::ExpertStatistics out;
  if (!end.is_streaming) return out;
  out.mode = "stream";
  out.trunk = tier_between(start.trunk, end.trunk);
  out.draft = tier_between(start.draft, end.draft);
  out.hits = out.trunk.hits + out.draft.hits;
  out.misses = out.trunk.misses + out.draft.misses;
  const std::uint64_t n_asked = out.hits + out.misses;
  if (n_asked > 0) out.hit_rate = static_cast<double>(out.hits) / static_cast<double>(n_asked);
  out.bytes_read = out.trunk.bytes_read + out.draft.bytes_read;
  out.stall_ms = milliseconds(end.stall_us - start.stall_us);
  const experts::LatencyHistogram latencies = end.read_latencies.since(start.read_latencies);
  out.read_p50_ms = milliseconds(latencies.percentile(0.5));
  out.read_p90_ms = milliseconds(latencies.percentile(0.9));
  out.read_p99_ms = milliseconds(latencies.percentile(0.99));
  return out;
}

}  // namespace ft::engine
