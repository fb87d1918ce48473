// The engine as a library: open a model, submit a request, pull tokens. The command line program is
// written on it.
//
//   foretoken::EngineOptions options;
//   options.model_path = "models/glm-mini";
//   auto engine = foretoken::Engine::open(options);
//   foretoken::GenerationRequest request;
//   request.prompt = engine.tokenizer().encode("[gMASK]<sop>Once upon a time");
//   foretoken::TokenStream stream = engine.submit(request);
//   while (auto event = stream.next())
//     if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event))
//       std::cout << tokens->text;
//
// Identical requests give identical tokens, text and log-probabilities whatever the draft sources,
// draft lengths, thread counts and chunk sizes are.
#pragma once

#include "foretoken/reply.h"
#include "foretoken/request.h"
#include "foretoken/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken {

enum class ErrorCode {
  kInvalidInput,       ///< a model, an option or a request is wrong
  kIo,                 ///< the operating system refused
  kResourceExhausted,  ///< no memory, or no room in the queue: Busy
  kCancelled,          ///< the engine was closed before the request was served
  kInternal,           ///< a defect of this program
};

/// The only exception, with what derives from it, that this library throws on purpose. what() is
/// one line: what was tried, with which values, what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Thrown by Engine::submit() alone: too many requests wait already; later there may be room.
class Busy : public Error {
 public:
  explicit Busy(const std::string& message) : Error(ErrorCode::kResourceExhausted, message) {}
};

/// A chat request as the model's template renders it.
struct ChatPrompt {
  std::string text;
  std::vector<Token> ids;
};

/// A model's text side: tokenizer.json and the chat template. Immutable, cheap to copy, safe to
/// share between threads.
class Tokenizer {
 public:
  /// Reads the text files of a model folder and none of its weights. Throws Error.
  static Tokenizer open(const std::string& model_path);

  /// Ids of a text; added tokens (`<|user|>` ...) in it are matched, nothing is added in front or
  /// behind.
  std::vector<Token> encode(std::string_view text) const;
  /// Renders a chat request (a JSON object with `messages`, optional `tools` and template
  /// variables) and encodes it. Added tokens are matched in the template's own text only. Throws
  /// Error if the model has no template or refuses.
  ChatPrompt encode_chat(std::string_view request_json) const;
  /// The exact bytes of a sequence. Throws Error for ids outside the vocabulary.
  std::string decode(std::span<const Token> ids) const;
  /// Splits the reply to a rendered chat prompt, whose end says whether the reply starts with
  /// reasoning. `tools_json`: the request's array of tools, by whose schemas the arguments of calls
  /// are typed; empty: none, marks of calls are text then. Throws Error if it is no such array.
  ReplyParser reply_parser(std::span<const Token> prompt, std::string_view tools_json) const;

 private:
  friend class Engine;
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

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

struct ModelInfo {
  std::string name;  // of the folder
  std::string family;
  std::uint64_t parameters = 0;
  std::uint64_t weight_bytes = 0;  // as stored, draft head included
  std::string format;              // of the weights
  std::string hash;                // 16 hex digits that change with the weights
  std::size_t n_vocab = 0;
  std::size_t context = 0;       // positions of a request, as planned
  std::size_t max_sessions = 1;  // requests that run at once, as planned
  std::vector<Token> eos_tokens;
  std::vector<std::string> draft_sources;  // what `speculate` may name, `none` and `auto` apart
  std::string isa;
  std::size_t n_threads = 0;
};

/// Pulls one request's results. Destroying it cancels the request. Owned by one thread; cancel()
/// may come from any.
class TokenStream {
 public:
  ~TokenStream();
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  /// Blocks for the next event; nullopt once the Completion was delivered. Throws Error if the
  /// request failed.
  std::optional<Event> next();
  /// Ends the request within one layer if it runs alone, else within one forward; what was
  /// committed so far and a Completion still arrive.
  void cancel() noexcept;

 private:
  friend class Engine;
  struct Impl;
  explicit TokenStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A loaded model with its threads. Requests start in the order of submission;
/// EngineOptions::max_sessions of them go on together. Thread-safe.
class Engine {
 public:
  /// Loads a model. Throws Error.
  static Engine open(const EngineOptions& options);
  /// Cancels what is still running.
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request. Throws Error for what can be seen to be wrong at once (an empty prompt, one
  /// longer than the context, ids outside the vocabulary) and Busy; the rest comes through the
  /// stream.
  TokenStream submit(GenerationRequest request);
  /// Feeds a prompt and returns logits. Waits for requests that were submitted before.
  Evaluation evaluate(const EvaluationRequest& request);

  /// Throws Error if the model folder has no tokenizer.json.
  const Tokenizer& tokenizer() const;
  const ModelInfo& model() const noexcept;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace foretoken
