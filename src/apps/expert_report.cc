#include "apps/expert_report.h"

#include "apps/sizes.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace ft::apps {
namespace {

// Waiting for the drive less than this is not worth a change.
constexpr double kSmallStall = 0.1;
// Below this a guess wastes more than it hides.
constexpr double kLeastPrecision = 0.5;

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string_view verdict(const foretoken::ExpertStatistics& experts, double stall) {
  const std::uint64_t ahead = experts.trunk.reads_ahead + experts.draft.reads_ahead;
  const std::uint64_t used = experts.trunk.used_ahead + experts.draft.used_ahead;
  if (experts.trunk.failed_reads + experts.draft.failed_reads > 0) {
    return "reads failed and were repeated: check the drive and the copy (inspect --verify)";
  }
  if (stall < kSmallStall) return "computing is the bound: more memory would help little";
  if (ahead > 0 && share(used, ahead) < kLeastPrecision) {
    return "most reads ahead were in vain: try --lookahead off";
  }
  if (experts.trunk.evictions + experts.draft.evictions == 0) {
    return "only first reads: it will be faster from now on";
  }
  return "the drive is the bound: raise --ram-budget, or add a copy on another drive (--mirror)";
}

}  // namespace

double read_bytes_per_s(const foretoken::ExpertStatistics& experts, double wall_ms) {
  return wall_ms > 0 ? static_cast<double>(experts.bytes_read) * 1000 / wall_ms : 0;
}

double stall_share(const foretoken::ExpertStatistics& experts, double wall_ms) {
  return wall_ms > 0 ? std::min(experts.stall_ms / wall_ms, 1.0) : 0;
}

std::string experts_text(const foretoken::ExpertStatistics& experts, double wall_ms) {
  if (experts.mode != "stream") return {};
  if (!(wall_ms > 0)) {  // cancelled before the first token: there is nothing to judge by
    return fmt::format("experts: {} read into {} + {} slots\n",
                       format_size(experts.bytes_read),
                       experts.trunk.n_slots,
                       experts.draft.n_slots);
  }
  const double stall = stall_share(experts, wall_ms);
  return fmt::format(
      "experts: {:.1f} % hits with {} + {} slots; {} read, {}/s, half within {:.1f} ms; waited "
      "{:.0f} % of the time; {}\n",
      100 * experts.hit_rate,
      experts.trunk.n_slots,
      experts.draft.n_slots,
      format_size(experts.bytes_read),
      format_size(static_cast<std::uint64_t>(read_bytes_per_s(experts, wall_ms))),
      experts.read_p50_ms,
      100 * stall,
      verdict(experts, stall));
}

}  // namespace ft::apps
