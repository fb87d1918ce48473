#include "server/anthropic_request.h"

#include "json/json.h"
#include "server/anthropic_messages.h"
#include "server/api_error.h"
#include "server/generation_fields.h"
#include "server/request_fields.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace ft::server {
namespace {

constexpr double kHighestTemperature = 1;  // as Anthropic's

void read_budget(RequestFields& thinking, const std::optional<std::size_t>& max_tokens) {
  thinking.required("budget_tokens");
  const std::size_t budget = *token_limit(thinking, "budget_tokens", 1);
  if (max_tokens && budget >= *max_tokens) {
    throw ApiError(
        "thinking.budget_tokens",
        fmt::format("'thinking.budget_tokens' is {}, expected less than 'max_tokens', {}",
                    budget,
                    *max_tokens));
  }
}

// Of the edits there are, keeping all thinking is the one that the model's template knows.
bool keeps_earlier_thinking(RequestFields& fields) {
  std::optional<RequestFields> management = fields.nested("context_management");
  if (!management) return false;
  const json::Array* edits = management->array("edits", 1);
  management->finish();
  if (edits == nullptr || edits->empty()) return false;
  RequestFields edit(edits->front(), "context_management.edits[0]");
  edit.only("type", {"clear_thinking_20251015"}, "messages are not cut here");
  const json::Value* keep = edit.find("keep");
  if (edit.find("type") == nullptr || keep == nullptr) {
    throw ApiError("context_management.edits[0]",
                   "'context_management.edits[0]' has not both 'type' and 'keep'",
                   kMissing);
  }
  constexpr std::string_view kWhy = "the model reads the thinking of all turns or of the last";
  if (keep->is_object()) {
    RequestFields kept(*keep, edit.path_of("keep"));
    kept.only("type", {"all"}, kWhy);
    kept.finish();
  } else {
    edit.only("keep", {"all"}, kWhy);
  }
  edit.finish();
  return true;
}

ThinkingChoice read_thinking(RequestFields& fields, const std::optional<std::size_t>& max_tokens) {
  ThinkingChoice out;
  out.keeps_earlier = keeps_earlier_thinking(fields);
  if (std::optional<RequestFields> thinking = fields.nested("thinking")) {
    const std::string& type = thinking->required_string("type");
    thinking->only(
        "type", {"enabled", "adaptive", "disabled"}, "expected enabled, adaptive or disabled");
    out.is_on = type != "disabled";
    if (type == "enabled") read_budget(*thinking, max_tokens);
    if (out.is_on) thinking->only("display", {"summarized"}, "thinking is always shown");
    thinking->finish();
  }
  std::optional<RequestFields> output = fields.nested("output_config");
  if (!output) return out;
  output->refuse({"format"}, "constrained decoding does not exist here");
  if (const std::string* effort = output->string("effort")) {
    output->only("effort", {"high", "xhigh", "max"}, "the model knows high and max (= xhigh)");
    if (!out.is_on) {
      throw ApiError("output_config.effort",
                     "'output_config.effort' says how much the model thinks: it needs 'thinking'");
    }
    out.effort = *effort == "high" ? "high" : "max";
  }
  output->finish();
  return out;
}

// What both requests have: the model and what its template sees.
void read_prompt(RequestFields& fields, const RequestLimits& limits, TextRequest& out) {
  out.model = fields.required_string("model");
  read_anthropic_chat(fields, limits, read_thinking(fields, out.max_tokens), out);
  check_cache_control(fields);
  fields.only("speed", {"standard"}, "there is one speed");
}

}  // namespace

TextRequest parse_anthropic_request(std::string_view body, const RequestLimits& limits) {
  const json::Value document = parse_body(body, limits);
  RequestFields fields(document, {});
  TextRequest out;
  fields.required("max_tokens");
  out.max_tokens = token_limit(fields, "max_tokens", 1);
  read_prompt(fields, limits, out);
  read_sampling(fields, kHighestTemperature, out.generation.sampling);
  read_speculation(fields, out.generation);
  out.generation.time_limit = time_limit(fields);
  out.generation.stop = stop_list(fields, "stop_sequences", limits);
  out.is_stream = fields.boolean("stream").value_or(false);
  fields.object("metadata");
  fields.only("service_tier", {"auto", "standard_only"}, "there is one tier");
  fields.refuse({"container", "mcp_servers"}, "this server runs no tools");
  fields.refuse({"diagnostics"}, "nothing is kept of earlier requests");
  if (fields.find("thread") != nullptr) {
    // Tool runners know this code and go on with whole conversations.
    throw ApiError("thread",
                   "'thread': nothing is kept of earlier requests; send the whole conversation",
                   "thread_unsupported_request");
  }
  fields.refuse({"inference_geo"}, "this server runs where it runs");
  fields.finish();
  return out;
}

TextRequest parse_anthropic_count(std::string_view body, const RequestLimits& limits) {
  const json::Value document = parse_body(body, limits);
  RequestFields fields(document, {});
  TextRequest out;
  read_prompt(fields, limits, out);
  fields.finish();
  return out;
}

}  // namespace ft::server
