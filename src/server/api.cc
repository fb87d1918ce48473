#include "server/api.h"

#include "base/error.h"
#include "json/json.h"
#include "server/anthropic_request.h"
#include "server/openai_request.h"
#include "server/page_assets.h"
#include "server/request_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <new>
#include <stop_token>
#include <utility>
#include <variant>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace ft::server {
namespace {

constexpr std::string_view kPage = "/";
constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kCountTokens = "/v1/messages/count_tokens";

struct Route {
  std::string_view path;
  std::string_view method;
  bool needs_key;
  const Dialect& (*dialect)() = nullptr;  // nullptr: the client's own
  bool generates = false;
};
constexpr std::array<Route, 11> kRoutes = {
    {{kPage, "GET", false},
     {"/health", "GET", false},
     {"/metrics", "GET", true},
     {kModels, "GET", true},
     {"/v1/chat/completions", "POST", true, openai_chat_dialect, true},
     {"/v1/completions", "POST", true, openai_completion_dialect, true},
     {"/v1/responses", "POST", true, responses_dialect, true},
     {"/v1/messages", "POST", true, anthropic_dialect, true},
     {kCountTokens, "POST", true, anthropic_dialect},
     {"/tokenize", "POST", true},
     {"/detokenize", "POST", true}}};

bool is_below(std::string_view path, std::string_view root) {
  return path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/';
}

const Route* find_route(std::string_view path) {
  if (is_page_path(path)) path = kPage;
  if (is_below(path, kModels)) path = kModels;
  const auto route = std::find_if(
      kRoutes.begin(), kRoutes.end(), [path](const Route& known) { return known.path == path; });
  return route == kRoutes.end() ? nullptr : &*route;
}

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A part of a path as it was before it became one: SDKs write the '/' of a name as %2F. What is no
// escape stays.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint8_t byte = 0;
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 2);
    const char* end = digits.data() + digits.size();
    if (text[i] == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), end, byte, 16).ptr == end) {
      out += static_cast<char>(byte);
      i += digits.size();
    } else {
      out += text[i];
    }
  }
  return out;
}

ApiError out_of_memory() {
  return api_error(503, "there is no memory left for this request", "resource_exhausted");
}

ApiError of_engine(const foretoken::Error& error) {
  switch (error.code()) {
    case foretoken::ErrorCode::kInvalidInput:
      return api_error(400, error.what(), "invalid_value");
    case foretoken::ErrorCode::kResourceExhausted:
      return out_of_memory();
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
  } catch (const ResourceExhausted&) {
    return out_of_memory();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception&) {
    return api_error(500, "internal error", "internal_error");
  }
}

// What `work` returns; what it finds wrong is wrong with `param`.
template <typename Work>
auto naming(const std::string& param, const Work& work) {
  try {
    return work();
  } catch (const foretoken::Error& error) {
    if (error.code() != foretoken::ErrorCode::kInvalidInput) throw;
    throw ApiError(param, error.what());
  }
}

// In which a client is answered: that of the API whose path it is, or below whose path; if it is
// nobody's or everybody's, that of the API to which the client's headers belong.
const Dialect& dialect_of(const RequestHead& head) {
  for (const Route& route : kRoutes) {
    const bool is_its = head.path == route.path || is_below(head.path, route.path);
    if (is_its && route.dialect != nullptr) return route.dialect();
  }
  const bool is_anthropic = !head.anthropic_version.empty() || !head.api_key.empty();
  return is_anthropic ? anthropic_dialect() : openai_chat_dialect();
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
  Headers out;
  if (const std::string_view name = dialect_of(head).id_header(); !name.empty()) {
    out.emplace_back(name, head.id);
  }
  if (is_listed_origin(head, options_.access)) {
    out.emplace_back("Access-Control-Allow-Origin", head.origin);
    out.emplace_back("Access-Control-Expose-Headers", "Request-Id, Retry-After, X-Request-Id");
    out.emplace_back("Vary", "Origin");
  }
  return out;
}

Response Api::finished(const RequestHead& head, Response response) const {
  for (auto& header : headers(head)) response.headers.push_back(std::move(header));
  return response;
}

Response Api::refused(const RequestHead& head, const ApiError& error) const {
  return finished(head, {error.status, dialect_of(head).error_body(error, head.id)});
}

void Api::on_request(const RequestRecord& record) {
  metrics_.on_reply(record.facts);
}

Response Api::refusal(const RequestHead& head, int status, std::string_view message) {
  return refused(head, api_error(status, std::string(message)));
}

std::optional<Response> Api::answer_head(const RequestHead& head) {
  const Route* route = find_route(head.path);
  const bool is_preflight = head.method == "OPTIONS";
  std::optional<ApiError> error = refuse_origin(head, options_.access);
  const bool needs_key = !is_preflight && (route == nullptr || route->needs_key);
  if (!error && needs_key) error = refuse_key(head, options_.access);
  if (error) return refused(head, *error);
  if (route == nullptr) {
    return refusal(head, 404, fmt::format("there is no {} here", in_quotes(head.path)));
  }
  if (is_preflight) {
    Response out{204, {}, {}, {}};
    out.headers = {{"Allow", std::string(route->method)}};
    if (is_listed_origin(head, options_.access)) {
      out.headers.emplace_back("Access-Control-Allow-Methods", std::string(route->method));
      // SDKs send many of their own; the asterisk alone does not stand for the first.
      out.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, *");
    }
    return finished(head, std::move(out));
  }
  const bool is_head = head.method == "HEAD" && route->method == "GET";
  if (head.method != route->method && !is_head) {
    Response out = refusal(head, 405, fmt::format("{} takes {} only", route->path, route->method));
    out.headers.emplace_back("Allow", std::string(route->method));
    return out;
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
  const Route* route = find_route(path);
  const std::optional<ApiError> error = error_of([&] {
    if (route != nullptr && route->generates) {
      generate(route->dialect(), request, reply);
      return;
    }
    Response response = path == "/tokenize"     ? tokenize(request.body)
                        : path == "/detokenize" ? detokenize(request.body)
                        : path == kCountTokens  ? count_tokens(request.body)
                                                : get(request.head);
    has_begun = true;
    reply.send(finished(request.head, std::move(response)));
  });
  if (error && !has_begun) reply.send(refused(request.head, *error));
}

Response Api::get(const RequestHead& head) const {
  if (is_page_path(head.path)) return page_response(head);
  Response out;
  if (head.path == "/health") {
    out.body = R"({"status":"ok"})";
    return out;
  }
  if (head.path == "/metrics") {
    out.content_type = "text/plain; version=0.0.4; charset=utf-8";
    const foretoken::ModelInfo& model = backend_.model();
    out.body = metrics_.text(n_connections_(), model.context * model.max_sessions);
    return out;
  }
  out.body = models(head.path);
  return out;
}

std::string Api::models(std::string_view path) const {
  const bool is_list = path == kModels;
  if (!is_list) check_model(unescaped(path.substr(kModels.size() + 1)), {});
  const foretoken::ModelInfo& model = backend_.model();
  json::Writer text;
  if (is_list) text.begin_object().member("object", "list").key("data").begin_array();
  text.begin_object().member("id", model_name_).member("object", "model");
  text.member("created", started_).member("owned_by", "foretoken");
  const auto context = static_cast<std::uint64_t>(model.context);
  text.member("max_model_len", context);
  // Anthropic's names for the same, and what its clients expect besides.
  text.member("type", "model").member("display_name", model_name_);
  text.member("created_at", fmt::format("{:%FT%TZ}", fmt::gmtime(started_)));
  text.member("max_input_tokens", context).member("max_tokens", context);
  text.member("lifecycle", "active");
  for (const char* name : {"capabilities", "deprecated_at", "line", "retires_at"})
    text.key(name).null();
  text.key("meta").begin_object();
  text.member("family", model.family).member("format", model.format).member("hash", model.hash);
  text.member("n_vocab", static_cast<std::uint64_t>(model.n_vocab));
  text.member("parameters", model.parameters).key("draft_sources").begin_array();
  for (const std::string& source : model.draft_sources) text.value(source);
  text.end_array().end_object().end_object();
  if (is_list) {
    text.end_array().member("has_more", false).member("first_id", model_name_);
    text.member("last_id", model_name_).end_object();
  }
  return text.text();
}

Response Api::tokenize(const std::string& body) const {
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

Response Api::detokenize(const std::string& body) const {
  const std::string content = backend_.decode(parse_detokenize_request(body, options_.limits));
  json::Writer text;
  text.begin_object().member("content", content).member("prompt", content).end_object();
  return {200, text.text()};
}

Response Api::count_tokens(const std::string& body) const {
  const TextRequest request = parse_anthropic_count(body, options_.limits);
  check_names(request);
  json::Writer text;
  text.begin_object();
  text.member("input_tokens", static_cast<std::uint64_t>(chat_prompt(request).size()));
  return {200, text.end_object().text()};
}

void Api::check_model(const std::string& wanted, const std::string& param) const {
  if (wanted == model_name_) return;
  ApiError error(
      param,
      fmt::format("there is no model {}; this is {}", in_quotes(wanted), in_quotes(model_name_)),
      "model_not_found");
  error.status = 404;
  throw error;
}

void Api::check_names(const TextRequest& request) const {
  if (!request.model.empty()) check_model(request.model, "model");
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
}

foretoken::GenerationRequest Api::generation(const TextRequest& request,
                                             std::vector<foretoken::Token> prompt) const {
  const std::size_t context = backend_.model().context;
  const std::string& param = request.prompt_param;
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
  const std::size_t usual =
      options_.max_tokens.value_or(request.usual_max_tokens.value_or(context));
  // What the context has no room for ends with finish_reason `length`, whatever was asked for.
  out.max_tokens = std::min(request.max_tokens.value_or(usual), context - prompt.size() + 1);
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

std::vector<foretoken::Token> Api::chat_prompt(const TextRequest& request) const {
  foretoken::ChatPrompt prompt =
      naming(request.prompt_param, [&] { return backend_.encode_chat(request.chat_json); });
  if (!prompt.text.ends_with(request.continued_text)) {
    throw ApiError(request.prompt_param,
                   fmt::format("'{}' begins the reply: the model's template cannot continue it",
                               request.prompt_param),
                   "unsupported_value");
  }
  return std::move(prompt.ids);
}

ReplyPlan Api::plan(TextRequest request) const {
  check_names(request);
  ReplyPlan out;
  out.request = std::move(request);
  if (!out.request.chat_json.empty()) {
    std::vector<foretoken::Token> prompt = chat_prompt(out.request);
    naming("tools", [&] { return backend_.reply_splitter(prompt, out.request.tools_json); });
    out.generations.push_back(generation(out.request, std::move(prompt)));
    return out;
  }
  for (const PromptText& prompt : out.request.prompts) {
    const auto* ids = std::get_if<std::vector<foretoken::Token>>(&prompt);
    out.generations.push_back(generation(
        out.request, ids != nullptr ? *ids : backend_.encode(std::get<std::string>(prompt))));
    if (!out.request.echoes) continue;
    out.echoes.push_back(ids != nullptr ? backend_.decode(*ids) : std::get<std::string>(prompt));
  }
  return out;
}

void Api::generate(const Dialect& dialect, const Request& request, Reply& reply) {
  const ReplyPlan plan = this->plan(dialect.parse(request.body, options_.limits));
  const std::unique_ptr<ReplyWriter> writer =
      dialect.writer(plan.request,
                     {request.head.id,
                      seconds_since_1970(),
                      model_name_,
                      "fp_" + backend_.model().hash,
                      plan.generations.front().prompt.size()},
                     [this](foretoken::Token id) { return backend_.decode(std::span(&id, 1)); });
  // What the engine refuses at once gets a status of its own, streamed or not.
  ReplyRun run(plan, backend_, metrics_, *clock_);
  if (!plan.request.is_stream) {
    const std::vector<Choice> choices = run.collect(reply);
    reply.send(finished(request.head, {200, writer->whole(choices)}));
    return;
  }
  reply.begin_events(headers(request.head));
  const std::optional<ApiError> error = error_of([&] { run.stream(*writer, reply); });
  if (error) reply.write(writer->error(*error));
}

}  // namespace ft::server
