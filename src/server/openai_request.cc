#include "server/openai_request.h"

#include "base/error.h"
#include "json/json.h"
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/request_fields.h"

#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

constexpr std::uint64_t kMaxTokenCount = std::uint64_t{1} << 31;
constexpr std::uint64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMaxDraftTokens = 64;
constexpr std::uint64_t kMaxTopK = std::uint64_t{1} << 31;
constexpr std::size_t kMaxSources = 16;
constexpr double kMaxTemperature = 100;
constexpr std::size_t kUsualCompletionTokens = 16;  // as OpenAI's
constexpr std::string_view kMissing = "missing_parameter";

json::Value parse_body(std::string_view body, const RequestLimits& limits) {
  try {
    return json::parse(body, "the request", {body.size() + 1, limits.max_depth});
  } catch (const InvalidInput& error) {
    throw ApiError({}, error.what(), "invalid_json");
  }
}

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

void read_biases(RequestFields& fields,
                 const RequestLimits& limits,
                 foretoken::SamplingOptions& out) {
  const json::Object* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > limits.max_biases) {
    throw ApiError(
        "logit_bias",
        fmt::format(
            "'logit_bias' has {} entries, expected at most {}", biases->size(), limits.max_biases));
  }
  RequestFields entries(*fields.find("logit_bias"), "logit_bias");
  for (const auto& [name, value] : *biases) {
    foretoken::Token id = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, id);
    if (error != std::errc() || stop != end || id < 0) {
      throw ApiError("logit_bias",
                     fmt::format("'logit_bias' has {}, expected ids", in_quotes(name)));
    }
    if (const auto bias = entries.real(name, -100, 100)) {
      out.logit_bias.emplace_back(id, static_cast<float>(*bias));
    }
  }
}

void read_sampling(RequestFields& fields,
                   const RequestLimits& limits,
                   foretoken::SamplingOptions& out) {
  const auto number =
      [&](std::string_view name, double least, double most) -> std::optional<float> {
    const std::optional<double> value = fields.real(name, least, most);
    return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
  };
  out.temperature = number("temperature", 0, kMaxTemperature);
  out.top_p = number("top_p", 0, 1);
  if (out.top_p && !(*out.top_p > 0)) throw ApiError("top_p", "'top_p' is 0, expected more");
  if (const auto k = fields.count("top_k", 0, kMaxTopK)) out.top_k = static_cast<std::size_t>(*k);
  out.min_p = number("min_p", 0, 1).value_or(out.min_p);
  out.presence_penalty = number("presence_penalty", -2, 2).value_or(out.presence_penalty);
  out.frequency_penalty = number("frequency_penalty", -2, 2).value_or(out.frequency_penalty);
  const std::optional<float> repetition = number("repetition_penalty", 0, 100);
  const std::optional<float> repeat = number("repeat_penalty", 0, 100);
  if (repetition && repeat) {
    throw ApiError("repeat_penalty", "'repeat_penalty' and 'repetition_penalty' are one; give one");
  }
  if (repetition || repeat) {
    out.repeat_penalty = repetition ? *repetition : *repeat;
    if (!(out.repeat_penalty > 0)) {
      throw ApiError(repetition ? "repetition_penalty" : "repeat_penalty",
                     "a repetition penalty of 0 has no meaning, expected more (1: off)");
    }
  }
  out.seed = fields.count("seed", 0, kMaxSeed);
  read_biases(fields, limits, out);
}

void check_stop(const std::string& stop, const std::string& path, const RequestLimits& limits) {
  if (stop.empty()) throw ApiError(path, fmt::format("'{}' is empty", path));
  if (stop.size() > limits.max_stop_bytes) {
    throw ApiError(
        path,
        fmt::format(
            "'{}' has {} bytes, expected at most {}", path, stop.size(), limits.max_stop_bytes));
  }
}

void read_stops(RequestFields& fields, const RequestLimits& limits, std::vector<std::string>& out) {
  const json::Value* stop = fields.find("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    check_stop(stop->as_string(""), "stop", limits);
    out = {stop->as_string("")};
    return;
  }
  const json::Array& stops = *fields.array("stop", limits.max_stops);
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const std::string path = fmt::format("stop[{}]", i);
    if (!stops[i].is_string())
      throw ApiError(path, fmt::format("'{}' is no string", path), "invalid_type");
    check_stop(stops[i].as_string(""), path, limits);
    out.push_back(stops[i].as_string(""));
  }
}

// "speculate": "mtp", "mtp,suffix" or ["mtp", "suffix"]. Which of them there are is the engine's to
// know.
void read_speculation(RequestFields& fields, foretoken::GenerationRequest& out) {
  if (const json::Value* sources = fields.find("speculate")) {
    out.speculate.clear();
    if (sources->is_string()) {
      std::string_view rest = sources->as_string("");
      while (true) {
        const std::size_t comma = rest.find(',');
        out.speculate.emplace_back(rest.substr(0, comma));
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
      }
    } else {
      for (const json::Value& name : *fields.array("speculate", kMaxSources)) {
        if (!name.is_string())
          throw ApiError("speculate", "'speculate' holds no strings", "invalid_type");
        out.speculate.push_back(name.as_string(""));
      }
    }
    bool has_empty = out.speculate.empty() || out.speculate.size() > kMaxSources;
    for (const std::string& name : out.speculate) has_empty = has_empty || name.empty();
    if (has_empty) {
      throw ApiError("speculate",
                     "'speculate' names no source; expected such as auto, none or mtp");
    }
  }
  const json::Value* drafts = fields.find("draft_tokens");
  if (drafts != nullptr && !(drafts->is_string() && drafts->as_string("") == "auto")) {
    out.draft_tokens = static_cast<std::size_t>(*fields.count("draft_tokens", 0, kMaxDraftTokens));
  }
  if (const std::string* accept = fields.string("accept")) {
    if (*accept != "match" && *accept != "ratio") {
      throw ApiError("accept",
                     fmt::format("'accept' is {}, expected match or ratio", in_quotes(*accept)));
    }
    out.accept = *accept;
  }
}

void read_prediction(RequestFields& fields, std::string& out) {
  if (fields.object("prediction") == nullptr) return;
  RequestFields prediction(*fields.find("prediction"), "prediction");
  prediction.only("type", {"content"}, "expected content");
  const json::Value* content = prediction.find("content");
  if (content == nullptr) {
    throw ApiError("prediction.content", "'prediction' has no content", std::string(kMissing));
  }
  out = content_text(*content, "prediction.content");
  prediction.finish();
}

void read_stream(RequestFields& fields, TextRequest& out) {
  out.is_stream = fields.boolean("stream").value_or(false);
  if (fields.object("stream_options") == nullptr) return;
  if (!out.is_stream) throw ApiError("stream_options", "'stream_options' needs 'stream': true");
  RequestFields options(*fields.find("stream_options"), "stream_options");
  out.includes_usage = options.boolean("include_usage").value_or(false);
  options.only("include_obfuscation", {"false"}, "streams are not padded");
  options.finish();
}

// What has no effect on a reply by its own definition, and what exists elsewhere but not here.
void read_rest(RequestFields& fields) {
  fields.string("user");
  fields.string("safety_identifier");
  fields.string("prompt_cache_key");
  fields.object("metadata");
  fields.only("store", {"false"}, "nothing is stored");
  fields.only("service_tier", {"auto", "default"}, "there is one tier");
  if (const json::Value* format = fields.find("response_format")) {
    RequestFields options(*format, "response_format");
    options.only("type", {"text"}, "constrained decoding does not exist here, expected text");
    options.finish();
  }
  for (const std::string_view name : {"grammar",
                                      "json_schema",
                                      "guided_json",
                                      "guided_regex",
                                      "guided_choice",
                                      "guided_grammar",
                                      "structured_outputs"}) {
    if (fields.find(name) != nullptr) {
      throw ApiError(std::string(name),
                     fmt::format("'{}': constrained decoding does not exist here", name),
                     "unsupported_parameter");
    }
  }
}

void read_common(RequestFields& fields, const RequestLimits& limits, TextRequest& out) {
  if (const std::string* model = fields.string("model")) out.model = *model;
  read_sampling(fields, limits, out.generation.sampling);
  read_stops(fields, limits, out.generation.stop);
  read_speculation(fields, out.generation);
  read_prediction(fields, out.prediction);
  read_stream(fields, out);
  out.generation.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  out.n = static_cast<std::size_t>(fields.count("n", 1, limits.max_choices).value_or(1));
  read_rest(fields);
}

std::vector<PromptText> read_prompts(RequestFields& fields, const RequestLimits& limits) {
  const json::Value* prompt = fields.find("prompt");
  if (prompt == nullptr) throw ApiError("prompt", "'prompt' is missing", std::string(kMissing));
  if (prompt->is_string()) return {prompt->as_string("")};
  if (!prompt->is_array() || prompt->as_array("").empty()) {
    throw ApiError("prompt", "'prompt' is neither text nor ids, nor an array of these");
  }
  const json::Array& entries = prompt->as_array("");
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

std::optional<std::size_t> token_limit(RequestFields& fields,
                                       std::string_view name,
                                       std::uint64_t least) {
  const std::optional<std::uint64_t> given = fields.count(name, least, kMaxTokenCount);
  return given ? std::optional(static_cast<std::size_t>(*given)) : std::nullopt;
}

}  // namespace

TextRequest parse_chat_request(std::string_view body, const RequestLimits& limits) {
  const json::Value document = parse_body(body, limits);
  RequestFields fields(document, {});
  TextRequest out;
  read_common(fields, limits, out);
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
  read_common(fields, limits, out);
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
        std::string(kMissing));
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
  const json::Array* tokens = fields.array("tokens", std::numeric_limits<std::size_t>::max());
  if (tokens == nullptr) throw ApiError("tokens", "'tokens' is missing", std::string(kMissing));
  std::vector<foretoken::Token> out = tokens_of(*tokens, "tokens");
  fields.finish();
  return out;
}

}  // namespace ft::server
