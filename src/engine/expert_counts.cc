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
          .reads_hinted = end.reads_hinted - start.reads_hinted,
          .used_hinted = end.used_hinted - start.used_hinted,
          .dropped_ahead = end.dropped_ahead - start.dropped_ahead,
          .from_page_cache = end.from_page_cache - start.from_page_cache,
          .failed_reads = end.failed_reads - start.failed_reads,
          .n_slots = end.n_slots,
          .slot_bytes = end.slot_bytes};
}

double milliseconds(std::int64_t microseconds) {
  return static_cast<double>(microseconds) / 1000;
}

void write_tier(json::Writer& out, const foretoken::ExpertTierStatistics& tier) {
  const double precision = tier.reads_ahead == 0 ? 0
                                                 : static_cast<double>(tier.used_ahead) /
                                                       static_cast<double>(tier.reads_ahead);
  out.begin_object();
  out.member("hits", tier.hits).member("misses", tier.misses);
  out.member("bytes_read", tier.bytes_read).member("evictions", tier.evictions);
  out.member("reads_ahead", tier.reads_ahead).member("used_ahead", tier.used_ahead);
  out.member("precision", precision);
  out.member("reads_hinted", tier.reads_hinted).member("used_hinted", tier.used_hinted);
  out.member("dropped_ahead", tier.dropped_ahead);
  out.member("from_page_cache", tier.from_page_cache);
  out.member("failed_reads", tier.failed_reads);
  out.member("n_slots", tier.n_slots).member("slot_bytes", tier.slot_bytes);
  out.end_object();
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

void write_experts(json::Writer& out, const foretoken::ExpertStatistics& experts) {
  out.begin_object();
  out.member("mode", experts.mode);
  out.member("hits", experts.hits).member("misses", experts.misses);
  out.member("hit_rate", experts.hit_rate).member("bytes_read", experts.bytes_read);
  out.member("stall_ms", experts.stall_ms);
  out.member("read_p50_ms", experts.read_p50_ms);
  out.member("read_p90_ms", experts.read_p90_ms);
  out.member("read_p99_ms", experts.read_p99_ms);
  write_tier(out.key("trunk"), experts.trunk);
  write_tier(out.key("draft"), experts.draft);
  out.end_object();
}

}  // namespace ft::engine
