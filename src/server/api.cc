#include "server/api.h"

#include "base/error.h"
#include "json/json.h"
#include "server/request_fields.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <new>
#include <stop_token>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace ft::server {
namespace {

constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kCompletions = "/v1/completions";
constexpr std::size_t kDefaultCompletionTokens = 16;
// Of comments that tell how far a prompt is.
constexpr std::int64_t kProgressPause_us = 1'000'000;

struct Route {
  std::string_view path;
  std::string_view method;
  bool needs_key;
};
constexpr std::array<Route, 7> kRoutes = {{{"/health", "GET", false},
                                           {"/metrics", "GET", true},
                                           {kModels, "GET", true},
                                           {kChat, "POST", true},
                                           {kCompletions, "POST", true},
                                           {"/tokenize", "POST", true},
                                           {"/detokenize", "POST", true}}};

const Route* find_route(std::string_view path) {
  if (path.starts_with(kModels) && path.size() > kModels.size() && path[kModels.size()] == '/') {
    path = kModels;
  }
  const auto route = std::find_if(
      kRoutes.begin(), kRoutes.end(), [path](const Route& known) { return known.path == path; });
  return route == kRoutes.end() ? nullptr : &*route;
}

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

ApiError of_engine(const foretoken::Error& error) {
  switch (error.code()) {
    case foretoken::ErrorCode::kInvalidInput:
      return api_error(400, error.what(), "invalid_value");
    case foretoken::ErrorCode::kResourceExhausted:
      return api_error(503, "there is no memory left for this request", "resource_exhausted");
    case foretoken::ErrorCode::kCancelled:
      return api_error(503, "the server is stopping", "server_stopping");
    case foretoken::ErrorCode::kIo:
    case foretoken::ErrorCode::kInternal:
      break;
  }
  return api_error(500, "the model could not be run", "internal_error");
}

// Runs `work`; whatever it throws becomes an error of the API. Nothing of this machine is told.
template <typename Work>
std::optional<ApiError> error_of(const Work& work) {
  try {
    work();
    return std::nullopt;
  } catch (const ApiError& error) {
    return error;
  } catch (const foretoken::Error& error) {
    return of_engine(error);
  } catch (const InvalidInput& error) {
    return api_error(400, error.what(), "invalid_value");
  } catch (const std::bad_alloc&) {
    return api_error(503, "there is no memory left for this request", "resource_exhausted");
  } catch (const std::exception&) {
    return api_error(500, "internal error", "internal_error");
  }
}

std::string event(std::string_view json) {
  return fmt::format("data: {}\n\n", json);
}

}  // namespace

Api::Api(Backend& backend, ApiOptions options, std::shared_ptr<const Clock> clock)
    : backend_(backend),
      options_(std::move(options)),
      model_name_(options_.model_name.empty() ? backend.model().name : options_.model_name),
      started_(seconds_since_1970()),
      clock_(std::move(clock)),
      metrics_(model_name_) {}

Headers Api::headers(const RequestHead& head) const {
  if (!is_listed_origin(head, options_.access)) return {};
  return {{"Access-Control-Allow-Origin", head.origin}, {"Vary", "Origin"}};
}

Response Api::finished(const RequestHead& head, Response response) {
  for (auto& header : headers(head)) response.headers.push_back(std::move(header));
  metrics_.on_response(response.status);
  return response;
}

Response Api::refusal(const RequestHead& head, int status, std::string_view message) {
  return finished(head, error_response(api_error(status, std::string(message))));
}

std::optional<Response> Api::answer_head(const RequestHead& head) {
  const Route* route = find_route(head.path);
  const bool is_preflight = head.method == "OPTIONS";
  const bool needs_key = !is_preflight && (route == nullptr || route->needs_key);
  if (const auto error = refuse_access(head, options_.access, needs_key)) {
    return finished(head, error_response(*error));
  }
  if (route == nullptr) {
    return refusal(head, 404, fmt::format("there is no {} here", in_quotes(head.path)));
  }
  if (is_preflight) {
    Response out{204, {}, {}, {}};
    out.headers = {{"Allow", std::string(route->method)}};
    if (is_listed_origin(head, options_.access)) {
      out.headers.emplace_back("Access-Control-Allow-Methods", std::string(route->method));
      out.headers.emplace_back("Access-Control-Allow-Headers",
                               "Authorization, Content-Type, X-Api-Key, X-Request-Id");
    }
    return finished(head, std::move(out));
  }
  const bool is_head = head.method == "HEAD" && route->method == "GET";
  if (head.method != route->method && !is_head) {
    Response out =
        error_response(api_error(405, fmt::format("{} takes {} only", route->path, route->method)));
    out.headers.emplace_back("Allow", std::string(route->method));
    return finished(head, std::move(out));
  }
  if (route->method == "POST" && !head.content_type.empty() &&
      !head.content_type.starts_with("application/json")) {
    return refusal(head,
                   415,
                   fmt::format("the content type is {}, expected application/json",
                               in_quotes(head.content_type)));
  }
  return std::nullopt;
}

bool Api::is_quick(const RequestHead& head) const {
  const Route* route = find_route(head.path);
  return route != nullptr && route->method == "GET";
}

void Api::handle(const Request& request, Reply& reply) {
  const std::string& path = request.head.path;
  bool has_begun = false;
  const std::optional<ApiError> error = error_of([&] {
    if (path == kChat || path == kCompletions) {
      generate(path == kChat ? ReplyKind::kChat : ReplyKind::kCompletion, request, reply);
      return;
    }
    Response response = path == "/tokenize"     ? tokenize(request.body)
                        : path == "/detokenize" ? detokenize(request.body)
                                                : get(request.head);
    has_begun = true;
    reply.send(finished(request.head, std::move(response)));
  });
  if (error && !has_begun) reply.send(finished(request.head, error_response(*error)));
}

Response Api::get(const RequestHead& head) {
  Response out;
  if (head.path == "/health") {
    out.body = R"({"status":"ok"})";
    return out;
  }
  if (head.path == "/metrics") {
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    out.body = metrics_.text(n_connections_(), backend_.model().context);
    return out;
  }
  const bool is_list = head.path == kModels;
  if (!is_list && head.path.substr(kModels.size() + 1) != model_name_) {
    throw api_error(404,
                    fmt::format("there is no model {}; this is {}",
                                in_quotes(head.path.substr(kModels.size() + 1)),
                                in_quotes(model_name_)),
                    "model_not_found");
  }
  const foretoken::ModelInfo& model = backend_.model();
  json::Writer text;
  if (is_list) text.begin_object().member("object", "list").key("data").begin_array();
  text.begin_object().member("id", model_name_).member("object", "model");
  text.member("created", started_).member("owned_by", "foretoken");
  text.member("max_model_len", static_cast<std::uint64_t>(model.context))
      .key("meta")
      .begin_object();
  text.member("family", model.family).member("format", model.format).member("hash", model.hash);
  text.member("n_vocab", static_cast<std::uint64_t>(model.n_vocab));
  text.member("parameters", model.parameters).key("draft_sources").begin_array();
  for (const std::string& source : model.draft_sources) text.value(source);
  text.end_array().end_object().end_object();
  if (is_list) text.end_array().end_object();
  out.body = text.text();
  return out;
}

Response Api::tokenize(const std::string& body) {
  const TokenizeRequest request = parse_tokenize_request(body, options_.limits);
  const std::vector<foretoken::Token> ids = request.chat_json.empty()
                                                ? backend_.encode(request.text)
                                                : backend_.encode_chat(request.chat_json).ids;
  json::Writer text;
  text.begin_object().key("tokens").begin_array();
  for (const foretoken::Token id : ids) text.value(id);
  text.end_array().member("count", static_cast<std::uint64_t>(ids.size()));
  text.member("max_model_len", static_cast<std::uint64_t>(backend_.model().context)).end_object();
  return {200, text.text()};
}

Response Api::detokenize(const std::string& body) {
  const std::string content = backend_.decode(parse_detokenize_request(body, options_.limits));
  json::Writer text;
  text.begin_object().member("content", content).member("prompt", content).end_object();
  return {200, text.text()};
}

void Api::check_names(const TextRequest& request) const {
  if (!request.model.empty() && request.model != model_name_) {
    ApiError error(
        "model",
        fmt::format(
            "there is no model {}; this is {}", in_quotes(request.model), in_quotes(model_name_)),
        "model_not_found");
    error.status = 404;
    throw error;
  }
  const foretoken::ModelInfo& model = backend_.model();
  const auto& sources = model.draft_sources;
  for (const std::string& name : request.generation.speculate) {
    if (name == "auto" || name == "none") continue;
    if (std::find(sources.begin(), sources.end(), name) == sources.end()) {
      throw ApiError("speculate",
                     fmt::format("there is no draft source {}; there are auto, none, {}",
                                 in_quotes(name),
                                 fmt::join(sources, ", ")));
    }
    if (name == "prediction" && request.prediction.empty()) {
      throw ApiError("speculate", "draft source 'prediction' needs a 'prediction'");
    }
  }
  for (const auto& [id, bias] : request.generation.sampling.logit_bias) {
    if (static_cast<std::size_t>(id) >= model.n_vocab) {
      throw ApiError(
          "logit_bias",
          fmt::format("'logit_bias' has id {}, expected 0 to {}", id, model.n_vocab - 1));
    }
  }
  if (request.has_tools) {
    throw ApiError("tools",
                   "'tools': replies are not split into tool calls yet; leave it out, or set "
                   "tool_choice to none",
                   "unsupported_parameter");
  }
}

foretoken::GenerationRequest Api::generation(const TextRequest& request,
                                             std::vector<foretoken::Token> prompt,
                                             ReplyKind kind) const {
  const std::size_t context = backend_.model().context;
  const std::string param = kind == ReplyKind::kChat ? "messages" : "prompt";
  if (prompt.empty()) throw ApiError(param, fmt::format("'{}' has no tokens", param));
  if (prompt.size() > context) {
    throw ApiError(
        param,
        fmt::format(
            "the prompt has {} tokens, expected at most {}: the context", prompt.size(), context),
        "context_length_exceeded");
  }
  for (const foretoken::Token id : prompt) {
    if (static_cast<std::size_t>(id) >= backend_.model().n_vocab) {
      throw ApiError(
          param,
          fmt::format("'{}' has id {}, expected 0 to {}", param, id, backend_.model().n_vocab - 1));
    }
  }
  foretoken::GenerationRequest out = request.generation;
  const std::size_t usual = kind == ReplyKind::kChat ? context : kDefaultCompletionTokens;
  // What the context has no room for ends with finish_reason `length`, whatever was asked for.
  out.max_tokens = std::min(request.max_tokens.value_or(options_.max_tokens.value_or(usual)),
                            context - prompt.size() + 1);
  out.prompt = std::move(prompt);
  if (!request.prediction.empty()) {
    out.prediction = backend_.encode(request.prediction);
    if (out.prediction.size() > context) {
      throw ApiError(
          "prediction",
          fmt::format(
              "the prediction has {} tokens, expected at most {}", out.prediction.size(), context));
    }
  }
  return out;
}

Api::Plan Api::plan(ReplyKind kind, const Request& request) {
  const bool is_chat = kind == ReplyKind::kChat;
  Plan out;
  out.request = is_chat ? parse_chat_request(request.body, options_.limits)
                        : parse_completion_request(request.body, options_.limits);
  check_names(out.request);
  out.identity = {kind,
                  fmt::format("{}-{}", is_chat ? "chatcmpl" : "cmpl", request.head.id),
                  seconds_since_1970(),
                  model_name_,
                  "fp_" + backend_.model().hash};
  if (is_chat) {
    foretoken::ChatPrompt prompt;
    try {
      prompt = backend_.encode_chat(out.request.chat_json);
    } catch (const foretoken::Error& error) {
      if (error.code() != foretoken::ErrorCode::kInvalidInput) throw;
      throw ApiError("messages", error.what());
    }
    out.generations.push_back(generation(out.request, std::move(prompt.ids), kind));
    return out;
  }
  for (const PromptText& prompt : out.request.prompts) {
    const auto* ids = std::get_if<std::vector<foretoken::Token>>(&prompt);
    out.generations.push_back(generation(
        out.request, ids != nullptr ? *ids : backend_.encode(std::get<std::string>(prompt)), kind));
    if (!out.request.echoes) continue;
    out.echoes.push_back(ids != nullptr ? backend_.decode(*ids) : std::get<std::string>(prompt));
  }
  return out;
}

TokenText Api::token_text() const {
  return [this](foretoken::Token id) { return backend_.decode(std::span(&id, 1)); };
}

// Choices of one prompt have seeds that follow each other; the first one's may be drawn.
std::unique_ptr<Generation> Api::submit(Plan& plan, std::size_t index) {
  foretoken::GenerationRequest request = plan.generations[index / plan.request.n];
  if (request.sampling.seed) *request.sampling.seed += index % plan.request.n;
  return backend_.submit(std::move(request));
}

ReplyTokens Api::shown(const Plan& plan, const foretoken::CommittedTokens& tokens) const {
  ReplyTokens out{tokens.text, tokens.logprobs};
  if (plan.request.generation.ignore_eos || out.logprobs.empty()) return out;
  const std::vector<foretoken::Token>& ends = backend_.model().eos_tokens;
  if (std::find(ends.begin(), ends.end(), out.logprobs.back().chosen.id) != ends.end()) {
    out.logprobs.pop_back();  // it ends the text and is none of it
  }
  return out;
}

Choice Api::collect(Plan& plan,
                    std::size_t index,
                    std::unique_ptr<Generation> generation,
                    const Reply& reply,
                    const OnText& on_text,
                    const OnProgress& on_progress) {
  Choice out;
  out.index = index;
  const std::int64_t submitted_us = clock_->now_us();
  std::optional<std::int64_t> last_us;
  bool is_started = false;
  std::size_t n_positions = 0;
  bool is_complete = false;
  metrics_.on_submitted();
  const std::stop_callback on_gone(reply.gone(), [&generation] { generation->cancel(); });
  const auto start = [&] {
    if (std::exchange(is_started, true)) return;
    n_positions = plan.generations[index / plan.request.n].prompt.size();
    metrics_.on_started(n_positions);
  };
  try {
    while (std::optional<foretoken::Event> event = generation->next()) {
      if (auto* completion = std::get_if<foretoken::Completion>(&*event)) {
        out.completion = std::move(*completion);
        is_complete = true;
        continue;
      }
      start();
      if (const auto* progress = std::get_if<foretoken::PrefillProgress>(&*event)) {
        if (on_progress) on_progress(*progress);
        continue;
      }
      const auto& tokens = std::get<foretoken::CommittedTokens>(*event);
      const std::int64_t now_us = clock_->now_us();
      if (!last_us) metrics_.on_first_token(static_cast<double>(now_us - submitted_us) * 1e-6);
      metrics_.on_tokens(tokens.ids.size(),
                         last_us ? static_cast<double>(now_us - *last_us) * 1e-6 : -1);
      last_us = now_us;
      n_positions += tokens.ids.size();
      const ReplyTokens part = shown(plan, tokens);
      out.tokens.text += part.text;
      if (on_text) {
        if (!on_text(part)) generation->cancel();
      } else {
        out.tokens.logprobs.insert(
            out.tokens.logprobs.end(), part.logprobs.begin(), part.logprobs.end());
      }
    }
  } catch (...) {
    metrics_.on_finished(is_started, n_positions, nullptr);
    throw;
  }
  metrics_.on_finished(is_started, n_positions, is_complete ? &out.completion : nullptr);
  if (!is_complete || out.completion.finish_reason == foretoken::FinishReason::kCancelled) {
    throw api_error(503, "the generation was cancelled: the server is stopping", "server_stopping");
  }
  auto& seed = plan.generations[index / plan.request.n].sampling.seed;
  if (!seed) seed = out.completion.seed;
  return out;
}

void Api::generate(ReplyKind kind, const Request& request, Reply& reply) {
  Plan plan = this->plan(kind, request);
  if (plan.request.is_stream) {
    stream(plan, request.head, reply);
    return;
  }
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < plan.n_choices(); ++i) {
    Choice choice;
    choice.index = i;
    if (plan.request.max_tokens == std::size_t{0}) {  // an echo alone
      choice.completion.finish_reason = foretoken::FinishReason::kLength;
      choice.completion.usage.prompt_tokens = plan.generations[i / plan.request.n].prompt.size();
    } else {
      choice = collect(plan, i, submit(plan, i), reply, {}, {});
    }
    if (!plan.echoes.empty()) choice.tokens.text.insert(0, plan.echoes[i / plan.request.n]);
    choices.push_back(std::move(choice));
  }
  const bool has_logprobs = plan.request.generation.logprobs.has_value();
  reply.send(finished(
      request.head,
      {200, reply_json(plan.identity, choices, plan.request.n, has_logprobs, token_text())}));
}

void Api::stream(Plan& plan, const RequestHead& head, Reply& reply) {
  if (plan.request.max_tokens == std::size_t{0}) {
    throw ApiError("max_tokens", "'max_tokens' is 0: there is nothing to stream");
  }
  // What the engine refuses at once still gets a status of its own.
  std::unique_ptr<Generation> first = submit(plan, 0);
  metrics_.on_response(200);
  reply.begin_events(headers(head));
  const std::optional<ApiError> error =
      error_of([&] { stream_choices(plan, reply, std::move(first)); });
  if (error) reply.write(event(error_json(*error)));
}

void Api::stream_choices(Plan& plan, Reply& reply, std::unique_ptr<Generation> first) {
  const bool has_logprobs = plan.request.generation.logprobs.has_value();
  const bool is_chat = plan.identity.kind == ReplyKind::kChat;
  const TokenText texts = token_text();
  std::int64_t last_progress_us = clock_->now_us();
  const OnProgress on_progress = [&](const foretoken::PrefillProgress& progress) {
    const std::int64_t now_us = clock_->now_us();
    if (now_us - last_progress_us < kProgressPause_us) return;
    last_progress_us = now_us;
    reply.write(fmt::format(": prompt {}/{}\n\n", progress.n_done, progress.n_prompt));
  };
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < plan.n_choices(); ++i) {
    std::unique_ptr<Generation> generation = i == 0 ? std::move(first) : submit(plan, i);
    std::size_t offset = 0;
    if (is_chat) reply.write(event(role_chunk(plan.identity, i)));
    if (!plan.echoes.empty()) {
      const ReplyTokens echo{plan.echoes[i / plan.request.n], {}};
      reply.write(event(text_chunk(plan.identity, i, echo, 0, false, texts)));
      offset = echo.text.size();
    }
    const OnText on_text = [&](const ReplyTokens& tokens) {
      if (tokens.text.empty() && tokens.logprobs.empty()) return true;
      const std::string chunk = text_chunk(plan.identity, i, tokens, offset, has_logprobs, texts);
      offset += tokens.text.size();
      return reply.write(event(chunk));
    };
    choices.push_back(collect(plan, i, std::move(generation), reply, on_text, on_progress));
    reply.write(event(finish_chunk(plan.identity, i, choices.back().completion)));
  }
  if (plan.request.includes_usage) {
    reply.write(event(usage_chunk(plan.identity, choices, plan.request.n)));
  }
  reply.write(event("[DONE]"));
}

}  // namespace ft::server
