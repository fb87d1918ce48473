#include "server/openai_request.h"

#include "base/error.h"
#include "json/json.h"
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/generation_fields.h"
#include "server/openai_fields.h"
#include "server/request_fields.h"

#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

constexpr std::size_t kUsualCompletionTokens = 16;  // as OpenAI's

foretoken::Token token_of(const json::Value& value, const std::string& path) {
  try {
    const std::int64_t id = value.as_integer("");
    if (id >= 0 && id <= std::numeric_limits<foretoken::Token>::max()) {
      return static_cast<foretoken::Token>(id);
    }
  } catch (const InvalidInput&) {  // no number, or not whole: refused below
  }
  throw ApiError(path, fmt::format("'{}' is no token id", path));
}

std::vector<foretoken::Token> tokens_of(const json::Array& values, const std::string& path) {
  std::vector<foretoken::Token> out;
  out.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    out.push_back(token_of(values[i], fmt::format("{}[{}]", path, i)));
  }
  return out;
}

void read_prediction(RequestFields& fields, std::string& out) {
  std::optional<RequestFields> prediction = fields.nested("prediction");
  if (!prediction) return;
  prediction->only("type", {"content"}, "expected content");
  out = content_text(prediction->required("content"), prediction->path_of("content"));
  prediction->finish();
}

// What chats and completions have in common.
void read_shared(RequestFields& fields, const RequestLimits& limits, TextRequest& out) {
  read_openai_fields(fields, limits, out);
  if (std::optional<RequestFields> options = read_stream(fields, out)) {
    out.includes_usage = options->boolean("include_usage").value_or(false);
    out.includes_rounds = options->boolean("include_rounds").value_or(false);
    options->finish();
  }
  read_prediction(fields, out.prediction);
  out.n = static_cast<std::size_t>(fields.count("n", 1, limits.max_choices).value_or(1));
  check_text_format(fields, "response_format");
  fields.refuse({"grammar",
                 "json_schema",
                 "guided_json",
                 "guided_regex",
                 "guided_choice",
                 "guided_grammar",
                 "structured_outputs"},
                "constrained decoding does not exist here");
}

std::vector<PromptText> read_prompts(RequestFields& fields, const RequestLimits& limits) {
  const json::Value& prompt = fields.required("prompt");
  if (prompt.is_string()) return {prompt.as_string("")};
  if (!prompt.is_array() || prompt.as_array("").empty()) {
    throw ApiError("prompt", "'prompt' is neither text nor ids, nor an array of these");
  }
  const json::Array& entries = prompt.as_array("");
  if (entries[0].is_number()) return {tokens_of(entries, "prompt")};
  if (entries.size() > limits.max_choices) {
    throw ApiError(
        "prompt",
        fmt::format(
            "'prompt' has {} prompts, expected at most {}", entries.size(), limits.max_choices));
  }
  std::vector<PromptText> out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string path = fmt::format("prompt[{}]", i);
    if (entries[i].is_string()) {
      out.emplace_back(entries[i].as_string(""));
    } else if (entries[i].is_array()) {
      out.emplace_back(tokens_of(entries[i].as_array(""), path));
    } else {
      throw ApiError(path, fmt::format("'{}' is neither text nor ids", path), "invalid_type");
    }
  }
  return out;
}

}  // namespace

TextRequest parse_chat_request(std::string_view body, const RequestLimits& limits) {
  const json::Value document = parse_body(body, limits);
  RequestFields fields(document, {});
  TextRequest out;
  read_shared(fields, limits, out);
  const auto old_limit = token_limit(fields, "max_tokens", 1);
  out.max_tokens = token_limit(fields, "max_completion_tokens", 1);
  if (old_limit && out.max_tokens && *old_limit != *out.max_tokens) {
    throw ApiError("max_tokens", "'max_tokens' contradicts 'max_completion_tokens'; give one");
  }
  if (!out.max_tokens) out.max_tokens = old_limit;

  const bool has_logprobs = fields.boolean("logprobs").value_or(false);
  const auto n_top = fields.count("top_logprobs", 0, limits.max_top_logprobs);
  if (n_top && !has_logprobs)
    throw ApiError("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  if (has_logprobs) out.generation.logprobs = static_cast<std::size_t>(n_top.value_or(0));

  if (const json::Array* modalities = fields.array("modalities", 1)) {
    if (modalities->size() != 1 || !(*modalities)[0].is_string() ||
        (*modalities)[0].as_string("") != "text") {
      throw ApiError("modalities", "'modalities' is more than text", "unsupported_value");
    }
  }
  read_chat(fields, limits, out);
  fields.finish();
  return out;
}

TextRequest parse_completion_request(std::string_view body, const RequestLimits& limits) {
  const json::Value document = parse_body(body, limits);
  RequestFields fields(document, {});
  TextRequest out;
  out.prompt_param = "prompt";
  out.usual_max_tokens = kUsualCompletionTokens;
  read_shared(fields, limits, out);
  out.echoes = fields.boolean("echo").value_or(false);
  out.max_tokens = token_limit(fields, "max_tokens", out.echoes ? 0 : 1);
  if (out.max_tokens == std::size_t{0} && out.is_stream) {
    throw ApiError("max_tokens", "'max_tokens' is 0: there is nothing to stream");
  }
  if (const auto n_top = fields.count("logprobs", 0, limits.max_top_logprobs)) {
    if (out.echoes) throw ApiError("logprobs", "'logprobs' of an echoed prompt are not computed");
    out.generation.logprobs = static_cast<std::size_t>(*n_top);
  }
  const std::uint64_t best_of = fields.count("best_of", 1, limits.max_choices).value_or(out.n);
  if (best_of != out.n)
    throw ApiError("best_of", "'best_of' differs from 'n': choices are not ranked");
  fields.only("suffix", {""}, "text is only generated at the end");
  out.prompts = read_prompts(fields, limits);
  if (out.prompts.size() * out.n > limits.max_choices) {
    throw ApiError("n",
                   fmt::format("'n' of {} for {} prompts makes {} choices, expected at most {}",
                               out.n,
                               out.prompts.size(),
                               out.prompts.size() * out.n,
                               limits.max_choices));
  }
  fields.finish();
  return out;
}

TokenizeRequest parse_tokenize_request(std::string_view body, const RequestLimits& limits) {
  const json::Value document = parse_body(body, limits);
  RequestFields fields(document, {});
  TokenizeRequest out;
  fields.string("model");
  const std::string* content = fields.string("content");
  const std::string* prompt = fields.string("prompt");
  const bool has_messages = fields.find("messages") != nullptr;
  const int n_given =
      (content != nullptr ? 1 : 0) + (prompt != nullptr ? 1 : 0) + (has_messages ? 1 : 0);
  if (n_given != 1) {
    throw ApiError(
        "content",
        fmt::format("{} of 'content', 'prompt' and 'messages' are given, expected one", n_given),
        kMissing);
  }
  if (has_messages) {
    TextRequest chat;
    read_chat(fields, limits, chat);
    out.chat_json = std::move(chat.chat_json);
  } else {
    out.text = content != nullptr ? *content : *prompt;
  }
  fields.finish();
  return out;
}

std::vector<foretoken::Token> parse_detokenize_request(std::string_view body,
                                                       const RequestLimits& limits) {
  const json::Value document = parse_body(body, limits);
  RequestFields fields(document, {});
  fields.string("model");
  fields.required("tokens");
  const json::Array& tokens = *fields.array("tokens", std::numeric_limits<std::size_t>::max());
  std::vector<foretoken::Token> out = tokens_of(tokens, "tokens");
  fields.finish();
  return out;
}

}  // namespace ft::server
