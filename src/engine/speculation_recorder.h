// Counts what rounds drafted and accepted, in the words of docs/cli.md.
#pragma once

#include "foretoken/request.h"

#include <cstddef>
#include <string_view>

namespace ft::engine {

class SpeculationRecorder {
 public:
  void add_source(std::string_view name);
  /// One round. `source` is empty if no source was asked.
  void add_round(std::string_view source, std::size_t n_drafted, std::size_t n_accepted);
  /// The counts so far; n_completion tokens came out of them. Before the prefill is done there is
  /// no forward.
  foretoken::SpeculationStatistics summary(std::size_t n_completion) const;

 private:
  foretoken::SpeculationStatistics counts_;
};

}  // namespace ft::engine
