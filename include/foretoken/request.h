// What goes into a generation: plain data, no behaviour. Field names follow docs/cli.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretoken {

/// A vocabulary id.
using Token = std::int32_t;

/// What is left unset comes from the model's generation_config.json (`do_sample: false` means
/// greedy).
struct SamplingOptions {
  std::optional<float> temperature;  // 0: greedy
  std::optional<float> top_p;        // 1: off
  std::optional<std::size_t> top_k;  // 0: off
  float min_p = 0;                   // 0: off
  float repeat_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::pair<Token, float>> logit_bias;
  std::optional<std::uint64_t> seed;  // unset: one is drawn and reported
};

struct GenerationRequest {
  std::vector<Token> prompt;  // at least one id
  std::size_t max_tokens = 256;
  SamplingOptions sampling;
  std::vector<std::string> stop;  // never shown, nor is anything behind them
  bool ignore_eos = false;        // go on past end-of-text tokens
  std::optional<std::size_t>
      logprobs;  // log-probability of each token and of the N best; unset: none
  std::vector<std::string> speculate = {"auto"};  // draft sources; {"none"} is plain decoding
  /// What the output will probably be, for source `prediction`; may be empty. Changes no result.
  std::vector<Token> prediction;
  std::optional<std::size_t>
      draft_tokens;  // fixed draft length 0 ... 64; unset: the planner's choice
  /// "match": the text of plain decoding. "ratio": rejection sampling, which accepts more drafts of
  /// sources that sample; the law of plain decoding, not its text. Reproducible with fixed
  /// draft_tokens; else the planner's choices, and so the text, depend on measured times.
  std::string accept = "match";
  std::size_t prefill_chunk = 0;  // prompt tokens per forward; 0: the engine's
  /// From submit() on, the wait for a session included: then the request ends like a cancelled one,
  /// with kTimeout. At least 1 ms, at most a year; unset: none.
  std::optional<std::chrono::milliseconds> time_limit;
  /// Prompt tokens to feed before the clock of the prefill starts: the timings are those of the
  /// rest, at that depth. Fewer than the prompt has.
  std::size_t n_untimed = 0;
  /// It then has the engine for itself.
  bool measure_work = false;  // Completion::prompt_work and predicted_work, for less than 1 %
  /// Receives one JSON line per round, without newline; may be empty. Called on the engine's
  /// thread.
  std::function<void(std::string_view json_line)> trace;
};

/// A seed as the engine draws one for a request that brings none: below 2^53. For requests whose
/// seeds are to follow each other. Throws Error if the operating system has no entropy.
std::uint64_t draw_seed();

/// Raw logits of a prompt, for comparison with an oracle.
struct EvaluationRequest {
  std::vector<Token> tokens;   // at least one id
  bool all_positions = false;  // a row for each position, else the last one's
  std::size_t n_drafts = 0;    // greedy drafts of the model's own next-token head after the prompt
  bool logprobs = false;       // log-probabilities of the prompt's own tokens
};

}  // namespace foretoken
