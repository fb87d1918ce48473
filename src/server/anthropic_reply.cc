// Replies of Anthropic's /v1/messages: messages of blocks, and streams of named events.
#include "json/json.h"
#include "server/anthropic_request.h"
#include "server/dialect.h"
#include "server/reply_timings.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

using Kind = foretoken::ReplyDelta::Kind;

// Of thinking blocks, where clients expect to find one. Nothing is signed, nothing is checked.
constexpr std::string_view kSignature = "unsigned";
// Of a call's input: more than its values were parsed with.
constexpr std::size_t kMaxInputDepth = 128;

std::string event(std::string_view name, const json::Writer& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data.text());
}

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
    case 431:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

json::Writer error_object(const ApiError& error, std::string_view request_id) {
  json::Writer out;
  out.begin_object().member("type", "error").key("error").begin_object();
  out.member("type", error_type(error.status)).member("message", error.message);
  if (!error.param.empty()) out.member("param", error.param);
  if (!error.code.empty()) {
    out.member("code", error.code);
    out.key("details").begin_object().member("error_code", error.code).end_object();
  }
  out.end_object().member("request_id", request_id).end_object();
  return out;
}

class AnthropicWriter final : public ReplyWriter {
 public:
  AnthropicWriter(const TextRequest& request, ReplyIdentity identity)
      : identity_(std::move(identity)), max_tokens_(request.max_tokens.value_or(0)) {}

  std::string whole(std::span<const Choice> choices) override {
    const Choice& choice = choices.front();
    json::Writer out;
    begin_message(out);
    out.key("content").begin_array();
    write_blocks(out, choice.reply);
    out.end_array();
    write_stop(out, &choice);
    write_message_end(out, choice);
    write_extensions(out, choice);
    out.end_object();
    return out.text();
  }

  std::string begin(std::size_t /*n_choices*/) override {
    json::Writer out;
    out.begin_object().member("type", "message_start").key("message");
    begin_message(out);
    out.key("content").begin_array().end_array();
    write_stop(out, nullptr);
    Choice nothing;  // what was cached is known at the end alone
    nothing.completion.usage.prompt_tokens = identity_.n_prompt_tokens;
    write_message_end(out, nothing);
    out.end_object().end_object();
    json::Writer ping;
    ping.begin_object().member("type", "ping").end_object();
    return event("message_start", out) + event("ping", ping);
  }

  std::string part(std::size_t /*choice*/, const ReplyPart& part) override {
    std::string out;
    for (const foretoken::ReplyDelta& delta : part.deltas) {
      if (!is_open(delta)) {
        out += end_block();
        out += begin_block(delta);
      }
      if (delta.kind != Kind::kToolName && !delta.text.empty()) out += block_delta(delta);
    }
    return out;
  }

  std::string end_choice(const Choice& choice) override {
    json::Writer out;
    out.begin_object().member("type", "message_delta").key("delta").begin_object();
    write_stop(out, &choice);
    out.end_object().key("usage").begin_object();
    write_usage(out, choice);
    out.end_object();
    write_extensions(out, choice);
    out.end_object();
    return end_block() + event("message_delta", out);
  }

  std::string end(std::span<const Choice> /*choices*/) override {
    json::Writer out;
    out.begin_object().member("type", "message_stop").end_object();
    return event("message_stop", out);
  }

  std::string error(const ApiError& error) override {
    return event("error", error_object(error, identity_.request_id));
  }

 private:
  void begin_message(json::Writer& out) const {
    out.begin_object().member("id", "msg_" + identity_.request_id).member("type", "message");
    out.member("role", "assistant").member("model", identity_.model);
  }

  // nullptr: not yet.
  void write_stop(json::Writer& out, const Choice* choice) const {
    const foretoken::Completion none;
    const foretoken::Completion& completion = choice == nullptr ? none : choice->completion;
    out.key("stop_reason");
    if (choice == nullptr) {
      out.null();
    } else if (completion.finish_reason != foretoken::FinishReason::kStop) {
      const bool is_asked = completion.usage.completion_tokens >= max_tokens_ ||
                            completion.finish_reason == foretoken::FinishReason::kTimeout;
      out.value(is_asked ? "max_tokens" : "model_context_window_exceeded");
    } else if (completion.stop) {
      out.value("stop_sequence");
    } else {
      out.value(choice->n_calls > 0 ? "tool_use" : "end_turn");
    }
    out.key("stop_sequence");
    completion.stop ? out.value(*completion.stop) : out.null();
    out.key("stop_details").null().key("container").null();
  }

  // Usage as messages have it, then what stands behind it; ends of streams have less.
  static void write_message_end(json::Writer& out, const Choice& choice) {
    out.key("usage").begin_object();
    write_usage(out, choice);
    out.key("cache_creation").null().key("inference_geo").null();
    out.member("service_tier", "standard").key("speed").null().end_object();
    out.key("diagnostics").null();
  }

  static void write_usage(json::Writer& out, const Choice& choice) {
    const foretoken::Usage& usage = choice.completion.usage;
    out.member("input_tokens",
               static_cast<std::uint64_t>(usage.prompt_tokens - usage.cached_tokens));
    out.member("cache_creation_input_tokens", 0);
    out.member("cache_read_input_tokens", static_cast<std::uint64_t>(usage.cached_tokens));
    out.member("output_tokens", static_cast<std::uint64_t>(usage.completion_tokens));
    out.key("output_tokens_details").begin_object();
    out.member("thinking_tokens", static_cast<std::uint64_t>(choice.n_reasoning_tokens));
    out.end_object().key("server_tool_use").null();
  }

  static void write_extensions(json::Writer& out, const Choice& choice) {
    out.member("seed", choice.completion.seed).key("timings");
    write_timings(out, choice.completion);
  }

  // The opening of a block, its own object left open for what it holds.
  void begin_block_object(json::Writer& out, const foretoken::ReplyDelta& delta) const {
    out.begin_object();
    switch (delta.kind) {
      case Kind::kReasoning:
        out.member("type", "thinking");
        return;
      case Kind::kContent:
        out.member("type", "text").key("citations").null();
        return;
      case Kind::kToolName:
      case Kind::kToolArguments:
        break;
    }
    // Ids of requests may have dots, those of calls not.
    std::string id = fmt::format("toolu_{}_{}", identity_.request_id, delta.call_index);
    std::replace(id.begin(), id.end(), '.', '_');
    out.member("type", "tool_use").member("id", id).member("name", delta.text);
    out.key("caller").begin_object().member("type", "direct").end_object();
  }

  void write_blocks(json::Writer& out, const ReplyPart& reply) const {
    for (const foretoken::ReplyDelta& delta : reply.deltas) {
      switch (delta.kind) {
        case Kind::kReasoning:
          begin_block_object(out, delta);
          out.member("thinking", delta.text).member("signature", kSignature).end_object();
          break;
        case Kind::kContent:
          begin_block_object(out, delta);
          out.member("text", delta.text).end_object();
          break;
        case Kind::kToolName:
          begin_block_object(out, delta);
          break;
        case Kind::kToolArguments:  // all of them, behind the name
          out.key("input").value(
              json::parse(delta.text, "tool input", {delta.text.size() + 1, kMaxInputDepth}));
          out.end_object();
          break;
      }
    }
  }

  // --- streams ---

  bool is_open(const foretoken::ReplyDelta& delta) const {
    if (!open_ || delta.kind == Kind::kToolName) return false;
    return delta.kind == *open_ ||
           (delta.kind == Kind::kToolArguments && *open_ == Kind::kToolName);
  }

  json::Writer begin_block_event(std::string_view type) const {
    json::Writer out;
    out.begin_object().member("type", type).member("index", n_blocks_);
    return out;
  }

  std::string begin_block(const foretoken::ReplyDelta& delta) {
    open_ = delta.kind;
    json::Writer out = begin_block_event("content_block_start");
    out.key("content_block");
    begin_block_object(out, delta);
    if (delta.kind == Kind::kReasoning) {
      out.member("thinking", "").member("signature", "");
    } else if (delta.kind == Kind::kContent) {
      out.member("text", "");
    } else {
      out.key("input").begin_object().end_object();
    }
    out.end_object().end_object();
    return event("content_block_start", out);
  }

  std::string block_delta(const foretoken::ReplyDelta& delta) const {
    switch (delta.kind) {
      case Kind::kReasoning:
        return block_delta("thinking_delta", "thinking", delta.text);
      case Kind::kContent:
        return block_delta("text_delta", "text", delta.text);
      case Kind::kToolName:
      case Kind::kToolArguments:
        break;
    }
    return block_delta("input_json_delta", "partial_json", delta.text);
  }

  std::string block_delta(std::string_view type,
                          std::string_view member,
                          std::string_view text) const {
    json::Writer out = begin_block_event("content_block_delta");
    out.key("delta").begin_object().member("type", type).member(member, text);
    out.end_object().end_object();
    return event("content_block_delta", out);
  }

  std::string end_block() {
    if (!open_) return {};
    std::string out;
    if (*open_ == Kind::kReasoning) out = block_delta("signature_delta", "signature", kSignature);
    json::Writer stop = begin_block_event("content_block_stop");
    out += event("content_block_stop", stop.end_object());
    open_.reset();
    ++n_blocks_;
    return out;
  }

  const ReplyIdentity identity_;
  const std::size_t max_tokens_;
  // Of a stream.
  std::optional<Kind> open_;    // what began the block that is open
  std::uint64_t n_blocks_ = 0;  // that ended
};

class AnthropicDialect final : public Dialect {
 public:
  TextRequest parse(std::string_view body, const RequestLimits& limits) const override {
    return parse_anthropic_request(body, limits);
  }
  std::unique_ptr<ReplyWriter> writer(const TextRequest& request,
                                      ReplyIdentity identity,
                                      TokenText /*token_text*/) const override {
    return std::make_unique<AnthropicWriter>(request, std::move(identity));
  }
  std::string error_body(const ApiError& error, std::string_view request_id) const override {
    return error_object(error, request_id).text();
  }
  std::string_view id_header() const override { return "Request-Id"; }
};

}  // namespace

const Dialect& anthropic_dialect() {
  static const AnthropicDialect dialect;
  return dialect;
}

}  // namespace ft::server
