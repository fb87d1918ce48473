#include "apps/chat_settings.h"

#include "base/error.h"
#include "engine/sampling_defaults.h"
#include "engine/session.h"
#include "sampling/sampler.h"
#include "speculation/draft_limits.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

template <typename Number>
std::string number_or(const std::optional<Number>& number, std::string_view otherwise) {
  return number ? fmt::format("{}", *number) : std::string(otherwise);
}

std::string list_or(const std::vector<std::string>& list, std::string_view otherwise) {
  if (list.empty()) return std::string(otherwise);
  std::string out;
  for (const std::string& entry : list) {
    out += fmt::format("{}{}", out.empty() ? "" : ", ", in_quotes(entry));
  }
  return out;
}

std::string_view on_or_off(bool flag) {
  return flag ? "on" : "off";
}

constexpr std::string_view kOfModel = "the model's";

struct SettingRow {
  std::string_view key;
  std::string (*value)(const ChatOptions& options);
};

constexpr std::array<SettingRow, 17> kSettings = {{
    {"max_tokens", [](const ChatOptions& o) { return fmt::format("{}", o.generation.max_tokens); }},
    {"temperature",
     [](const ChatOptions& o) { return number_or(o.generation.temperature, kOfModel); }},
    {"top_p", [](const ChatOptions& o) { return number_or(o.generation.top_p, kOfModel); }},
    {"top_k", [](const ChatOptions& o) { return number_or(o.generation.top_k, kOfModel); }},
    {"min_p", [](const ChatOptions& o) { return fmt::format("{}", o.generation.min_p); }},
    {"seed", [](const ChatOptions& o) { return number_or(o.generation.seed, "drawn"); }},
    {"repeat_penalty",
     [](const ChatOptions& o) { return fmt::format("{}", o.generation.repeat_penalty); }},
    {"presence_penalty",
     [](const ChatOptions& o) { return fmt::format("{}", o.generation.presence_penalty); }},
    {"frequency_penalty",
     [](const ChatOptions& o) { return fmt::format("{}", o.generation.frequency_penalty); }},
    {"logit_bias", [](const ChatOptions& o) { return list_or(o.generation.logit_bias, "none"); }},
    {"stop", [](const ChatOptions& o) { return list_or(o.generation.stop, "none"); }},
    {"ignore_eos",
     [](const ChatOptions& o) { return std::string(on_or_off(o.generation.ignore_eos)); }},
    {"speculate", [](const ChatOptions& o) { return list_or(o.speculation.speculate, "auto"); }},
    {"draft_tokens", [](const ChatOptions& o) { return o.speculation.draft_tokens; }},
    {"accept", [](const ChatOptions& o) { return o.speculation.accept; }},
    {"thinking", [](const ChatOptions& o) { return o.thinking; }},
    {"show_drafts", [](const ChatOptions& o) { return std::string(on_or_off(o.show_drafts)); }},
}};

// "top_p" → "--top-p".
std::string option_name(std::string_view key) {
  std::string out = "--" + std::string(key);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

void check_sources(const std::vector<std::string>& names,
                   bool has_prediction,
                   const foretoken::ModelInfo& model) {
  static_cast<void>(engine::resolve_sources(names, model.draft_sources, has_prediction));
  const auto& known = model.draft_sources;
  for (const std::string& name : names) {
    if (name == "auto" || name == "none" || name == "prediction") continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail("draft source {} is none of this model's, expected one of: {}",
           in_quotes(name),
           fmt::join(known, ", "));
    }
  }
}

}  // namespace

void add_chat_options(CLI::App& command, ChatOptions& options) {
  add_generation_options(command, options.generation);
  command.remove_option(command.get_option("--logprobs"));  // nothing here would show them
  add_speculation_options(command, options.speculation);
  constexpr const char* kGroup = "Chat";
  command.add_option("--thinking", options.thinking, "Let the model think first: on, off")
      ->type_name("ON|OFF")
      ->group(kGroup)
      ->check([](const std::string& value) {
        return value == "on" || value == "off"
                   ? std::string()
                   : fmt::format("is {}, expected on or off", in_quotes(value));
      })
      ->capture_default_str();
  command
      .add_flag("--show-drafts",
                options.show_drafts,
                "Show in colour which tokens were drafted and accepted")
      ->group(kGroup);
}

foretoken::GenerationRequest chat_request(const ChatOptions& options) {
  foretoken::GenerationRequest out = generation_request(options.generation, options.speculation);
  if (!options.speculation.speculate.empty()) {
    out.speculate = split_sources(fmt::format("{}", fmt::join(options.speculation.speculate, ",")));
  }
  return out;
}

void check_chat_options(const ChatOptions& options, const foretoken::ModelInfo& model) {
  const foretoken::GenerationRequest request = chat_request(options);
  const sampling::Sampler sampler(
      engine::resolve_sampling(request.sampling, {}, [] { return std::uint64_t{0}; }),
      model.n_vocab);
  if (request.draft_tokens.value_or(0) > speculation::kMaxDraftTokens) {
    fail("draft_tokens is {}, expected 0 to {}",
         *request.draft_tokens,
         speculation::kMaxDraftTokens);
  }
  if (request.accept != "match" && request.accept != "ratio") {
    fail("accept is {}, expected 'match' or 'ratio'", in_quotes(request.accept));
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) fail("a stop string is empty; leave it out");
  }
  check_sources(request.speculate, options.speculation.prediction_file.has_value(), model);
}

ChatSettings::ChatSettings(ChatOptions at_start, const foretoken::ModelInfo& model)
    : at_start_(std::move(at_start)), model_(model), options_(at_start_) {
  check_chat_options(options_, model_);
}

ChatOptions ChatSettings::options_with(const std::map<std::string, std::string>& changes) const {
  ChatOptions out = at_start_;
  CLI::App app;
  add_chat_options(app, out);
  std::vector<std::string> arguments;
  arguments.reserve(changes.size());
  for (const auto& [name, value] : changes) {
    arguments.push_back(fmt::format("{}={}", name, value));
  }
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    throw InvalidInput(error.what());
  }
  return out;
}

void ChatSettings::set(std::string_view key, const std::string& value) {
  const auto is_key = [key](const SettingRow& row) { return row.key == key; };
  if (std::none_of(kSettings.begin(), kSettings.end(), is_key)) {
    fail("unknown setting {}; /set lists them", in_quotes(key));
  }
  std::map<std::string, std::string> changes = changes_;
  if (value == "default") {
    changes.erase(option_name(key));
  } else {
    changes[option_name(key)] = value;
  }
  ChatOptions options = options_with(changes);
  const auto drafts_nothing = [](const ChatOptions& of) {
    return of.speculation.speculate == std::vector<std::string>{"none"};
  };
  if (drafts_nothing(at_start_) && !drafts_nothing(options)) {
    fail(
        "speculate: no memory is planned for drafts, the chat was started with --speculate none; "
        "start it without");
  }
  check_chat_options(options, model_);
  changes_ = std::move(changes);
  options_ = std::move(options);
}

std::string ChatSettings::text() const {
  std::string out;
  for (const SettingRow& row : kSettings) {
    out += fmt::format("{:<18} {}\n", row.key, row.value(options_));
  }
  return out;
}

}  // namespace ft::apps
