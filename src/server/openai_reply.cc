#include "server/openai_reply.h"

namespace ft::server {
namespace {

std::string_view finish_name(foretoken::FinishReason reason) {
  return reason == foretoken::FinishReason::kStop ? "stop" : "length";
}

void begin(json::Writer& out, const ReplyIdentity& identity, bool is_chunk) {
  const bool is_chat = identity.kind == ReplyKind::kChat;
  const char* object = !is_chat   ? "text_completion"
                       : is_chunk ? "chat.completion.chunk"
                                  : "chat.completion";
  out.begin_object().member("id", identity.id).member("object", object);
  out.member("created", identity.created).member("model", identity.model);
  out.member("system_fingerprint", identity.fingerprint);
}

void write_token(json::Writer& out,
                 const foretoken::TokenLogprob& token,
                 const TokenText& token_text) {
  const std::string bytes = token_text(token.id);
  out.member("token", bytes).member("logprob", token.logprob).key("bytes").begin_array();
  for (const char byte : bytes) out.value(static_cast<int>(static_cast<unsigned char>(byte)));
  out.end_array();
}

void write_chat_logprobs(json::Writer& out,
                         const ReplyTokens& tokens,
                         const TokenText& token_text) {
  out.begin_object().key("content").begin_array();
  for (const foretoken::TokenLogprobs& token : tokens.logprobs) {
    out.begin_object();
    write_token(out, token.chosen, token_text);
    out.key("top_logprobs").begin_array();
    for (const foretoken::TokenLogprob& top : token.top) {
      out.begin_object();
      write_token(out, top, token_text);
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array().key("refusal").null().end_object();
}

void write_completion_logprobs(json::Writer& out,
                               const ReplyTokens& tokens,
                               std::size_t text_offset,
                               const TokenText& token_text) {
  out.begin_object().key("tokens").begin_array();
  for (const auto& token : tokens.logprobs) out.value(token_text(token.chosen.id));
  out.end_array().key("token_logprobs").begin_array();
  for (const auto& token : tokens.logprobs) out.value(token.chosen.logprob);
  out.end_array().key("top_logprobs").begin_array();
  for (const auto& token : tokens.logprobs) {
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
  for (const auto& token : tokens.logprobs) {
    out.value(static_cast<std::uint64_t>(text_offset));
    text_offset += token_text(token.chosen.id).size();
  }
  out.end_array().end_object();
}

void write_logprobs(json::Writer& out,
                    ReplyKind kind,
                    const ReplyTokens& tokens,
                    std::size_t text_offset,
                    bool has_logprobs,
                    const TokenText& token_text) {
  out.key("logprobs");
  if (!has_logprobs) {
    out.null();
  } else if (kind == ReplyKind::kChat) {
    write_chat_logprobs(out, tokens, token_text);
  } else {
    write_completion_logprobs(out, tokens, text_offset, token_text);
  }
}

void write_usage(json::Writer& out,
                 std::span<const Choice> choices,
                 std::size_t choices_per_prompt) {
  std::uint64_t n_prompt = 0;
  std::uint64_t n_cached = 0;
  std::uint64_t n_completion = 0;
  std::uint64_t n_accepted = 0;
  std::uint64_t n_rejected = 0;
  for (const Choice& choice : choices) {
    const foretoken::Completion& completion = choice.completion;
    if (choice.index % choices_per_prompt == 0) {
      n_prompt += completion.usage.prompt_tokens;
      n_cached += completion.usage.cached_tokens;
    }
    n_completion += completion.usage.completion_tokens;
    const auto prediction = completion.speculation.by_source.find("prediction");
    if (prediction == completion.speculation.by_source.end()) continue;
    n_accepted += prediction->second.accepted;
    n_rejected += prediction->second.drafted - prediction->second.accepted;
  }
  out.begin_object().member("prompt_tokens", n_prompt).member("completion_tokens", n_completion);
  out.member("total_tokens", n_prompt + n_completion);
  out.key("prompt_tokens_details").begin_object().member("cached_tokens", n_cached).end_object();
  out.key("completion_tokens_details").begin_object();
  out.member("accepted_prediction_tokens", n_accepted)
      .member("rejected_prediction_tokens", n_rejected);
  out.end_object().end_object();
}

// As llama-server gives them.
void write_timings(json::Writer& out, const foretoken::Completion& completion) {
  const foretoken::Timings& timings = completion.timings;
  const auto per_token = [](double ms, std::size_t n) {
    return n == 0 ? 0.0 : ms / static_cast<double>(n);
  };
  out.begin_object();
  out.member("cache_n", static_cast<std::uint64_t>(completion.usage.cached_tokens));
  out.member("prompt_n", static_cast<std::uint64_t>(timings.prompt_n))
      .member("prompt_ms", timings.prompt_ms);
  out.member("prompt_per_token_ms", per_token(timings.prompt_ms, timings.prompt_n));
  out.member("prompt_per_second", timings.prompt_per_second);
  out.member("predicted_n", static_cast<std::uint64_t>(timings.predicted_n));
  out.member("predicted_ms", timings.predicted_ms);
  out.member("predicted_per_token_ms", per_token(timings.predicted_ms, timings.predicted_n));
  out.member("predicted_per_second", timings.predicted_per_second);
  out.member("time_to_first_token_ms", timings.time_to_first_token_ms);
  out.member("draft_n", static_cast<std::uint64_t>(completion.speculation.drafted));
  out.member("draft_n_accepted", static_cast<std::uint64_t>(completion.speculation.accepted));
  out.end_object();
}

void write_end(json::Writer& out, const foretoken::Completion& completion) {
  out.member("finish_reason", finish_name(completion.finish_reason));
  out.key("stop_reason");
  completion.stop ? out.value(*completion.stop) : out.null();
  out.member("seed", completion.seed);
  out.key("timings");
  write_timings(out, completion);
}

}  // namespace

std::string reply_json(const ReplyIdentity& identity,
                       std::span<const Choice> choices,
                       std::size_t choices_per_prompt,
                       bool has_logprobs,
                       const TokenText& token_text) {
  json::Writer out;
  begin(out, identity, false);
  out.key("choices").begin_array();
  for (const Choice& choice : choices) {
    out.begin_object().member("index", static_cast<std::uint64_t>(choice.index));
    if (identity.kind == ReplyKind::kChat) {
      out.key("message").begin_object().member("role", "assistant");
      out.member("content", choice.tokens.text).key("refusal").null().end_object();
    } else {
      out.member("text", choice.tokens.text);
    }
    write_logprobs(out, identity.kind, choice.tokens, 0, has_logprobs, token_text);
    write_end(out, choice.completion);
    out.end_object();
  }
  out.end_array().key("usage");
  write_usage(out, choices, choices_per_prompt);
  out.end_object();
  return out.text();
}

std::string role_chunk(const ReplyIdentity& identity, std::size_t index) {
  json::Writer out;
  begin(out, identity, true);
  out.key("choices").begin_array().begin_object().member("index",
                                                         static_cast<std::uint64_t>(index));
  out.key("delta").begin_object().member("role", "assistant").member("content", "").end_object();
  out.key("logprobs").null().key("finish_reason").null();
  out.end_object().end_array().end_object();
  return out.text();
}

std::string text_chunk(const ReplyIdentity& identity,
                       std::size_t index,
                       const ReplyTokens& tokens,
                       std::size_t text_offset,
                       bool has_logprobs,
                       const TokenText& token_text) {
  json::Writer out;
  begin(out, identity, true);
  out.key("choices").begin_array().begin_object().member("index",
                                                         static_cast<std::uint64_t>(index));
  if (identity.kind == ReplyKind::kChat) {
    out.key("delta").begin_object().member("content", tokens.text).end_object();
  } else {
    out.member("text", tokens.text);
  }
  write_logprobs(out, identity.kind, tokens, text_offset, has_logprobs, token_text);
  out.key("finish_reason").null().end_object().end_array().end_object();
  return out.text();
}

std::string finish_chunk(const ReplyIdentity& identity,
                         std::size_t index,
                         const foretoken::Completion& completion) {
  json::Writer out;
  begin(out, identity, true);
  out.key("choices").begin_array().begin_object().member("index",
                                                         static_cast<std::uint64_t>(index));
  if (identity.kind == ReplyKind::kChat) {
    out.key("delta").begin_object().end_object();
  } else {
    out.member("text", "");
  }
  out.key("logprobs").null();
  write_end(out, completion);
  out.end_object().end_array().end_object();
  return out.text();
}

std::string usage_chunk(const ReplyIdentity& identity,
                        std::span<const Choice> choices,
                        std::size_t choices_per_prompt) {
  json::Writer out;
  begin(out, identity, true);
  out.key("choices").begin_array().end_array().key("usage");
  write_usage(out, choices, choices_per_prompt);
  out.end_object();
  return out.text();
}

}  // namespace ft::server
