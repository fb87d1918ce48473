// How a model is opened: plain data, no behaviour. Option names follow docs/cli.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken {

/// Deviations that reproduce other engines' next-token head, for comparison.
struct Compat {
  bool draft_starts_cold = false;  // it never sees the prompt
  bool draft_chains_raw = false;   // it chains the residual instead of the normed state
};

/// The file beside a container in which the use of its experts is remembered from run to run.
enum class ExpertUsageFile {
  kOff,
  kRead,    ///< earlier runs are learned from, this one leaves no trace
  kUpdate,  ///< written when the engine closes
};

struct EngineOptions {
  std::string model_path;     // a Hugging Face folder, a .safetensors file in one, or a container
  std::size_t n_threads = 0;  // 0: the physical cores allowed to this process
  /// Keeps each compute thread on one processor. Refused if there are more threads than processors
  /// or CPU quota.
  bool pin_threads = false;
  std::size_t context = 0;          // positions to plan memory for; 0: min(model, 8192)
  std::size_t prefill_chunk = 512;  // prompt tokens per forward
  std::string isa =
      "auto";  // "ref", "avx2", ...: results may differ between sets, never within one
  /// How the caches store a position: "bf16", rounded, or "f32" in twice the memory. Results differ
  /// between the two, never within one.
  std::string kv_type = "bf16";
  /// Weights of the model's own draft head, its layer and a copy of the output head: "q8" or "q4"
  /// quantizes what is stored wider, "stored" leaves it. Fewer bytes per draft; it may change
  /// drafts, never a result.
  std::string draft_format = "q4";
  Compat compat;
  /// A second, smaller model with the same tokenizer for source `draft`, its experts in memory;
  /// empty: none. Changes drafts, never a result.
  std::string draft_model;

  /// Where routed experts live: "resident" in memory, "stream" on the drive with as many in memory
  /// as the budget allows, "auto" the first that fits. Only containers stream. Changes no result.
  std::string experts = "auto";
  /// Bound on the anonymous memory of the process; 0: what machine and control groups leave.
  std::uint64_t ram_budget_bytes = 0;
  /// Whether memory is planned for drafts of the model's own head.
  bool plans_drafts = true;
  /// Tokens of earlier requests that source `suffix` remembers and drafts from; 0: none. About 150
  /// bytes each. Changes no result.
  std::size_t draft_history = 0;
  /// Tokens of the longest prediction that a request may bring, about 130 bytes each; unset: as
  /// many as there are positions, which is also the most.
  std::optional<std::size_t> max_prediction;
  /// Requests that run at once, each with caches of its own, their tokens fed in shared forwards;
  /// 0: as many as memory is there for, at most 16. Changes no result.
  std::size_t max_sessions = 1;
  /// Sessions whose requests are over keep their caches until another needs the place. A request
  /// goes on from the one that shares most of its prompt, and feeds only the rest; those that share
  /// a beginning feed it once. Changes no result; requests with accept "ratio" feed all of theirs.
  bool reuses_prefixes = false;
  /// Requests that may wait for their turn; submit() refuses a further one with Busy.
  std::size_t max_queued = 256;
  /// Rows of one forward that may have logits; 0: what generation needs. Evaluations of all
  /// positions feed so many tokens at a time.
  std::size_t n_logit_rows = 0;
  std::vector<std::string> mirrors;    // further folders of the same container to read from
  std::string expert_policy = "auto";  // which experts stay: "lru", "likelihood"
  std::string lookahead = "auto";      // reading the next layer's experts ahead: "on", "off"
  ExpertUsageFile expert_usage = ExpertUsageFile::kRead;
  /// Receives one line, without newline, for what a person should know and that is no error; may be
  /// empty. Called while the engine opens, closes or works on a request.
  std::function<void(std::string_view line)> warn;

  /// Called with weight bytes done and in total while the model loads; may be empty.
  std::function<void(std::uint64_t done, std::uint64_t total)> load_progress;
};

}  // namespace foretoken
