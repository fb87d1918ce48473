// Counts what rounds drafted and accepted, in the words of docs/cli.md.
#pragma once

#include "foretoken/result.h"

#include <cstddef>
#include <span>
#include <string_view>

namespace ft::engine {

class SpeculationRecorder {
 public:
  struct Part {
    std::string_view source;
    std::size_t n_drafted = 0;
  };

  void add_source(std::string_view name);
  /// One round; parts: by source that was asked, in the order of the window.
  void add_round(std::span<const Part> parts, std::size_t n_accepted);
  /// The counts so far; n_completion tokens came out of them. Before the prefill is done there is
  /// no forward.
  foretoken::SpeculationStatistics summary(std::size_t n_completion) const;

 private:
  foretoken::SpeculationStatistics counts_;
};

}  // namespace ft::engine
