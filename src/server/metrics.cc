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

// Label values may hold any text.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

void Histogram::add(double seconds) {
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
  sum_ += seconds;
}

void Histogram::write(std::string& out, std::string_view name, std::string_view labels) const {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    n += counts_[i];
    out += fmt::format("foretoken:{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, kBounds[i], n);
  }
  n += counts_.back();
  out += fmt::format("foretoken:{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, n);
  out += fmt::format("foretoken:{}_sum{{{}}} {}\n", name, labels, sum_);
  out += fmt::format("foretoken:{}_count{{{}}} {}\n", name, labels, n);
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

void Metrics::on_finished(bool was_started,
                          std::size_t n_positions,
                          const foretoken::Completion* completion) {
  const std::lock_guard lock(mutex_);
  --(was_started ? n_running_ : n_waiting_);
  n_positions_ -= n_positions;
  if (completion == nullptr) {
    ++finished_["error"];
    return;
  }
  ++finished_[std::string(foretoken::to_string(completion->finish_reason))];
  n_prompt_tokens_ += completion->usage.prompt_tokens;
  n_cached_tokens_ += completion->usage.cached_tokens;
  const foretoken::SpeculationStatistics& speculation = completion->speculation;
  n_draft_tokens_ += speculation.drafted;
  n_accepted_tokens_ += speculation.accepted;
  if (!speculation.drafted_per_position.empty()) n_drafts_ += speculation.drafted_per_position[0];
  const auto& accepted = speculation.accepted_per_position;
  if (accepted.size() > accepted_per_position_.size())
    accepted_per_position_.resize(accepted.size());
  for (std::size_t i = 0; i < accepted.size(); ++i) accepted_per_position_[i] += accepted[i];
  n_expert_hits_ += completion->experts.hits;
  n_expert_misses_ += completion->experts.misses;
  n_expert_bytes_ += completion->experts.bytes_read;
}

void Metrics::on_response(int status) {
  const std::lock_guard lock(mutex_);
  ++responses_[status];
}

std::string Metrics::text(std::size_t n_connections, std::size_t context) const {
  const std::lock_guard lock(mutex_);
  const std::string model = fmt::format("model_name=\"{}\"", escaped(model_));
  std::string out;
  const auto one =
      [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
        describe(out, name, type, help);
        sample(out, name, model, value);
      };
  one("num_requests_running", "gauge", "Generations being computed.", n_running_);
  one("num_requests_waiting", "gauge", "Generations in the queue.", n_waiting_);
  one("http_connections", "gauge", "Open connections.", n_connections);
  one("kv_cache_positions", "gauge", "Positions that running generations hold.", n_positions_);
  one("kv_cache_usage_perc",
      "gauge",
      "Positions held, by those of one full context.",
      static_cast<double>(n_positions_) / static_cast<double>(std::max<std::size_t>(context, 1)));
  one("prompt_tokens_total", "counter", "Prompt tokens of finished generations.", n_prompt_tokens_);
  one("cached_prompt_tokens_total",
      "counter",
      "Of them, those that needed no forward.",
      n_cached_tokens_);
  one("generation_tokens_total", "counter", "Tokens generated.", n_generated_tokens_);
  one("spec_decode_num_drafts_total", "counter", "Rounds with a draft.", n_drafts_);
  one("spec_decode_num_draft_tokens_total", "counter", "Tokens drafted.", n_draft_tokens_);
  one("spec_decode_num_accepted_tokens_total",
      "counter",
      "Drafted tokens accepted.",
      n_accepted_tokens_);
  describe(out,
           "spec_decode_num_accepted_tokens_per_pos_total",
           "counter",
           "Accepted drafts by position.");
  for (std::size_t i = 0; i < accepted_per_position_.size(); ++i) {
    sample(out,
           "spec_decode_num_accepted_tokens_per_pos_total",
           fmt::format("{},position=\"{}\"", model, i),
           accepted_per_position_[i]);
  }
  one("expert_hits_total", "counter", "Experts that were in memory.", n_expert_hits_);
  one("expert_misses_total", "counter", "Experts that were not.", n_expert_misses_);
  one("expert_bytes_read_total",
      "counter",
      "Bytes of experts read from the drive.",
      n_expert_bytes_);
  describe(out, "request_success_total", "counter", "Generations by how they ended.");
  for (const auto& [reason, n] : finished_) {
    sample(
        out, "request_success_total", fmt::format("{},finished_reason=\"{}\"", model, reason), n);
  }
  describe(out, "http_responses_total", "counter", "Responses by status.");
  for (const auto& [status, n] : responses_) {
    sample(out, "http_responses_total", fmt::format("status=\"{}\"", status), n);
  }
  describe(out, "time_to_first_token_seconds", "histogram", "From submission, queue included.");
  first_token_.write(out, "time_to_first_token_seconds", model);
  describe(out, "inter_token_latency_seconds", "histogram", "Tokens of one round share its time.");
  inter_token_.write(out, "inter_token_latency_seconds", model);
  return out;
}

}  // namespace ft::server
