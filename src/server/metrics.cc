#include "server/metrics.h"

#include <algorithm>

#include <fmt/format.h>

namespace ft::server {
namespace {

void describe(std::string& out,
              std::string_view name,
              std::string_view type,
              std::string_view help) {
  out += fmt::format("# HELP foretoken:{} {}\n# TYPE foretoken:{} {}\n", name, help, name, type);
}

template <typename Number>
void sample(std::string& out, std::string_view name, std::string_view labels, Number value) {
  out += fmt::format("foretoken:{}{{{}}} {}\n", name, labels, value);
}

/// A family of one sample.
template <typename Number>
void one(std::string& out,
         std::string_view name,
         std::string_view type,
         std::string_view help,
         std::string_view labels,
         Number value) {
  describe(out, name, type, help);
  sample(out, name, labels, value);
}

// A label's value: the format knows three escapes; other control characters have no place in it.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

}  // namespace

const std::array<double, 14> Metrics::kSeconds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600};
const std::array<double, 20> Metrics::kTokens = {
    1,     2,     5,      10,     20,     50,      100,     200,     500,       1'000,
    2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000};

void Histogram::add(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name, std::string_view labels) const {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    n += counts_[i];
    out += fmt::format("foretoken:{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], n);
  }
  n += counts_.back();
  out += fmt::format("foretoken:{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, n);
  out += fmt::format("foretoken:{}_sum{{{}}} {}\n", name, labels, sum_);
  out += fmt::format("foretoken:{}_count{{{}}} {}\n", name, labels, n);
}

double queue_ms(const foretoken::Timings& timings) noexcept {
  return std::max(0.0, timings.time_to_first_token_ms - timings.prompt_ms);
}

void Metrics::on_submitted() {
  const std::lock_guard lock(mutex_);
  ++n_waiting_;
}

void Metrics::on_started(std::size_t n_prompt) {
  const std::lock_guard lock(mutex_);
  --n_waiting_;
  ++n_running_;
  n_positions_ += n_prompt;
}

void Metrics::on_first_token(double seconds_since_submitted) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds_since_submitted);
}

void Metrics::on_tokens(std::size_t n, double seconds) {
  const std::lock_guard lock(mutex_);
  n_generated_tokens_ += n;
  n_positions_ += n;
  if (seconds < 0 || n == 0) return;  // the first event has none before it
  for (std::size_t i = 0; i < n; ++i) inter_token_.add(seconds / static_cast<double>(n));
}

void Metrics::on_completion(const foretoken::Completion& completion) {
  const std::lock_guard lock(mutex_);
  ++finished_[std::string(foretoken::to_string(completion.finish_reason))];
  n_prompt_tokens_ += completion.usage.prompt_tokens;
  n_cached_tokens_ += completion.usage.cached_tokens;
  count(completion.speculation);
  count(trunk_, completion.experts.trunk);
  count(draft_, completion.experts.draft);
  stall_seconds_ += completion.experts.stall_ms * 1e-3;
  memory_ = completion.memory;
  count_times(completion);
}

void Metrics::on_ended(const GenerationEnd& end) noexcept {
  const std::lock_guard lock(mutex_);
  --(end.was_started ? n_running_ : n_waiting_);
  if (end.was_started) n_positions_ -= end.n_positions;
  if (!end.is_complete) ++n_failed_;
}

void Metrics::count(Tier& tier, const foretoken::ExpertTierStatistics& statistics) {
  tier.hits += statistics.hits;
  tier.misses += statistics.misses;
  tier.bytes_read += statistics.bytes_read;
  tier.n_slots = statistics.n_slots;
}

void Metrics::count(const foretoken::SpeculationStatistics& speculation) {
  n_draft_tokens_ += speculation.drafted;
  n_accepted_tokens_ += speculation.accepted;
  if (!speculation.drafted_per_position.empty()) n_drafts_ += speculation.drafted_per_position[0];
  const auto& accepted = speculation.accepted_per_position;
  if (accepted.size() > accepted_per_position_.size())
    accepted_per_position_.resize(accepted.size());
  for (std::size_t i = 0; i < accepted.size(); ++i) accepted_per_position_[i] += accepted[i];
  for (const auto& [source, statistics] : speculation.by_source) {
    sources_[source].drafted += statistics.drafted;
    sources_[source].accepted += statistics.accepted;
  }
}

void Metrics::count_times(const foretoken::Completion& completion) {
  if (completion.usage.completion_tokens == 0) return;  // cancelled before its first token
  const foretoken::Timings& timings = completion.timings;
  queue_.add(queue_ms(timings) * 1e-3);
  prefill_.add(timings.prompt_ms * 1e-3);
  decode_.add(timings.predicted_ms * 1e-3);
  whole_.add((timings.time_to_first_token_ms + timings.predicted_ms) * 1e-3);
  prompt_tokens_.add(static_cast<double>(completion.usage.prompt_tokens));
  generated_tokens_.add(static_cast<double>(completion.usage.completion_tokens));
}

void Metrics::on_reply(const ReplyFacts& facts) {
  const std::lock_guard lock(mutex_);
  if (facts.status != 0) ++responses_[facts.status];
  if (facts.is_client_gone) ++n_clients_gone_;
}

std::string Metrics::model_label() const {
  return fmt::format("model_name=\"{}\"", escaped(model_));
}

std::string Metrics::text(std::size_t n_connections, std::size_t kv_capacity) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  write_load(out, n_connections, kv_capacity);
  write_requests(out);
  write_speculation(out);
  write_experts(out);
  write_memory(out);
  write_histograms(out);
  return out;
}

void Metrics::write_load(std::string& out,
                         std::size_t n_connections,
                         std::size_t kv_capacity) const {
  const std::string model = model_label();
  // A generation counts until its reply was written: the next one may have its place by then.
  const double share = std::min(1.0,
                                static_cast<double>(n_positions_) /
                                    static_cast<double>(std::max<std::size_t>(kv_capacity, 1)));
  one(out, "num_requests_running", "gauge", "Generations being computed.", model, n_running_);
  one(out, "num_requests_waiting", "gauge", "Generations in the queue.", model, n_waiting_);
  one(out, "http_connections", "gauge", "Open connections.", model, n_connections);
  one(out,
      "kv_cache_positions",
      "gauge",
      "Positions that running generations hold.",
      model,
      n_positions_);
  one(out,
      "kv_cache_usage_perc",
      "gauge",
      "Positions held, by those that memory is planned for.",
      model,
      share);
}

void Metrics::write_requests(std::string& out) const {
  const std::string model = model_label();
  one(out,
      "prompt_tokens_total",
      "counter",
      "Prompt tokens of finished generations.",
      model,
      n_prompt_tokens_);
  one(out,
      "prefix_cache_queries_total",
      "counter",
      "Prompt tokens that were looked for in caches.",
      model,
      n_prompt_tokens_);
  one(out,
      "prefix_cache_hits_total",
      "counter",
      "Of them, those that needed no forward.",
      model,
      n_cached_tokens_);
  one(out, "generation_tokens_total", "counter", "Tokens generated.", model, n_generated_tokens_);
  describe(out, "request_success_total", "counter", "Generations by how they ended.");
  const auto by_reason = [&](std::string_view reason, std::uint64_t n) {
    sample(
        out, "request_success_total", fmt::format("{},finished_reason=\"{}\"", model, reason), n);
  };
  for (const auto& [reason, n] : finished_) by_reason(reason, n);
  by_reason("error", n_failed_);
  describe(out, "http_responses_total", "counter", "Responses by the status that was sent.");
  for (const auto& [status, n] : responses_) {
    sample(out, "http_responses_total", fmt::format("status=\"{}\"", status), n);
  }
  one(out,
      "http_clients_gone_total",
      "counter",
      "Clients that left before all of their reply was sent.",
      model,
      n_clients_gone_);
}

void Metrics::write_speculation(std::string& out) const {
  const std::string model = model_label();
  one(out, "spec_decode_num_drafts_total", "counter", "Rounds with a draft.", model, n_drafts_);
  one(out,
      "spec_decode_num_draft_tokens_total",
      "counter",
      "Tokens drafted.",
      model,
      n_draft_tokens_);
  one(out,
      "spec_decode_num_accepted_tokens_total",
      "counter",
      "Drafted tokens accepted.",
      model,
      n_accepted_tokens_);
  constexpr std::string_view kPerPosition = "spec_decode_num_accepted_tokens_per_pos_total";
  describe(out, kPerPosition, "counter", "Accepted drafts by position.");
  for (std::size_t i = 0; i < accepted_per_position_.size(); ++i) {
    sample(
        out, kPerPosition, fmt::format("{},position=\"{}\"", model, i), accepted_per_position_[i]);
  }
  const auto by_source = [&](std::string_view name, std::string_view help, auto member) {
    describe(out, name, "counter", help);
    for (const auto& [source, statistics] : sources_) {
      sample(
          out, name, fmt::format("{},source=\"{}\"", model, escaped(source)), statistics.*member);
    }
  };
  by_source("spec_decode_num_draft_tokens_per_source_total",
            "Tokens drafted by source.",
            &foretoken::SourceStatistics::drafted);
  by_source("spec_decode_num_accepted_tokens_per_source_total",
            "Drafted tokens accepted by source.",
            &foretoken::SourceStatistics::accepted);
}

void Metrics::write_experts(std::string& out) const {
  const std::string model = model_label();
  const auto by_tier =
      [&](std::string_view name, std::string_view type, std::string_view help, auto member) {
        describe(out, name, type, help);
        sample(out, name, model + ",tier=\"trunk\"", trunk_.*member);
        sample(out, name, model + ",tier=\"draft\"", draft_.*member);
      };
  by_tier("expert_hits_total", "counter", "Experts that were in memory.", &Tier::hits);
  by_tier("expert_misses_total", "counter", "Experts that were not.", &Tier::misses);
  by_tier("expert_bytes_read_total",
          "counter",
          "Bytes of experts read from the drive.",
          &Tier::bytes_read);
  by_tier("expert_slots", "gauge", "Experts that memory has room for.", &Tier::n_slots);
  one(out,
      "expert_stall_seconds_total",
      "counter",
      "Time that computing waited for experts.",
      model,
      stall_seconds_);
}

void Metrics::write_memory(std::string& out) const {
  const std::string model = model_label();
  const auto gauge = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    one(out, name, "gauge", help, model, value);
  };
  gauge("memory_budget_bytes", "Bound on anonymous memory; 0: none.", memory_.budget_bytes);
  gauge("memory_peak_anonymous_bytes", "Most of it in use so far.", memory_.peak_anonymous_bytes);
  gauge("kv_cache_bytes", "Caches of the model.", memory_.kv_bytes);
  gauge("draft_kv_cache_bytes", "Caches of its draft head.", memory_.draft_kv_bytes);
  gauge("expert_cache_bytes", "Slots of experts.", memory_.expert_cache_bytes);
}

void Metrics::write_histograms(std::string& out) const {
  const std::string model = model_label();
  const auto write = [&](std::string_view name, std::string_view help, const Histogram& values) {
    describe(out, name, "histogram", help);
    values.write(out, name, model);
  };
  write("time_to_first_token_seconds", "From submission, queue included.", first_token_);
  write("inter_token_latency_seconds", "Tokens of one round share its time.", inter_token_);
  write("e2e_request_latency_seconds", "From submission to the last token.", whole_);
  write("request_queue_time_seconds", "Before the prompt was begun.", queue_);
  write("request_prefill_time_seconds", "From there to the first token.", prefill_);
  write("request_decode_time_seconds", "From the first token to the last.", decode_);
  write("request_prompt_tokens", "Prompt tokens by generation.", prompt_tokens_);
  write("request_generation_tokens", "Tokens generated by generation.", generated_tokens_);
}

}  // namespace ft::server
