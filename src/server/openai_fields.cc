#include "server/openai_fields.h"

#include "server/api_error.h"
#include "server/generation_fields.h"

namespace ft::server {

void read_openai_fields(RequestFields& fields, const RequestLimits& limits, TextRequest& out) {
  if (const std::string* model = fields.string("model")) out.model = *model;
  read_sampling(fields, kMaxTemperature, out.generation.sampling);
  read_penalties(fields, limits, out.generation.sampling);
  read_speculation(fields, out.generation);
  out.generation.stop = stop_or_list(fields, limits);
  out.generation.time_limit = time_limit(fields);
  out.generation.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  fields.string("user");
  fields.string("safety_identifier");
  fields.string("prompt_cache_key");
  fields.object("metadata");
  fields.only("store", {"false"}, "nothing is stored");
  fields.only("service_tier", {"auto", "default"}, "there is one tier");
}

std::optional<RequestFields> read_stream(RequestFields& fields, TextRequest& out) {
  out.is_stream = fields.boolean("stream").value_or(false);
  std::optional<RequestFields> options = fields.nested("stream_options");
  if (!options) return std::nullopt;
  if (!out.is_stream) throw ApiError("stream_options", "'stream_options' needs 'stream': true");
  options->only("include_obfuscation", {"false"}, "streams are not padded");
  return options;
}

void check_text_format(RequestFields& fields, std::string_view name) {
  std::optional<RequestFields> format = fields.nested(name);
  if (!format) return;
  format->only("type", {"text"}, "constrained decoding does not exist here, expected text");
  format->finish();
}

}  // namespace ft::server
