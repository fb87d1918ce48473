// The public classes: thin shells that hide the engine's types and keep its exceptions inside.
#include "engine/engine.h"
#include "engine/errors.h"
#include "engine/model_text.h"
#include "engine/open_engine.h"
#include "engine/sampling_defaults.h"
#include "foretoken/foretoken.h"
#include "json/json.h"
#include "speculation/draft_source.h"
#include "text/reply_parser.h"

#include <optional>
#include <utility>

namespace foretoken {

using ft::engine::with_public_errors;

std::uint64_t draw_seed() {
  return with_public_errors([] { return ft::engine::draw_seed(); });
}

std::string_view to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kTimeout:
      return "timeout";
  }
  return "";
}

// --- Tokenizer ---

struct Tokenizer::Impl {
  std::shared_ptr<const ft::engine::ModelText> text;
};

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tokenizer Tokenizer::open(const std::string& model_path) {
  return with_public_errors([&] {
    return Tokenizer(
        std::make_shared<const Impl>(Impl{std::make_shared<const ft::engine::ModelText>(
            ft::engine::ModelText::open(model_path, std::make_shared<const ft::SteadyClock>()))}));
  });
}

std::vector<Token> Tokenizer::encode(std::string_view text) const {
  return with_public_errors([&] { return impl_->text->tokenizer().encode(text); });
}

ChatPrompt Tokenizer::encode_chat(std::string_view request_json) const {
  return with_public_errors([&] { return impl_->text->encode_chat(request_json); });
}

std::string Tokenizer::decode(std::span<const Token> ids) const {
  return with_public_errors([&] { return impl_->text->decode(ids); });
}

// --- ReplyParser ---

struct ReplyParser::Impl {
  Impl(std::shared_ptr<const ft::engine::ModelText> model_text,
       std::span<const Token> prompt,
       std::optional<ft::text::ToolSchemas> tools)
      : text(std::move(model_text)),
        markup(text->tokenizer()),
        parser(text->tokenizer(), markup, prompt, std::move(tools)) {}

  std::shared_ptr<const ft::engine::ModelText> text;
  ft::text::ReplyMarkup markup;
  ft::text::ReplyParser parser;
};

namespace {

std::vector<ReplyDelta> public_deltas(std::vector<ft::text::ReplyDelta> deltas) {
  const auto kind_of = [](ft::text::ReplyDelta::Kind kind) {
    switch (kind) {
      case ft::text::ReplyDelta::Kind::kReasoning:
        return ReplyDelta::Kind::kReasoning;
      case ft::text::ReplyDelta::Kind::kContent:
        return ReplyDelta::Kind::kContent;
      case ft::text::ReplyDelta::Kind::kToolName:
        return ReplyDelta::Kind::kToolName;
      case ft::text::ReplyDelta::Kind::kToolArguments:
        return ReplyDelta::Kind::kToolArguments;
    }
    return ReplyDelta::Kind::kContent;  // not reached: the switch is complete
  };
  std::vector<ReplyDelta> out;
  out.reserve(deltas.size());
  for (ft::text::ReplyDelta& delta : deltas) {
    out.push_back({kind_of(delta.kind), std::move(delta.text), delta.call_index});
  }
  return out;
}

}  // namespace

ReplyParser::ReplyParser(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

std::vector<ReplyDelta> ReplyParser::push(const CommittedTokens& tokens) {
  return with_public_errors(
      [&] { return public_deltas(impl_->parser.push(tokens.ids, tokens.text)); });
}

std::vector<ReplyDelta> ReplyParser::finish() {
  return with_public_errors([&] { return public_deltas(impl_->parser.finish()); });
}

std::size_t ReplyParser::n_calls() const noexcept {
  return impl_->parser.n_calls();
}

std::size_t ReplyParser::n_reasoning_tokens() const noexcept {
  return impl_->parser.n_reasoning_tokens();
}

ReplyParser Tokenizer::reply_parser(std::span<const Token> prompt,
                                    std::string_view tools_json) const {
  return with_public_errors([&] {
    std::optional<ft::text::ToolSchemas> tools;
    if (!tools_json.empty()) {
      tools = ft::text::ToolSchemas::from_json(ft::json::parse(tools_json, "tools"));
    }
    return ReplyParser(std::make_unique<ReplyParser::Impl>(impl_->text, prompt, std::move(tools)));
  });
}

// --- TokenStream ---

struct TokenStream::Impl {
  std::shared_ptr<ft::engine::EventChannel> channel;
};

TokenStream::TokenStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenStream::TokenStream(TokenStream&&) noexcept = default;

TokenStream& TokenStream::operator=(TokenStream&& other) noexcept {
  if (this != &other) {
    if (impl_) impl_->channel->abandon();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

TokenStream::~TokenStream() {
  if (impl_) impl_->channel->abandon();
}

std::optional<Event> TokenStream::next() {
  return impl_->channel->next();
}
void TokenStream::cancel() noexcept {
  impl_->channel->cancel();
}

// --- Engine ---

struct Engine::Impl {
  explicit Impl(ft::engine::EngineParts parts) : engine(std::move(parts)) {}

  ft::engine::Engine engine;
  ModelInfo info;
  std::optional<Tokenizer> tokenizer;
};

namespace {

ModelInfo describe(const ft::engine::EngineParts& parts) {
  const ft::models::ModelConfig& config = parts.model->config();
  ModelInfo info;
  info.name = parts.name;
  info.family = config.family;
  info.parameters = config.n_parameters;
  info.weight_bytes = config.dense_bytes + config.expert_bytes + config.draft_head_bytes;
  info.format = config.weight_format;
  info.hash = config.weights_hash;
  info.n_vocab = config.n_vocab;
  info.context = parts.context;
  info.max_sessions = parts.max_sessions;
  info.eos_tokens = config.eos_tokens;
  info.draft_sources = ft::engine::source_names(parts);
  info.isa = parts.backend->name();
  info.n_threads = parts.pool->n_threads();
  return info;
}

}  // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Engine Engine::open(const EngineOptions& options) {
  return with_public_errors([&] {
    auto impl = std::make_unique<Impl>(ft::engine::open_parts(options));
    const ft::engine::EngineParts& parts = impl->engine.parts();
    impl->info = describe(parts);
    if (parts.text != nullptr) {
      impl->tokenizer =
          Tokenizer(std::make_shared<const Tokenizer::Impl>(Tokenizer::Impl{parts.text}));
    }
    return Engine(std::move(impl));
  });
}

TokenStream Engine::submit(GenerationRequest request) {
  return with_public_errors([&] {
    return TokenStream(std::make_unique<TokenStream::Impl>(
        TokenStream::Impl{impl_->engine.submit(std::move(request))}));
  });
}

Evaluation Engine::evaluate(const EvaluationRequest& request) {
  return with_public_errors([&] { return impl_->engine.evaluate(request); });
}

const Tokenizer& Engine::tokenizer() const {
  if (!impl_->tokenizer) {
    throw Error(ErrorCode::kInvalidInput,
                "model '" + impl_->info.name + "' has no tokenizer.json; give token ids");
  }
  return *impl_->tokenizer;
}

const ModelInfo& Engine::model() const noexcept {
  return impl_->info;
}

}  // namespace foretoken
