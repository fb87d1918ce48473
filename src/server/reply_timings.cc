#include "server/reply_timings.h"

#include <cstddef>
#include <cstdint>

namespace ft::server {

void write_timings(json::Writer& out, const foretoken::Completion& completion) {
  const foretoken::Timings& timings = completion.timings;
  const auto per_token = [](double ms, std::size_t n) {
    return n == 0 ? 0.0 : ms / static_cast<double>(n);
  };
  out.begin_object();
  out.member("cache_n", static_cast<std::uint64_t>(completion.usage.cached_tokens));
  out.member("prompt_n", static_cast<std::uint64_t>(timings.prompt_n))
      .member("prompt_ms", timings.prompt_ms);
  out.member("prompt_per_token_ms", per_token(timings.prompt_ms, timings.prompt_n));
  out.member("prompt_per_second", timings.prompt_per_second);
  out.member("predicted_n", static_cast<std::uint64_t>(timings.predicted_n));
  out.member("predicted_ms", timings.predicted_ms);
  out.member("predicted_per_token_ms", per_token(timings.predicted_ms, timings.predicted_n));
  out.member("predicted_per_second", timings.predicted_per_second);
  out.member("time_to_first_token_ms", timings.time_to_first_token_ms);
  out.member("draft_n", static_cast<std::uint64_t>(completion.speculation.drafted));
  out.member("draft_n_accepted", static_cast<std::uint64_t>(completion.speculation.accepted));
  out.end_object();
}

void write_stop_reason(json::Writer& out, const foretoken::Completion& completion) {
  if (completion.finish_reason == foretoken::FinishReason::kTimeout) {
    out.value("timeout");
  } else if (completion.stop) {
    out.value(*completion.stop);
  } else {
    out.null();
  }
}

}  // namespace ft::server
