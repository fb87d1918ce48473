// What /metrics tells, in the text format of Prometheus.
#pragma once

#include "foretoken/request.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// Counts of durations, in seconds.
class Histogram {
 public:
  static constexpr std::array<double, 14> kBounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600};
  void add(double seconds);
  /// Lines of the text format.
  void write(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::array<std::uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
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
  /// completion: null if it failed.
  void on_finished(bool was_started,
                   std::size_t n_positions,
                   const foretoken::Completion* completion);

  void on_response(int status);
  std::string text(std::size_t n_connections, std::size_t context) const;

 private:
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
  std::uint64_t n_expert_hits_ = 0;
  std::uint64_t n_expert_misses_ = 0;
  std::uint64_t n_expert_bytes_ = 0;
  std::vector<std::uint64_t> accepted_per_position_;
  std::map<std::string, std::uint64_t> finished_;
  std::map<int, std::uint64_t> responses_;
  Histogram first_token_;
  Histogram inter_token_;
};

}  // namespace ft::server
