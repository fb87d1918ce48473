// What comes out of a generation: plain data, no behaviour. Field names follow docs/cli.md.
#pragma once

#include "foretoken/request.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace foretoken {

struct TokenLogprob {
  Token id = 0;
  float logprob = 0;  // natural logarithm, plain softmax before temperature and filters
};
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // best first
};

struct PrefillProgress {
  std::size_t n_done = 0;  // within a chunk that takes long, its layers' part of its tokens
  std::size_t n_prompt = 0;
};

/// Tokens that are final, never drafts.
struct CommittedTokens {
  std::vector<Token> ids;
  std::string
      text;  // complete characters that became final with these tokens; special tokens have no text
  std::vector<TokenLogprobs> logprobs;  // one per id if the request asked for them
  std::size_t n_accepted = 0;           // leading ids that were drafted and accepted
  /// One per id: the bytes of `text` that were final with it. Behind the last one stands what the
  /// end of the generation released.
  std::vector<std::size_t> text_ends = {};
};

enum class FinishReason { kStop, kLength, kCancelled, kTimeout };
/// "stop", "length", "cancelled", "timeout".
std::string_view to_string(FinishReason reason) noexcept;

struct Usage {
  std::size_t prompt_tokens = 0;
  std::size_t completion_tokens = 0;
  std::size_t cached_tokens = 0;  // prompt tokens that were there already
};

struct Timings {
  double load_ms = 0;
  std::size_t prompt_n = 0;
  double prompt_ms = 0;
  double prompt_per_second = 0;
  std::size_t predicted_n = 0;
  double predicted_ms = 0;            // from the first token to the last
  double predicted_per_second = 0;    // tokens after the first: the first is the prefill's work
  double time_to_first_token_ms = 0;  // from submit()
};

/// Where the time of a phase went, in milliseconds; together they are the phase.
struct StageTimes {
  double attention = 0;  // with the projections around it, those of the indexer included
  double indexer = 0;    // scores and selection
  double experts = 0;    // router, routed and shared experts
  double dense = 0;      // feed-forward of dense layers
  double head = 0;       // final norm and logits
  double sampling = 0;
  double draft = 0;  // proposing drafts, and upkeep of the sources
  double other = 0;
};

struct SourceStatistics {
  std::size_t drafted = 0;
  std::size_t accepted = 0;
};

/// A source and draft length kept for all of a request: the best there was, as the planner judges
/// when the request is done.
struct FixedChoice {
  std::string source;  // empty: no drafts
  std::size_t draft_tokens = 0;
  /// Time of the planner's own choices over that of this one, less 1; below 0: changing won.
  double regret = 0;
};

struct SpeculationStatistics {
  std::vector<std::string> sources;
  std::string accept;
  std::size_t rounds = 0;
  std::size_t forwards = 0;  // the rounds plus one for the prefill
  std::size_t drafted = 0;
  std::size_t accepted = 0;
  std::vector<std::size_t> acceptance_lengths;     // accepted drafts of each round
  std::vector<std::size_t> drafted_per_position;   // rounds that drafted at least i + 1 tokens
  std::vector<std::size_t> accepted_per_position;  // rounds that accepted at least i + 1 tokens
  double tokens_per_forward = 0;
  std::size_t forwards_saved = 0;
  std::map<std::string, SourceStatistics> by_source;
  std::optional<FixedChoice> best_fixed;  // none: the draft length was given, or too few rounds
};

/// Experts of one size: those of the model, or those of its draft head. An expert that several rows
/// of a forward chose counts once.
struct ExpertTierStatistics {
  std::uint64_t hits = 0;             // in memory when asked for
  std::uint64_t misses = 0;           // not there yet: those being read ahead included
  std::uint64_t bytes_read = 0;       // everything: reads ahead and repeated ones too
  std::uint64_t evictions = 0;        // experts that lost their slot
  std::uint64_t reads_ahead = 0;      // reads on a guess
  std::uint64_t used_ahead = 0;       // of these, asked for later
  std::uint64_t reads_hinted = 0;     // those of reads_ahead for a token that a draft foretold
  std::uint64_t used_hinted = 0;      // of these, asked for later
  std::uint64_t dropped_ahead = 0;    // of these, given up before they were complete
  std::uint64_t from_page_cache = 0;  // experts that were copied from there, not read
  std::uint64_t failed_reads = 0;     // repeated ones included
  std::uint64_t n_slots = 0;          // at the end
  std::uint64_t slot_bytes = 0;
};

/// Of one request, or of a phase of it.
struct ExpertStatistics {
  std::string mode = "resident";  // "stream"
  // Both tiers together.
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  double hit_rate = 1;
  std::uint64_t bytes_read = 0;
  double stall_ms = 0;  // that computing waited for reads
  ExpertTierStatistics trunk;
  ExpertTierStatistics draft;
  // Latency of reading one expert; 0 without reads.
  double read_p50_ms = 0;
  double read_p90_ms = 0;
  double read_p99_ms = 0;
};

struct PhaseWork {
  StageTimes stages_ms;
  std::uint64_t weight_bytes = 0;  // read by products, drafts included
  double wall_ms = 0;
  ExpertStatistics experts = {};
};

struct MemoryUse {
  std::uint64_t budget_bytes = 0;  // 0: no bound was set
  std::uint64_t peak_anonymous_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t draft_kv_bytes = 0;
  std::uint64_t expert_cache_bytes = 0;
};

/// The last event of a stream.
struct Completion {
  FinishReason finish_reason = FinishReason::kLength;
  std::optional<std::string> stop;  // the stop string that ended the generation
  std::uint64_t seed = 0;
  Usage usage;
  Timings timings;
  SpeculationStatistics speculation;
  ExpertStatistics experts;
  MemoryUse memory;
  std::optional<PhaseWork> prompt_work;     // if the request asked to measure
  std::optional<PhaseWork> predicted_work;  // from the first token on
};

using Event = std::variant<PrefillProgress, CommittedTokens, Completion>;

/// What an EvaluationRequest asked for.
struct Evaluation {
  std::vector<std::size_t> positions;
  std::vector<std::vector<float>> logits;  // one row [n_vocab] per position
  std::vector<Token> drafts;
  std::vector<std::vector<float>> draft_logits;
  std::vector<float> logprobs;  // of tokens[1 ...], each given those before it
};

}  // namespace foretoken
