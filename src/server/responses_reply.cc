// Replies of /v1/responses: one choice, whose parts become items of `output`. The whole reply is
// what a stream's last event holds.
#include "json/json.h"
#include "server/dialect.h"
#include "server/reply_timings.h"
#include "server/responses_request.h"
#include "server/token_aligner.h"
#include "server/token_logprobs.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ft::server {
namespace {

using Delta = foretoken::ReplyDelta;

enum class ItemKind { kReasoning, kMessage, kCall };

// An entry of `output`.
struct Item {
  ItemKind kind = ItemKind::kMessage;
  std::size_t index = 0;
  std::string text;  // of calls: the arguments
  std::string name;  // of calls
  std::vector<foretoken::TokenLogprobs> logprobs;
  std::string_view status = "in_progress";

  // Calls come whole.
  void end(std::string_view how) { status = kind == ItemKind::kCall ? "completed" : how; }
};

ItemKind kind_of(Delta::Kind kind) {
  switch (kind) {
    case Delta::Kind::kReasoning:
      return ItemKind::kReasoning;
    case Delta::Kind::kContent:
      return ItemKind::kMessage;
    case Delta::Kind::kToolName:
    case Delta::Kind::kToolArguments:
      break;
  }
  return ItemKind::kCall;
}

// OpenAI's words for the error of a response.
std::string_view failure_code(const ApiError& error) {
  if (error.status >= 500) return "server_error";
  return error.status == 429 ? "rate_limit_exceeded" : "invalid_prompt";
}

void write_usage(json::Writer& out, const Choice& choice) {
  const foretoken::Usage& usage = choice.completion.usage;
  const auto member = [&out](std::string_view name, std::size_t n) {
    out.member(name, static_cast<std::uint64_t>(n));
  };
  out.begin_object();
  member("input_tokens", usage.prompt_tokens);
  out.key("input_tokens_details").begin_object();
  member("cached_tokens", usage.cached_tokens);
  out.member("cache_write_tokens", 0).end_object();  // a thing of bills: nothing is charged
  member("output_tokens", usage.completion_tokens);
  out.key("output_tokens_details").begin_object();
  member("reasoning_tokens", choice.n_reasoning_tokens);
  out.end_object();
  member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  out.end_object();
}

class ResponsesWriter final : public ReplyWriter {
 public:
  ResponsesWriter(const TextRequest& request, ReplyIdentity identity, TokenText token_text)
      : identity_(std::move(identity)),
        token_text_(std::move(token_text)),
        has_logprobs_(request.generation.logprobs.has_value()),
        aligner_(token_text_) {
    for (const auto& [name, value] : request.repeated) {
      repeated_ += fmt::format(",\"{}\":{}", name, value);
    }
  }

  std::string whole(std::span<const Choice> choices) override {
    const Choice& choice = choices.front();
    part(choice.index, choice.reply);
    end_choice(choice);
    return response(end_status(choice), &choice, nullptr);
  }

  std::string begin(std::size_t /*n_choices*/) override {
    const std::string empty = response("in_progress", nullptr, nullptr);
    std::string out = response_event("response.created", empty);
    return out + response_event("response.in_progress", empty);
  }

  std::string part(std::size_t /*choice*/, const ReplyPart& part) override {
    if (has_logprobs_) aligner_.push(part.logprobs);
    std::string out;
    for (const Delta& delta : part.deltas) {
      if (!continues_item(delta)) {
        out += close_item("completed");
        out += open_item(delta);
      }
      if (delta.kind != Delta::Kind::kToolName) out += extend_item(delta.text);
    }
    return out;
  }

  std::string end_choice(const Choice& choice) override { return close_item(end_status(choice)); }

  std::string end(std::span<const Choice> choices) override {
    const std::string_view status = end_status(choices.front());
    return response_event(fmt::format("response.{}", status),
                          response(status, &choices.front(), nullptr));
  }

  std::string error(const ApiError& error) override {
    const auto write_error = [&error](json::Writer& out) {
      out.key("code");
      error.code.empty() ? out.null() : out.value(error.code);
      out.member("message", error.message).key("param");
      error.param.empty() ? out.null() : out.value(error.param);
    };
    // Clients differ in where they look: in the event itself, or in a member `error`.
    std::string out = event("error", [&](json::Writer& text) {
      write_error(text);
      text.key("error").begin_object().member("type", openai_error_type(error.status));
      write_error(text);
      text.end_object();
    });
    if (is_open()) items_.back().end("incomplete");
    return out + response_event("response.failed", response("failed", nullptr, &error));
  }

 private:
  static std::string_view end_status(const Choice& choice) {
    return choice.completion.finish_reason == foretoken::FinishReason::kStop ? "completed"
                                                                             : "incomplete";
  }

  bool is_open() const { return !items_.empty() && items_.back().status == "in_progress"; }
  bool continues_item(const Delta& delta) const {
    return is_open() && delta.kind != Delta::Kind::kToolName &&
           items_.back().kind == kind_of(delta.kind);
  }

  std::string item_id(const Item& item) const {
    const char* prefix = item.kind == ItemKind::kReasoning ? "rs"
                         : item.kind == ItemKind::kMessage ? "msg"
                                                           : "fc";
    return fmt::format("{}_{}_{}", prefix, identity_.request_id, item.index);
  }

  template <typename Write>
  std::string event(std::string_view type, const Write& write) {
    json::Writer out;
    out.begin_object().member("type", type).member("sequence_number", n_events_++);
    write(out);
    out.end_object();
    return fmt::format("event: {}\ndata: {}\n\n", type, out.text());
  }
  // Of the open item.
  template <typename Write>
  std::string item_event(std::string_view type, const Write& write) {
    return event(type, [&](json::Writer& out) {
      const Item& item = items_.back();
      out.member("item_id", item_id(item));
      out.member("output_index", static_cast<std::uint64_t>(item.index));
      if (item.kind != ItemKind::kCall) out.member("content_index", 0);
      write(out);
    });
  }
  std::string response_event(std::string_view type, std::string_view response) {
    return fmt::format(
        "event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1},\"response\":{2}}}\n\n",
        type,
        n_events_++,
        response);
  }
  std::string whole_item_event(std::string_view type) {
    return event(type, [&](json::Writer& out) {
      out.member("output_index", static_cast<std::uint64_t>(items_.back().index)).key("item");
      write_item(out, items_.back());
    });
  }

  std::string open_item(const Delta& delta) {
    Item& item = items_.emplace_back();
    item.kind = kind_of(delta.kind);
    item.index = items_.size() - 1;
    if (item.kind == ItemKind::kCall) item.name = delta.text;
    std::string out = whole_item_event("response.output_item.added");
    if (item.kind == ItemKind::kCall) return out;
    return out + item_event("response.content_part.added", [&](json::Writer& text) {
             text.key("part");
             write_part(text, item);
           });
  }

  std::string extend_item(std::string_view text) {
    Item& item = items_.back();
    item.text += text;
    std::vector<foretoken::TokenLogprobs> logprobs;
    if (has_logprobs_ && item.kind != ItemKind::kCall) logprobs = aligner_.take(text);
    if (item.kind == ItemKind::kMessage) {
      item.logprobs.insert(item.logprobs.end(), logprobs.begin(), logprobs.end());
    }
    return item_event(delta_type(item.kind), [&](json::Writer& out) {
      out.member("delta", text);
      if (item.kind == ItemKind::kMessage) write_logprobs(out, logprobs);
    });
  }

  std::string close_item(std::string_view status) {
    if (!is_open()) return {};
    aligner_.end_text();
    Item& item = items_.back();
    std::string out = item_event(done_type(item.kind), [&](json::Writer& text) {
      if (item.kind == ItemKind::kCall) {
        text.member("name", item.name).member("arguments", item.text);
      } else {
        text.member("text", item.text);
      }
      if (item.kind == ItemKind::kMessage) write_logprobs(text, item.logprobs);
    });
    if (item.kind != ItemKind::kCall) {
      out += item_event("response.content_part.done", [&](json::Writer& text) {
        text.key("part");
        write_part(text, item);
      });
    }
    item.end(status);
    return out + whole_item_event("response.output_item.done");
  }

  static std::string_view delta_type(ItemKind kind) {
    switch (kind) {
      case ItemKind::kReasoning:
        return "response.reasoning_text.delta";
      case ItemKind::kMessage:
        return "response.output_text.delta";
      case ItemKind::kCall:
        break;
    }
    return "response.function_call_arguments.delta";
  }
  static std::string_view done_type(ItemKind kind) {
    switch (kind) {
      case ItemKind::kReasoning:
        return "response.reasoning_text.done";
      case ItemKind::kMessage:
        return "response.output_text.done";
      case ItemKind::kCall:
        break;
    }
    return "response.function_call_arguments.done";
  }

  void write_logprobs(json::Writer& out, std::span<const foretoken::TokenLogprobs> logprobs) const {
    write_token_logprobs(out.key("logprobs"), logprobs, token_text_);
  }

  void write_part(json::Writer& out, const Item& item) const {
    out.begin_object();
    if (item.kind == ItemKind::kReasoning) {
      out.member("type", "reasoning_text").member("text", item.text);
    } else {
      out.member("type", "output_text").member("text", item.text);
      out.key("annotations").begin_array().end_array();
      write_logprobs(out, item.logprobs);
    }
    out.end_object();
  }

  void write_item(json::Writer& out, const Item& item) const {
    out.begin_object().member("id", item_id(item));
    if (item.kind == ItemKind::kCall) {
      out.member("type", "function_call").member("status", item.status);
      out.member("call_id", fmt::format("call_{}_{}", identity_.request_id, item.index));
      out.member("name", item.name).member("arguments", item.text).end_object();
      return;
    }
    if (item.kind == ItemKind::kReasoning) {
      out.member("type", "reasoning").key("summary").begin_array().end_array();
    } else {
      out.member("type", "message").member("role", "assistant");
    }
    out.member("status", item.status).key("content").begin_array();
    // An item that was just added has no part yet: an event of its own adds it.
    if (!item.text.empty()) write_part(out, item);
    out.end_array().end_object();
  }

  // The object `response`. `choice`: that ended; `error`: that ended it.
  std::string response(std::string_view status, const Choice* choice, const ApiError* error) const {
    json::Writer out;
    out.begin_object().member("id", "resp_" + identity_.request_id).member("object", "response");
    out.member("created_at", identity_.created).member("status", status).key("error");
    if (error == nullptr) {
      out.null();
    } else {
      out.begin_object().member("code", failure_code(*error));
      out.member("message", error->message).end_object();
    }
    out.key("incomplete_details");
    if (status == "incomplete") {
      out.begin_object().member("reason", "max_output_tokens").end_object();
    } else {
      out.null();
    }
    out.member("model", identity_.model).key("output").begin_array();
    for (const Item& item : items_) write_item(out, item);
    out.end_array().member("service_tier", "default");
    if (choice != nullptr) {
      write_usage(out.key("usage"), *choice);
      out.member("system_fingerprint", identity_.fingerprint);
      out.member("seed", choice->completion.seed).key("stop_reason");
      write_stop_reason(out, choice->completion);
      out.key("timings");
      write_timings(out, choice->completion);
    }
    out.end_object();
    std::string text = out.text();
    text.insert(text.size() - 1, repeated_);
    return text;
  }

  const ReplyIdentity identity_;
  const TokenText token_text_;
  const bool has_logprobs_;
  std::string repeated_;  // members of the response
  TokenAligner aligner_;
  std::vector<Item> items_;
  std::uint64_t n_events_ = 0;
};

class ResponsesDialect final : public Dialect {
 public:
  TextRequest parse(std::string_view body, const RequestLimits& limits) const override {
    return parse_responses_request(body, limits);
  }
  std::unique_ptr<ReplyWriter> writer(const TextRequest& request,
                                      ReplyIdentity identity,
                                      TokenText token_text) const override {
    return std::make_unique<ResponsesWriter>(request, std::move(identity), std::move(token_text));
  }
  std::string error_body(const ApiError& error, std::string_view /*request_id*/) const override {
    return openai_error_json(error);
  }
};

}  // namespace

const Dialect& responses_dialect() {
  static const ResponsesDialect dialect;
  return dialect;
}

}  // namespace ft::server
