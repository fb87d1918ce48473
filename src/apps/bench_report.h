// The results of `foretoken bench`, and the four forms they are printed in. docs/cli.md names the
// fields.
#pragma once

#include "apps/machine_watch.h"
#include "foretoken/foretoken.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::apps {

enum class BenchFormat { kMarkdown, kJson, kJsonLines, kCsv };
/// "md", "json", "jsonl", "csv". Throws InvalidInput.
BenchFormat bench_format(std::string_view name);

/// One row of the table. A prompt test feeds n_prompt tokens, a generation test makes n_generated
/// after the first; either starts at `depth`.
struct BenchTest {
  std::size_t n_prompt = 0;
  std::size_t n_generated = 0;
  std::size_t depth = 0;
  std::vector<std::string> speculate = {"none"};
  std::optional<std::size_t> draft_tokens = {};  // unset: the planner's choice

  bool is_prompt() const noexcept { return n_prompt > 0; }
  bool drafts() const { return speculate != std::vector<std::string>{"none"}; }
  /// "pp512", "tg128 @ d1024".
  std::string name() const;
  /// "none", "mtp,ngram", "mtp x3".
  std::string speculation() const;
};

struct BenchResult {
  BenchTest test;
  std::vector<double> tokens_per_second = {};  // one per repetition
  /// Of the repetition with the median speed (the lower one of two).
  foretoken::Completion completion = {};

  std::size_t n_tokens() const noexcept {
    return test.is_prompt() ? test.n_prompt : test.n_generated;
  }
  double median() const;
  double least() const;
  double most() const;
  const foretoken::PhaseWork& work() const;
  double weight_bytes_per_token() const;
};

struct BenchReport {
  MachineReport machine;
  foretoken::ModelInfo model;
  std::string kv_type;
  std::vector<BenchResult> results;

  /// The part of the measured read bandwidth that a result's weights took.
  double bandwidth_share(const BenchResult& result) const;
  std::string text(BenchFormat format) const;
};

}  // namespace ft::apps
