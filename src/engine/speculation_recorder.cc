#include "engine/speculation_recorder.h"

#include <algorithm>
#include <string>
#include <vector>

namespace ft::engine {
namespace {

void count_positions(std::vector<std::size_t>& positions, std::size_t n) {
  if (positions.size() < n) positions.resize(n);
  for (std::size_t i = 0; i < n; ++i) ++positions[i];
}

}  // namespace

void SpeculationRecorder::add_source(std::string_view name) {
  counts_.sources.emplace_back(name);
  counts_.by_source[std::string(name)];
}

void SpeculationRecorder::add_round(std::span<const Part> parts, std::size_t n_accepted) {
  std::size_t n_drafted = 0;
  for (const Part& part : parts) {
    if (part.n_drafted == 0) continue;
    auto& by_source = counts_.by_source[std::string(part.source)];
    by_source.drafted += part.n_drafted;
    by_source.accepted += std::min(n_accepted - std::min(n_accepted, n_drafted), part.n_drafted);
    n_drafted += part.n_drafted;
  }
  ++counts_.rounds;
  counts_.drafted += n_drafted;
  counts_.accepted += n_accepted;
  counts_.acceptance_lengths.push_back(n_accepted);
  count_positions(counts_.drafted_per_position, n_drafted);
  count_positions(counts_.accepted_per_position, n_accepted);
  // Every drafted position has an entry in both lists.
  counts_.accepted_per_position.resize(counts_.drafted_per_position.size());
}

foretoken::SpeculationStatistics SpeculationRecorder::summary(std::size_t n_completion) const {
  foretoken::SpeculationStatistics out = counts_;
  out.forwards = n_completion == 0 ? 0 : out.rounds + 1;
  if (out.forwards > 0) {
    out.tokens_per_forward = static_cast<double>(n_completion) / static_cast<double>(out.forwards);
    out.forwards_saved = n_completion - std::min(n_completion, out.forwards);
  }
  return out;
}

}  // namespace ft::engine
