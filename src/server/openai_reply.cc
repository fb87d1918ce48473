// Replies of /v1/chat/completions and /v1/completions.
#include "json/json.h"
#include "server/dialect.h"
#include "server/openai_request.h"
#include "server/reply_timings.h"
#include "server/round_feed.h"
#include "server/token_logprobs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

std::string event(std::string_view json) {
  return fmt::format("data: {}\n\n", json);
}

void write_chat_logprobs(json::Writer& out,
                         const std::vector<foretoken::TokenLogprobs>& tokens,
                         const TokenText& token_text) {
  out.begin_object().key("content");
  write_token_logprobs(out, tokens, token_text);
  out.key("refusal").null().end_object();
}

void write_completion_logprobs(json::Writer& out,
                               const std::vector<foretoken::TokenLogprobs>& tokens,
                               std::size_t text_offset,
                               const TokenText& token_text) {
  out.begin_object().key("tokens").begin_array();
  for (const auto& token : tokens) out.value(token_text(token.chosen.id));
  out.end_array().key("token_logprobs").begin_array();
  for (const auto& token : tokens) out.value(token.chosen.logprob);
  out.end_array().key("top_logprobs").begin_array();
  for (const auto& token : tokens) {
    out.begin_object();
    // Ids that differ may have equal texts once they are no valid UTF-8: a name comes once.
    std::vector<std::string> names;
    for (const foretoken::TokenLogprob& top : token.top) {
      json::Writer name;
      name.value(token_text(top.id));
      bool is_known = false;
      for (const std::string& other : names) is_known = is_known || other == name.text();
      if (is_known) continue;
      names.push_back(name.text());
      out.member(token_text(top.id), top.logprob);
    }
    out.end_object();
  }
  out.end_array().key("text_offset").begin_array();
  for (const auto& token : tokens) {
    out.value(static_cast<std::uint64_t>(text_offset));
    text_offset += token_text(token.chosen.id).size();
  }
  out.end_array().end_object();
}

void write_usage(json::Writer& out,
                 std::span<const Choice> choices,
                 std::size_t choices_per_prompt) {
  std::uint64_t n_prompt = 0;
  std::uint64_t n_cached = 0;
  std::uint64_t n_completion = 0;
  std::uint64_t n_accepted = 0;
  std::uint64_t n_rejected = 0;
  std::uint64_t n_reasoning = 0;
  for (const Choice& choice : choices) {
    const foretoken::Completion& completion = choice.completion;
    if (choice.index % choices_per_prompt == 0) {
      n_prompt += completion.usage.prompt_tokens;
      n_cached += completion.usage.cached_tokens;
    }
    n_completion += completion.usage.completion_tokens;
    n_reasoning += choice.n_reasoning_tokens;
    const auto prediction = completion.speculation.by_source.find("prediction");
    if (prediction == completion.speculation.by_source.end()) continue;
    n_accepted += prediction->second.accepted;
    n_rejected += prediction->second.drafted - prediction->second.accepted;
  }
  out.begin_object().member("prompt_tokens", n_prompt).member("completion_tokens", n_completion);
  out.member("total_tokens", n_prompt + n_completion);
  out.key("prompt_tokens_details").begin_object().member("cached_tokens", n_cached).end_object();
  out.key("completion_tokens_details").begin_object().member("reasoning_tokens", n_reasoning);
  out.member("accepted_prediction_tokens", n_accepted)
      .member("rejected_prediction_tokens", n_rejected);
  out.end_object().end_object();
}

// Texts of one choice's part, or of a whole choice.
struct ReplyTexts {
  explicit ReplyTexts(const ReplyPart& part) {
    for (const foretoken::ReplyDelta& delta : part.deltas) {
      switch (delta.kind) {
        case foretoken::ReplyDelta::Kind::kReasoning:
          (reasoning ? *reasoning : reasoning.emplace()) += delta.text;
          break;
        case foretoken::ReplyDelta::Kind::kContent:
          (content ? *content : content.emplace()) += delta.text;
          break;
        case foretoken::ReplyDelta::Kind::kToolName:
          call(delta.call_index).name = delta.text;
          break;
        case foretoken::ReplyDelta::Kind::kToolArguments:
          call(delta.call_index).arguments += delta.text;
          break;
      }
    }
  }

  struct Call {
    std::size_t index = 0;
    std::optional<std::string> name;  // where it begins
    std::string arguments;
  };
  std::optional<std::string> reasoning;
  std::optional<std::string> content;
  std::vector<Call> calls;

 private:
  Call& call(std::size_t index) {
    if (calls.empty() || calls.back().index != index) calls.push_back({index, std::nullopt, {}});
    return calls.back();
  }
};

// What both APIs have in common.
class OpenAiWriter : public ReplyWriter {
 public:
  OpenAiWriter(const TextRequest& request, ReplyIdentity identity, TokenText token_text)
      : identity_(std::move(identity)),
        token_text_(std::move(token_text)),
        choices_per_prompt_(request.n),
        has_logprobs_(request.generation.logprobs.has_value()),
        includes_usage_(request.includes_usage) {}

  std::string whole(std::span<const Choice> choices) override {
    json::Writer out;
    begin_object(out, whole_object());
    out.key("choices").begin_array();
    for (const Choice& choice : choices) {
      out.begin_object().member("index", static_cast<std::uint64_t>(choice.index));
      write_choice(out, choice);
      write_end(out, choice);
      out.end_object();
    }
    out.end_array().key("usage");
    write_usage(out, choices, choices_per_prompt_);
    out.end_object();
    return out.text();
  }

  std::string end(std::span<const Choice> choices) override {
    if (!includes_usage_) return event("[DONE]");
    json::Writer out;
    begin_object(out, chunk_object());
    out.key("choices").begin_array().end_array().key("usage");
    write_usage(out, choices, choices_per_prompt_);
    out.end_object();
    return event(out.text()) + event("[DONE]");
  }

  std::string rounds(std::size_t choice, std::span<const std::string> trace_lines) override {
    json::Writer out;
    begin_object(out, chunk_object());
    out.key("choices").begin_array().end_array().key("foretoken").begin_object();
    out.member("index", static_cast<std::uint64_t>(choice)).key("rounds");
    write_rounds(out, trace_lines, token_text_);
    out.end_object().end_object();
    return event(out.text());
  }

  std::string error(const ApiError& error) override { return event(openai_error_json(error)); }

 protected:
  virtual std::string_view id_prefix() const = 0;
  virtual std::string_view whole_object() const = 0;
  virtual std::string_view chunk_object() const = 0;
  virtual void write_choice(json::Writer& out, const Choice& choice) = 0;

  // One event of one choice: `write` adds what it brings.
  template <typename Write>
  std::string chunk(std::size_t choice, const Write& write) {
    json::Writer out;
    begin_object(out, chunk_object());
    out.key("choices").begin_array().begin_object();
    out.member("index", static_cast<std::uint64_t>(choice));
    write(out);
    out.end_object().end_array().end_object();
    return event(out.text());
  }

  void write_end(json::Writer& out, const Choice& choice) const {
    const foretoken::Completion& completion = choice.completion;
    const bool is_stop = completion.finish_reason == foretoken::FinishReason::kStop;
    out.member("finish_reason", !is_stop ? "length" : choice.n_calls > 0 ? "tool_calls" : "stop");
    out.key("stop_reason");
    write_stop_reason(out, completion);
    out.member("seed", completion.seed);
    out.key("timings");
    write_timings(out, completion);
  }

  bool has_logprobs() const noexcept { return has_logprobs_; }
  const TokenText& token_text() const noexcept { return token_text_; }
  const std::string& request_id() const noexcept { return identity_.request_id; }

 private:
  void begin_object(json::Writer& out, std::string_view object) const {
    out.begin_object().member("id", fmt::format("{}-{}", id_prefix(), identity_.request_id));
    out.member("object", object).member("created", identity_.created);
    out.member("model", identity_.model).member("system_fingerprint", identity_.fingerprint);
  }

  const ReplyIdentity identity_;
  const TokenText token_text_;
  const std::size_t choices_per_prompt_;
  const bool has_logprobs_;
  const bool includes_usage_;
};

class ChatWriter final : public OpenAiWriter {
 public:
  using OpenAiWriter::OpenAiWriter;

  std::string begin(std::size_t n_choices) override {
    std::string out;
    for (std::size_t i = 0; i < n_choices; ++i) {
      out += chunk(i, [](json::Writer& text) {
        text.key("delta").begin_object().member("role", "assistant").member("content", "");
        text.end_object().key("logprobs").null().key("finish_reason").null();
      });
    }
    return out;
  }

  std::string part(std::size_t choice, const ReplyPart& part) override {
    return chunk(choice, [&](json::Writer& out) {
      const ReplyTexts texts(part);
      out.key("delta").begin_object();
      if (texts.reasoning) out.member("reasoning_content", *texts.reasoning);
      if (texts.content) out.member("content", *texts.content);
      if (!texts.calls.empty()) write_calls(out, choice, texts.calls, true);
      out.end_object();
      write_logprobs(out, part);
      out.key("finish_reason").null();
    });
  }

  std::string end_choice(const Choice& choice) override {
    return chunk(choice.index, [&](json::Writer& out) {
      out.key("delta").begin_object().end_object().key("logprobs").null();
      write_end(out, choice);
    });
  }

 protected:
  std::string_view id_prefix() const override { return "chatcmpl"; }
  std::string_view whole_object() const override { return "chat.completion"; }
  std::string_view chunk_object() const override { return "chat.completion.chunk"; }

  void write_choice(json::Writer& out, const Choice& choice) override {
    const ReplyTexts texts(choice.reply);
    out.key("message").begin_object().member("role", "assistant").key("content");
    // As OpenAI's: null if there are calls alone.
    if (texts.content || texts.calls.empty()) {
      out.value(texts.content.value_or(std::string()));
    } else {
      out.null();
    }
    if (texts.reasoning) out.member("reasoning_content", *texts.reasoning);
    if (!texts.calls.empty()) write_calls(out, choice.index, texts.calls, false);
    out.key("refusal").null().end_object();
    write_logprobs(out, choice.reply);
  }

 private:
  void write_logprobs(json::Writer& out, const ReplyPart& part) const {
    out.key("logprobs");
    if (has_logprobs()) {
      write_chat_logprobs(out, part.logprobs, token_text());
    } else {
      out.null();
    }
  }

  void write_calls(json::Writer& out,
                   std::size_t choice,
                   std::span<const ReplyTexts::Call> calls,
                   bool is_chunk) const {
    out.key("tool_calls").begin_array();
    for (const ReplyTexts::Call& call : calls) {
      out.begin_object();
      if (is_chunk) out.member("index", static_cast<std::uint64_t>(call.index));
      if (call.name) {
        out.member("id", fmt::format("call_{}_{}_{}", request_id(), choice, call.index));
        out.member("type", "function");
      }
      out.key("function").begin_object();
      if (call.name) out.member("name", *call.name);
      out.member("arguments", call.arguments).end_object().end_object();
    }
    out.end_array();
  }
};

class CompletionWriter final : public OpenAiWriter {
 public:
  using OpenAiWriter::OpenAiWriter;

  std::string begin(std::size_t n_choices) override {
    text_offsets_.assign(n_choices, 0);
    return {};
  }

  std::string part(std::size_t choice, const ReplyPart& part) override {
    return chunk(choice, [&](json::Writer& out) {
      const std::string text = ReplyTexts(part).content.value_or(std::string());
      out.member("text", text);
      write_logprobs(out, part, text_offsets_[choice]);
      out.key("finish_reason").null();
      text_offsets_[choice] += text.size();
    });
  }

  std::string end_choice(const Choice& choice) override {
    return chunk(choice.index, [&](json::Writer& out) {
      out.member("text", "").key("logprobs").null();
      write_end(out, choice);
    });
  }

 protected:
  std::string_view id_prefix() const override { return "cmpl"; }
  std::string_view whole_object() const override { return "text_completion"; }
  std::string_view chunk_object() const override { return "text_completion"; }

  void write_choice(json::Writer& out, const Choice& choice) override {
    out.member("text", ReplyTexts(choice.reply).content.value_or(std::string()));
    write_logprobs(out, choice.reply, 0);
  }

 private:
  void write_logprobs(json::Writer& out, const ReplyPart& part, std::size_t text_offset) const {
    out.key("logprobs");
    if (has_logprobs()) {
      write_completion_logprobs(out, part.logprobs, text_offset, token_text());
    } else {
      out.null();
    }
  }

  std::vector<std::size_t> text_offsets_;  // by choice: bytes of its text so far
};

template <typename Writer>
class OpenAiDialect final : public Dialect {
 public:
  using Parse = TextRequest (*)(std::string_view body, const RequestLimits& limits);
  explicit OpenAiDialect(Parse parser) : parse_(parser) {}

  TextRequest parse(std::string_view body, const RequestLimits& limits) const override {
    return parse_(body, limits);
  }
  std::unique_ptr<ReplyWriter> writer(const TextRequest& request,
                                      ReplyIdentity identity,
                                      TokenText token_text) const override {
    return std::make_unique<Writer>(request, std::move(identity), std::move(token_text));
  }
  std::string error_body(const ApiError& error, std::string_view /*request_id*/) const override {
    return openai_error_json(error);
  }

 private:
  const Parse parse_;
};

}  // namespace

const Dialect& openai_chat_dialect() {
  static const OpenAiDialect<ChatWriter> dialect(parse_chat_request);
  return dialect;
}

const Dialect& openai_completion_dialect() {
  static const OpenAiDialect<CompletionWriter> dialect(parse_completion_request);
  return dialect;
}

}  // namespace ft::server
