#include "server/generation_fields.h"

#include "base/error.h"
#include "server/api_error.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace ft::server {
namespace {

constexpr std::uint64_t kMaxTokenCount = std::uint64_t{1} << 31;
constexpr std::uint64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMaxDraftTokens = 64;
constexpr std::uint64_t kMaxTopK = std::uint64_t{1} << 31;
constexpr std::size_t kMaxSources = 16;
constexpr double kMaxTimeout = 24 * 60 * 60;

std::optional<float> number(RequestFields& fields,
                            std::string_view name,
                            double least,
                            double most) {
  const std::optional<double> value = fields.real(name, least, most);
  return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
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

// "mtp", "mtp,suffix" or ["mtp", "suffix"].
std::vector<std::string> source_names(RequestFields& fields, const json::Value& sources) {
  std::vector<std::string> out;
  if (sources.is_string()) {
    std::string_view rest = sources.as_string("");
    while (true) {
      const std::size_t comma = rest.find(',');
      out.emplace_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    for (const json::Value& name : *fields.array("speculate", kMaxSources)) {
      if (!name.is_string()) {
        throw ApiError("speculate", "'speculate' holds no strings", "invalid_type");
      }
      out.push_back(name.as_string(""));
    }
  }
  bool has_empty = out.empty() || out.size() > kMaxSources;
  for (const std::string& name : out) has_empty = has_empty || name.empty();
  if (has_empty) {
    throw ApiError("speculate", "'speculate' names no source; expected such as auto, none or mtp");
  }
  return out;
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

}  // namespace

json::Value parse_body(std::string_view body, const RequestLimits& limits) {
  try {
    return json::parse(body, "the request", {body.size() + 1, limits.max_depth});
  } catch (const InvalidInput& error) {
    throw ApiError({}, error.what(), "invalid_json");
  }
}

std::optional<std::size_t> token_limit(RequestFields& fields,
                                       std::string_view name,
                                       std::uint64_t least) {
  const std::optional<std::uint64_t> given = fields.count(name, least, kMaxTokenCount);
  return given ? std::optional(static_cast<std::size_t>(*given)) : std::nullopt;
}

void read_sampling(RequestFields& fields, double max_temperature, foretoken::SamplingOptions& out) {
  out.temperature = number(fields, "temperature", 0, max_temperature);
  out.top_p = number(fields, "top_p", 0, 1);
  if (out.top_p && !(*out.top_p > 0)) throw ApiError("top_p", "'top_p' is 0, expected more");
  if (const auto k = fields.count("top_k", 0, kMaxTopK)) out.top_k = static_cast<std::size_t>(*k);
  out.min_p = number(fields, "min_p", 0, 1).value_or(out.min_p);
  out.seed = fields.count("seed", 0, kMaxSeed);
}

void read_penalties(RequestFields& fields,
                    const RequestLimits& limits,
                    foretoken::SamplingOptions& out) {
  out.presence_penalty = number(fields, "presence_penalty", -2, 2).value_or(out.presence_penalty);
  out.frequency_penalty =
      number(fields, "frequency_penalty", -2, 2).value_or(out.frequency_penalty);
  const std::optional<float> repetition = number(fields, "repetition_penalty", 0, 100);
  const std::optional<float> repeat = number(fields, "repeat_penalty", 0, 100);
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
  read_biases(fields, limits, out);
}

std::vector<std::string> stop_list(RequestFields& fields,
                                   std::string_view name,
                                   const RequestLimits& limits) {
  const json::Array* stops = fields.array(name, limits.max_stops);
  if (stops == nullptr) return {};
  std::vector<std::string> out;
  for (std::size_t i = 0; i < stops->size(); ++i) {
    const std::string path = fmt::format("{}[{}]", fields.path_of(name), i);
    if (!(*stops)[i].is_string()) {
      throw ApiError(path, fmt::format("'{}' is no string", path), "invalid_type");
    }
    out.push_back((*stops)[i].as_string(""));
    check_stop(out.back(), path, limits);
  }
  return out;
}

std::vector<std::string> stop_or_list(RequestFields& fields, const RequestLimits& limits) {
  const json::Value* stop = fields.find("stop");
  if (stop == nullptr || !stop->is_string()) return stop_list(fields, "stop", limits);
  check_stop(stop->as_string(""), "stop", limits);
  return {stop->as_string("")};
}

std::optional<std::chrono::milliseconds> time_limit(RequestFields& fields) {
  const std::optional<double> seconds = fields.real("timeout", 0.001, kMaxTimeout);
  if (!seconds) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
}

void read_speculation(RequestFields& fields, foretoken::GenerationRequest& out) {
  if (const json::Value* sources = fields.find("speculate")) {
    out.speculate = source_names(fields, *sources);
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

}  // namespace ft::server
