// Options that several subcommands share: declared once, with one spelling, default and help text.
#pragma once

#include "foretoken/foretoken.h"
#include "models/conversion.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): third-party name
class App;
class Validator;
}  // namespace CLI

namespace ft::apps {

/// Accepts decimal digits alone, from `least` up to 2^64 - 1.
CLI::Validator whole_number(std::uint64_t least);

struct OutputOptions {
  bool json = false;
  bool quiet = false;
  bool verbose = false;

  /// Whether a person wants to see progress.
  bool wants_progress() const noexcept { return !json && !quiet; }
};
void add_output_options(CLI::App& command, OutputOptions& options);
/// --json alone, for commands that show neither progress nor statistics.
void add_json_option(CLI::App& command, bool& json);

inline constexpr std::size_t kDefaultPrefillChunk = 512;

struct ModelOptions {
  std::string model;  // path, name, or empty for the one that ships
  std::size_t context = 0;
  std::size_t prefill_chunk = kDefaultPrefillChunk;
  std::size_t n_threads = 0;
  bool pin_threads = false;
  std::string isa = "auto";
  std::string kv_type = "bf16";
  std::string draft_format = "q4";
  std::size_t draft_history = 0;
  std::optional<std::string> draft_model;
  std::string experts = "auto";
  std::string ram_budget = "auto";
  std::vector<std::string> mirrors;
  std::string expert_policy = "auto";
  std::string lookahead = "auto";
  bool no_expert_usage = false;
};
void add_model_argument(CLI::App& command, std::string& model);
void add_engine_options(CLI::App& command, ModelOptions& options);
/// The part of add_engine_options() about experts and memory.
void add_expert_options(CLI::App& command, ModelOptions& options);
/// Warnings go to standard error; what is learned about experts is read and not written. Throws
/// InvalidInput naming the option.
foretoken::EngineOptions engine_options(const ModelOptions& options);

struct PromptOptions {
  std::optional<std::string> text;
  std::optional<std::string> file;  // "-": standard input
  std::optional<std::string> token_ids;
};
void add_prompt_options(CLI::App& command, PromptOptions& options);
/// The prompt's ids. `tokenizer` is asked for only if the prompt is text. Throws InvalidInput
/// unless exactly one was given.
std::vector<foretoken::Token> read_prompt(
    const PromptOptions& options, const std::function<const foretoken::Tokenizer&()>& tokenizer);

struct GenerationOptions {
  std::size_t max_tokens = 256;
  std::optional<std::size_t> logprobs;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::size_t> top_k;
  float min_p = 0;
  std::optional<std::uint64_t> seed;
  float repeat_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::string> logit_bias;  // "ID:B"
  std::vector<std::string> stop;
  bool ignore_eos = false;
};
void add_generation_options(CLI::App& command, GenerationOptions& options);

struct SpeculationOptions {
  std::vector<std::string> speculate;  // each entry a comma list; empty: auto
  std::optional<std::string> prediction_file;
  std::string draft_tokens = "auto";
  std::string accept = "match";
};
void add_speculation_options(CLI::App& command, SpeculationOptions& options);

/// The ids of --prediction; none if it was not given. Throws IoError, InvalidInput.
std::vector<foretoken::Token> read_prediction(const SpeculationOptions& options,
                                              const foretoken::Tokenizer& tokenizer);

/// Tokens that memory is planned for: no more than the file has bytes. 0: there is no file;
/// nullopt: that cannot be told.
std::optional<std::size_t> most_predicted(const std::optional<std::string>& prediction_file);

/// The request but for its prompt, prediction and sources. Throws InvalidInput for a malformed bias
/// or draft length.
foretoken::GenerationRequest generation_request(const GenerationOptions& generation,
                                                const SpeculationOptions& speculation);

/// "mtp,ngram" → {"mtp", "ngram"}. Throws InvalidInput for an empty name.
std::vector<std::string> split_sources(const std::string& list);
/// "512,1024" → its parts. Throws InvalidInput for an empty one.
std::vector<std::string> split_list(const std::string& list, std::string_view option);
/// "512,1024" → numbers up to `most`. Throws InvalidInput.
std::vector<std::size_t> parse_counts(const std::string& list,
                                      std::string_view option,
                                      std::size_t most);
/// "auto" → nullopt, else a number. Throws InvalidInput.
std::optional<std::size_t> parse_draft_tokens(const std::string& text);
/// "1,2,3" with optional blanks → ids. Throws InvalidInput naming the first entry that is no id.
std::vector<foretoken::Token> parse_token_ids(const std::string& text);

/// Of --expert-format and its like. Throws InvalidInput naming the option.
models::TargetFormat weight_format(const std::string& name, std::string_view option);

}  // namespace ft::apps
