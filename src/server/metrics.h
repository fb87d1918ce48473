// What /metrics tells, in the text format of Prometheus.
#pragma once

#include "foretoken/result.h"
#include "server/http_types.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::server {

/// Counts of values up to each of some bounds.
class Histogram {
 public:
  /// Ascending; they must outlive this object.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  void add(double value);
  /// Lines of the text format.
  void write(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // the last: of larger values
  double sum_ = 0;
};

/// How long a generation waited before its prompt was begun.
double queue_ms(const foretoken::Timings& timings) noexcept;

/// How a generation stood when it ended.
struct GenerationEnd {
  bool was_started = false;
  bool is_complete = false;     // else it failed
  std::size_t n_positions = 0;  // that it held
};

/// Thread-safe.
class Metrics {
 public:
  explicit Metrics(std::string model) : model_(std::move(model)) {}

  // Of a generation, in this order.
  void on_submitted();
  void on_started(std::size_t n_prompt);
  void on_first_token(double seconds_since_submitted);
  /// The tokens of one event, and the time since the event before.
  void on_tokens(std::size_t n, double seconds);
  /// Not of one that failed.
  void on_completion(const foretoken::Completion& completion);
  void on_ended(const GenerationEnd& end) noexcept;

  /// Of a request that is over.
  void on_reply(const ReplyFacts& facts);
  /// kv_capacity: positions that memory is planned for, of all sessions together.
  std::string text(std::size_t n_connections, std::size_t kv_capacity) const;

 private:
  struct Tier {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t bytes_read = 0;
    std::uint64_t n_slots = 0;  // at the end of the last generation
  };
  static const std::array<double, 14> kSeconds;
  static const std::array<double, 20> kTokens;

  static void count(Tier& tier, const foretoken::ExpertTierStatistics& statistics);
  void count(const foretoken::SpeculationStatistics& speculation);
  void count_times(const foretoken::Completion& completion);
  void write_load(std::string& out, std::size_t n_connections, std::size_t kv_capacity) const;
  void write_requests(std::string& out) const;
  void write_speculation(std::string& out) const;
  void write_experts(std::string& out) const;
  void write_memory(std::string& out) const;
  void write_histograms(std::string& out) const;
  std::string model_label() const;

  mutable std::mutex mutex_;
  const std::string model_;
  std::uint64_t n_waiting_ = 0;
  std::uint64_t n_running_ = 0;
  std::uint64_t n_positions_ = 0;
  std::uint64_t n_prompt_tokens_ = 0;
  std::uint64_t n_cached_tokens_ = 0;
  std::uint64_t n_generated_tokens_ = 0;
  std::uint64_t n_drafts_ = 0;
  std::uint64_t n_draft_tokens_ = 0;
  std::uint64_t n_accepted_tokens_ = 0;
  std::vector<std::uint64_t> accepted_per_position_;
  std::map<std::string, foretoken::SourceStatistics> sources_;
  Tier trunk_;
  Tier draft_;
  double stall_seconds_ = 0;
  foretoken::MemoryUse memory_;  // of the last generation
  // vLLM's reasons are there from the start, so that rates of them have a beginning.
  std::map<std::string, std::uint64_t> finished_ = {{"stop", 0}, {"length", 0}, {"cancelled", 0}};
  std::uint64_t n_failed_ = 0;  // a reason like those
  std::map<int, std::uint64_t> responses_;
  std::uint64_t n_clients_gone_ = 0;
  Histogram first_token_{kSeconds};
  Histogram inter_token_{kSeconds};
  Histogram queue_{kSeconds};
  Histogram prefill_{kSeconds};
  Histogram decode_{kSeconds};
  Histogram whole_{kSeconds};
  Histogram prompt_tokens_{kTokens};
  Histogram generated_tokens_{kTokens};
};

}  // namespace ft::server
