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

#include "foretoken/options.h"
#include "foretoken/reply.h"
#include "foretoken/request.h"
#include "foretoken/result.h"

#include <cstddef>
#include <cstdint>
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
