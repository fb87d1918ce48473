#include "server/backend.h"

#include <utility>

namespace ft::server {
namespace {

class EngineGeneration final : public Generation {
 public:
  explicit EngineGeneration(foretoken::TokenStream stream) : stream_(std::move(stream)) {}
  std::optional<foretoken::Event> next() override { return stream_.next(); }
  void cancel() noexcept override { stream_.cancel(); }

 private:
  foretoken::TokenStream stream_;
};

class EngineReplySplitter final : public ReplySplitter {
 public:
  explicit EngineReplySplitter(foretoken::ReplyParser parser) : parser_(std::move(parser)) {}
  std::vector<foretoken::ReplyDelta> push(const foretoken::CommittedTokens& tokens) override {
    return parser_.push(tokens);
  }
  std::vector<foretoken::ReplyDelta> finish() override { return parser_.finish(); }
  std::size_t n_calls() const override { return parser_.n_calls(); }
  std::size_t n_reasoning_tokens() const override { return parser_.n_reasoning_tokens(); }

 private:
  foretoken::ReplyParser parser_;
};

class EngineBackend final : public Backend {
 public:
  explicit EngineBackend(foretoken::Engine& engine) : engine_(engine) {}
  std::unique_ptr<Generation> submit(foretoken::GenerationRequest request) override {
    return std::make_unique<EngineGeneration>(engine_.submit(std::move(request)));
  }
  std::vector<foretoken::Token> encode(std::string_view text) const override {
    return engine_.tokenizer().encode(text);
  }
  foretoken::ChatPrompt encode_chat(std::string_view request_json) const override {
    return engine_.tokenizer().encode_chat(request_json);
  }
  std::unique_ptr<ReplySplitter> reply_splitter(std::span<const foretoken::Token> prompt,
                                                std::string_view tools_json) const override {
    return std::make_unique<EngineReplySplitter>(
        engine_.tokenizer().reply_parser(prompt, tools_json));
  }
  std::string decode(std::span<const foretoken::Token> ids) const override {
    return engine_.tokenizer().decode(ids);
  }
  const foretoken::ModelInfo& model() const override { return engine_.model(); }

 private:
  foretoken::Engine& engine_;
};

}  // namespace

std::unique_ptr<Backend> engine_backend(foretoken::Engine& engine) {
  return std::make_unique<EngineBackend>(engine);
}

}  // namespace ft::server
