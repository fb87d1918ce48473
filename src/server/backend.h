// The engine as the server uses it; a fake one serves the tests.
#pragma once

#include "foretoken/foretoken.h"

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

/// Thread-safe. All members throw foretoken::Error.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<Generation> submit(foretoken::GenerationRequest request) = 0;
  virtual std::vector<foretoken::Token> encode(std::string_view text) const = 0;
  virtual foretoken::ChatPrompt encode_chat(std::string_view request_json) const = 0;
  virtual std::string decode(std::span<const foretoken::Token> ids) const = 0;
  virtual const foretoken::ModelInfo& model() const = 0;
};

/// `engine` must outlive it.
std::unique_ptr<Backend> engine_backend(foretoken::Engine& engine);

}  // namespace ft::server
