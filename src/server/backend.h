// The engine as the server uses it; a fake one serves the tests.
#pragma once

#include "foretoken/foretoken.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// One generation. Destroying it cancels it.
class Generation {
 public:
  virtual ~Generation() = default;
  /// Blocks; nullopt behind the Completion. Throws foretoken::Error.
  virtual std::optional<foretoken::Event> next() = 0;
  /// Any thread.
  virtual void cancel() noexcept = 0;
};

/// A foretoken::ReplyParser.
class ReplySplitter {
 public:
  virtual ~ReplySplitter() = default;
  virtual std::vector<foretoken::ReplyDelta> push(const foretoken::CommittedTokens& tokens) = 0;
  virtual std::vector<foretoken::ReplyDelta> finish() = 0;
  virtual std::size_t n_calls() const = 0;
  virtual std::size_t n_reasoning_tokens() const = 0;
};

/// Thread-safe. All members throw foretoken::Error.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<Generation> submit(foretoken::GenerationRequest request) = 0;
  virtual std::vector<foretoken::Token> encode(std::string_view text) const = 0;
  virtual foretoken::ChatPrompt encode_chat(std::string_view request_json) const = 0;
  /// See foretoken::Tokenizer::reply_parser().
  virtual std::unique_ptr<ReplySplitter> reply_splitter(std::span<const foretoken::Token> prompt,
                                                        std::string_view tools_json) const = 0;
  virtual std::string decode(std::span<const foretoken::Token> ids) const = 0;
  virtual const foretoken::ModelInfo& model() const = 0;
};

/// `engine` must outlive it.
std::unique_ptr<Backend> engine_backend(foretoken::Engine& engine);

}  // namespace ft::server
