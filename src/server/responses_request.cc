#include "server/responses_request.h"

#include "json/json.h"
#include "server/api_error.h"
#include "server/chat_messages.h"
#include "server/generation_fields.h"
#include "server/openai_fields.h"
#include "server/request_fields.h"
#include "server/responses_input.h"
#include "server/tool_fields.h"

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ft::server {
namespace {

constexpr std::string_view kLogprobs = "message.output_text.logprobs";

// What a reply repeats from its request, with what it says where the request is silent ("":
// nothing).
constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kRepeated = {
    {{"background", "false"},
     {"instructions", "null"},
     {"max_output_tokens", "null"},
     {"max_tool_calls", "null"},
     {"metadata", "{}"},
     {"parallel_tool_calls", "true"},
     {"previous_response_id", "null"},
     {"prompt_cache_key", "null"},
     {"reasoning", R"({"effort":null,"summary":null})"},
     {"safety_identifier", "null"},
     {"store", "false"},
     {"temperature", "null"},
     {"text", R"({"format":{"type":"text"}})"},
     {"tool_choice", R"("auto")"},
     {"tools", "[]"},
     {"top_logprobs", "0"},
     {"top_p", "null"},
     {"truncation", R"("disabled")"},
     {"user", ""}}};

std::string json_text(const json::Value& value) {
  json::Writer out;
  return out.value(value).text();
}

void check_tool(const json::Value& value, const std::string& path) {
  RequestFields tool(value, path);
  tool.only("type", {"function"}, "no tool is built in: only functions can be called");
  check_function(tool);
  tool.only("async", {"false"}, "calls are answered before the model goes on");
  tool.only("defer_loading", {"false"}, "tools are not searched for");
  tool.only("output_schema", {}, "the model's template has no place for it");
  check_allowed_callers(tool);
  tool.finish();
}

// Functions in the shape of chats, for which templates are written.
json::Value chat_tools(const json::Array& tools) {
  json::Array out;
  for (const json::Value& tool : tools) {
    json::Object function;
    for (const auto& [name, value] : tool.as_object("")) {
      const bool is_seen = name == "name" || name == "description" || name == "parameters";
      if (is_seen && !value.is_null()) function.emplace_back(name, value);
    }
    out.push_back(function_tool(std::move(function)));
  }
  return json::Value(std::move(out));
}

void write_reasoning(json::Writer& out, RequestFields& fields) {
  std::optional<RequestFields> reasoning = fields.nested("reasoning");
  if (!reasoning) return;
  if (const std::string* effort = reasoning->string("effort")) {
    out.member("enable_thinking", write_effort(out, *effort, reasoning->path_of("effort")));
  }
  constexpr std::string_view kNoSummary =
      "reasoning is given whole, never summed up; expected auto";
  reasoning->only("summary", {"auto"}, kNoSummary);
  reasoning->only("generate_summary", {"auto"}, kNoSummary);
  reasoning->only("mode", {"standard"}, "there is one mode");
  reasoning->only(
      "context", {"auto", "current_turn", "all_turns"}, "expected auto, current_turn or all_turns");
  const std::string* context = reasoning->string("context");
  if (context != nullptr && *context != "auto") {
    out.member("clear_thinking", *context == "current_turn");
  }
  reasoning->finish();
}

void read_chat_of_input(RequestFields& fields, const RequestLimits& limits, TextRequest& out) {
  out.prompt_param = "input";
  json::Writer chat;
  chat.begin_object().key("messages");
  write_input_messages(chat, fields, limits);
  if (const json::Array* tools = read_tools(fields, limits, check_tool)) {
    write_tools(chat, chat_tools(*tools), out);
  }
  write_reasoning(chat, fields);
  chat.end_object();
  out.chat_json = chat.text();
}

void read_logprobs(RequestFields& fields, const RequestLimits& limits, TextRequest& out) {
  bool includes_logprobs = false;
  if (const json::Array* names = fields.array("include", 16)) {
    for (std::size_t i = 0; i < names->size(); ++i) {
      const std::string path = fmt::format("include[{}]", i);
      const std::string name = (*names)[i].is_string() ? (*names)[i].as_string("") : "";
      // Reasoning stands in the reply as text: there is nothing to encrypt.
      if (name != kLogprobs && name != "reasoning.encrypted_content") {
        throw ApiError(path,
                       fmt::format("'{}' is not {} or reasoning.encrypted_content: replies hold "
                                   "nothing else",
                                   path,
                                   kLogprobs),
                       "unsupported_value");
      }
      includes_logprobs = includes_logprobs || name == kLogprobs;
    }
  }
  const auto n_top = fields.count("top_logprobs", 0, limits.max_top_logprobs);
  if (includes_logprobs) {
    out.generation.logprobs = static_cast<std::size_t>(n_top.value_or(0));
  } else if (n_top.value_or(0) > 0) {
    throw ApiError("top_logprobs",
                   fmt::format("'top_logprobs' needs 'include': [\"{}\"]", kLogprobs));
  }
}

// What has one value here, or none.
void check_fixed(RequestFields& fields) {
  fields.count("max_tool_calls", 1, std::numeric_limits<std::int32_t>::max());  // of built-in tools
  fields.refuse({"previous_response_id", "conversation"},
                "nothing is stored: send the whole input");
  fields.refuse({"prompt"}, "nothing is stored: send the prompt's text as instructions and input");
  fields.only("background", {"false"}, "nothing is stored: replies are read as they come");
  fields.only("truncation", {"disabled"}, "input that is too long is refused");
  fields.only("prompt_cache_retention", {"in_memory"}, "prefixes are kept in memory");
  if (std::optional<RequestFields> text = fields.nested("text")) {
    text->only("verbosity", {"medium"}, "the model knows no other");
    check_text_format(*text, "format");
    text->finish();
  }
}

}  // namespace

TextRequest parse_responses_request(std::string_view body, const RequestLimits& limits) {
  const json::Value document = parse_body(body, limits);
  RequestFields fields(document, {});
  TextRequest out;
  read_openai_fields(fields, limits, out);
  if (const std::optional<RequestFields> options = read_stream(fields, out)) options->finish();
  out.max_tokens = token_limit(fields, "max_output_tokens", 1);
  read_logprobs(fields, limits, out);
  check_fixed(fields);
  read_chat_of_input(fields, limits, out);
  for (const auto& [name, otherwise] : kRepeated) {
    const json::Value* given = fields.find(name);
    std::string text = given == nullptr ? std::string(otherwise) : json_text(*given);
    if (!text.empty()) out.repeated.emplace_back(name, std::move(text));
  }
  fields.finish();
  return out;
}

}  // namespace ft::server
