#include "engine/round_tracer.h"

#include "engine/expert_counts.h"

namespace ft::engine {
namespace {

// A look at the process takes as long as a tenth of a small model's round.
constexpr std::int64_t kLookPauseUs = 100'000;

}  // namespace

void RoundTracer::after_round(const Session& session, const RoundReport& report) {
  if (!trace_) return;
  const experts::ExpertStats now = core_.expert_stats();
  trace_(trace_line(report,
                    experts_between(before_, now),
                    {.round = n_rounds_,
                     .position = session.tokens().size() - 1 - report.result.n_committed,
                     .token = session.tokens().back()},
                    memory(session, now)));
  ++n_rounds_;
}

TraceMemory RoundTracer::memory(const Session& session, const experts::ExpertStats& experts) {
  const std::int64_t now_us = core_.parts().clock->now_us();
  if (looked_us_ == 0 || now_us - looked_us_ >= kLookPauseUs) {
    anonymous_bytes_ = core_.sample_anonymous_bytes();
    looked_us_ = now_us;
  }
  TraceMemory out;
  out.anonymous_bytes = anonymous_bytes_;
  if (core_.parts().has_budget) out.budget_bytes = core_.parts().memory.budget_bytes;
  out.kv_bytes = session.cache_bytes() + session.draft_cache_bytes();
  for (const experts::TierStats* tier : {&experts.trunk, &experts.draft})
    out.expert_cache_bytes += tier->n_slots * tier->slot_bytes;
  return out;
}

}  // namespace ft::engine
