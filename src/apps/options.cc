#include "apps/options.h"

#include "apps/message.h"
#include "apps/model_path.h"
#include "apps/sizes.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "io/file.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

#include <CLI/CLI.hpp>

namespace ft::apps {
namespace {

constexpr std::size_t kMaxPromptBytes = std::size_t{64} << 20;

// The whole of `text` as a number, or nullopt.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number out{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Calls `take` with each part of a comma list.
template <typename Take>
void split_commas(std::string_view list, const Take& take) {
  while (true) {
    const std::size_t comma = list.find(',');
    take(list.substr(0, comma));
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

std::string read_standard_input() {
  std::string out;
  std::array<char, 65536> block{};
  while (const std::size_t n = std::fread(block.data(), 1, block.size(), stdin)) {
    out.append(block.data(), n);
    if (out.size() > kMaxPromptBytes)
      fail("the prompt on standard input is longer than {} bytes", kMaxPromptBytes);
  }
  if (std::ferror(stdin) != 0) throw IoError("cannot read the prompt from standard input");
  return out;
}

std::pair<foretoken::Token, float> parse_bias(const std::string& entry) {
  const std::string_view text = entry;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const auto id = parse_number<foretoken::Token>(text.substr(0, colon));
    const auto bias = parse_number<float>(text.substr(colon + 1));
    if (id && bias) return {*id, *bias};
  }
  fail("--logit-bias is {}, expected ID:BIAS such as 42:-1.5", in_quotes(text));
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least) {
  const auto check = [least](const std::string& text) {
    const auto number = parse_number<std::uint64_t>(text);
    if (number && *number >= least) return std::string();
    return fmt::format("is {}, expected a whole number of at least {}", in_quotes(text), least);
  };
  return {check, "", "whole number"};
}

void add_json_option(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "One JSON document on standard output, nothing else")
      ->group("Output");
}

void add_output_options(CLI::App& command, OutputOptions& options) {
  constexpr const char* kGroup = "Output";
  add_json_option(command, options.json);
  command.add_flag("--quiet", options.quiet, "No progress and no statistics")->group(kGroup);
  command.add_flag("--verbose", options.verbose, "More about the model and the run")->group(kGroup);
}

void add_model_argument(CLI::App& command, std::string& model) {
  command.add_option("MODEL", model, "Model folder, or the name of one that ships [glm-mini]")
      ->type_name("")
      ->check(
          [](const std::string& name) { return name.empty() ? "is empty, expected a model" : ""; });
}

void add_engine_options(CLI::App& command, ModelOptions& options) {
  constexpr const char* kGroup = "Engine";
  add_model_argument(command, options.model);
  command
      .add_option("-c,--context",
                  options.context,
                  "Positions to plan memory for; a longer prompt is an error [min(model, 8192)]")
      ->type_name("N")
      ->group(kGroup)
      ->check(whole_number(1));
  command.add_option("--prefill-chunk", options.prefill_chunk, "Prompt tokens per forward")
      ->type_name("N")
      ->group(kGroup)
      ->check(whole_number(1))
      ->capture_default_str();
  command
      .add_option(
          "--threads",
          options.n_threads,
          fmt::format("Compute threads [{}: the cores allowed to this process]", usable_cores()))
      ->type_name("N")
      ->group(kGroup)
      ->check(whole_number(1));
  command
      .add_flag(
          "--pin-threads",
          options.pin_threads,
          "Keep each compute thread on one processor, no two on one core while there are cores")
      ->group(kGroup);
  command.add_option("--isa", options.isa, "Instruction set: auto, ref, avx2, avx512, neon")
      ->type_name("SET")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option("--kv-type", options.kv_type, "Type of the latent and index caches: bf16, f32")
      ->type_name("TYPE")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option("--draft-format",
                  options.draft_format,
                  "Weights of the model's own draft head: stored, or at most q8 or q4 (other "
                  "drafts, the same text)")
      ->type_name("FORMAT")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option("--draft-model",
                  options.draft_model,
                  "Smaller model with the same tokenizer, for source draft")
      ->type_name("DIR")
      ->group(kGroup);
  command
      .add_option("--draft-history",
                  options.draft_history,
                  "Tokens of earlier requests that source suffix drafts from")
      ->type_name("N")
      ->group(kGroup)
      ->check(whole_number(0))
      ->capture_default_str();
  add_expert_options(command, options);
}

void add_expert_options(CLI::App& command, ModelOptions& options) {
  constexpr const char* kGroup = "Experts";
  command
      .add_option("--experts",
                  options.experts,
                  "Where experts live: resident, stream (from a container), auto: resident if they "
                  "fit")
      ->type_name("WHERE")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option(
          "--ram-budget",
          options.ram_budget,
          "Bound on anonymous memory, such as 8G; auto: what machine and control group leave")
      ->type_name("SIZE")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option(
          "--mirror", options.mirrors, "A further copy of the container to read from (repeatable)")
      ->type_name("DIR")
      ->group(kGroup)
      ->allow_extra_args(false)
      ->take_all();
  command
      .add_option("--expert-policy",
                  options.expert_policy,
                  "Which experts stay in memory: auto, lru, likelihood")
      ->type_name("POLICY")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option("--lookahead",
                  options.lookahead,
                  "Read the next layer's likely experts ahead: on, off, auto: if it pays")
      ->type_name("WHEN")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_flag("--no-expert-usage",
                options.no_expert_usage,
                "Neither read nor write experts.usage beside the container")
      ->group(kGroup);
}

foretoken::EngineOptions engine_options(const ModelOptions& options) {
  foretoken::EngineOptions out;
  out.model_path = resolve_model(options.model, model_folders()).string();
  out.n_threads = options.n_threads;
  out.pin_threads = options.pin_threads;
  out.context = options.context;
  out.prefill_chunk = options.prefill_chunk;
  out.isa = options.isa;
  out.kv_type = options.kv_type;
  out.draft_format = options.draft_format;
  out.draft_history = options.draft_history;
  if (options.draft_model) {
    out.draft_model = resolve_model(*options.draft_model, model_folders()).string();
  }
  out.experts = options.experts;
  if (options.ram_budget != "auto") {
    out.ram_budget_bytes = parse_size(options.ram_budget, "--ram-budget");
    if (out.ram_budget_bytes == 0) fail("--ram-budget is 0, expected a size such as 8G, or auto");
  }
  out.mirrors = options.mirrors;
  out.expert_policy = options.expert_policy;
  out.lookahead = options.lookahead;
  out.expert_usage = options.no_expert_usage ? foretoken::ExpertUsageFile::kOff
                                             : foretoken::ExpertUsageFile::kRead;
  out.warn = [](std::string_view line) { print_message("foretoken: warning: {}\n", line); };
  return out;
}

void add_prompt_options(CLI::App& command, PromptOptions& options) {
  constexpr const char* kGroup = "Prompt";
  command
      .add_option(
          "--prompt", options.text, "Prompt text; added tokens such as <|user|> in it are matched")
      ->type_name("TEXT")
      ->group(kGroup);
  command
      .add_option("--prompt-file", options.file, "File with the prompt text; - is standard input")
      ->type_name("FILE")
      ->group(kGroup);
  command.add_option("--token-ids", options.token_ids, "Prompt as ids: 1,2,3")
      ->type_name("IDS")
      ->group(kGroup);
}

std::vector<foretoken::Token> read_prompt(
    const PromptOptions& options, const std::function<const foretoken::Tokenizer&()>& tokenizer) {
  const int n_given = (options.text ? 1 : 0) + (options.file ? 1 : 0) + (options.token_ids ? 1 : 0);
  if (n_given != 1) {
    fail("{} of --prompt, --prompt-file and --token-ids are given, expected one", n_given);
  }
  if (options.token_ids) return parse_token_ids(*options.token_ids);
  if (options.text) return tokenizer().encode(*options.text);
  return tokenizer().encode(*options.file == "-" ? read_standard_input()
                                                 : io::read_input(*options.file, kMaxPromptBytes));
}

namespace {

void add_length_options(CLI::App& command, GenerationOptions& options) {
  constexpr const char* kGroup = "Length and stops";
  command.add_option("-n,--max-tokens", options.max_tokens, "Tokens to generate at most")
      ->type_name("N")
      ->group(kGroup)
      ->check(whole_number(1))
      ->capture_default_str();
  command.add_option("--stop", options.stop, "Stop string, never shown (repeatable)")
      ->type_name("TEXT")
      ->group(kGroup)
      ->allow_extra_args(false)
      ->take_all();
  command.add_flag("--ignore-eos", options.ignore_eos, "Go on past the end-of-text tokens")
      ->group(kGroup);
}

void add_filter_options(CLI::App& command, GenerationOptions& options) {
  constexpr const char* kGroup = "Sampling";
  command
      .add_option(
          "--temperature", options.temperature, "0 is greedy [the model's generation_config]")
      ->type_name("T")
      ->group(kGroup);
  command
      .add_option(
          "--top-p", options.top_p, "Smallest set of tokens with this probability [the model's]")
      ->type_name("P")
      ->group(kGroup);
  command.add_option("--top-k", options.top_k, "Only the k best tokens; 0 is all [the model's]")
      ->type_name("K")
      ->check(whole_number(0))
      ->group(kGroup);
  command
      .add_option("--min-p",
                  options.min_p,
                  "Only tokens with at least this share of the best one's probability")
      ->type_name("P")
      ->group(kGroup)
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Seed of the noise [drawn and reported]")
      ->type_name("S")
      ->check(whole_number(0))
      ->group(kGroup);
}

void add_penalty_options(CLI::App& command, GenerationOptions& options) {
  constexpr const char* kGroup = "Sampling";
  command
      .add_option("--repeat-penalty",
                  options.repeat_penalty,
                  "Divides positive, multiplies negative logits of seen tokens; 1 is off")
      ->type_name("X")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option("--presence-penalty",
                  options.presence_penalty,
                  "Subtracted once from tokens of the output")
      ->type_name("X")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option("--frequency-penalty",
                  options.frequency_penalty,
                  "Subtracted per occurrence in the output")
      ->type_name("X")
      ->group(kGroup)
      ->capture_default_str();
  command.add_option("--logit-bias", options.logit_bias, "Added to a token's logit (repeatable)")
      ->type_name("ID:BIAS")
      ->group(kGroup)
      ->allow_extra_args(false)
      ->take_all();
}

}  // namespace

void add_generation_options(CLI::App& command, GenerationOptions& options) {
  add_length_options(command, options);
  add_filter_options(command, options);
  add_penalty_options(command, options);
  command
      .add_option(
          "--logprobs", options.logprobs, "Log-probability of each token and of the N best [off]")
      ->type_name("N")
      ->check(whole_number(0))
      ->group("Output");
}

void add_speculation_options(CLI::App& command, SpeculationOptions& options) {
  constexpr const char* kGroup = "Speculation";
  command
      .add_option("--speculate",
                  options.speculate,
                  "Draft sources: auto, none, or a list of prediction, mtp, draft, suffix, ngram "
                  "[auto: all "
                  "that have something to draft from]")
      ->type_name("SOURCES")
      ->group(kGroup)
      ->allow_extra_args(false)
      ->take_all();
  command
      .add_option("--draft-tokens",
                  options.draft_tokens,
                  "Fixed draft length 0 to 64, or auto: the planner's choice")
      ->type_name("N")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option("--prediction",
                  options.prediction_file,
                  "File with the expected output, for source prediction")
      ->type_name("FILE")
      ->group(kGroup);
  command
      .add_option("--accept",
                  options.accept,
                  "match: text equal with speculation on and off; ratio: equal in law, more drafts "
                  "accepted")
      ->type_name("MODE")
      ->group(kGroup)
      ->capture_default_str();
}

std::vector<foretoken::Token> read_prediction(const SpeculationOptions& options,
                                              const foretoken::Tokenizer& tokenizer) {
  if (!options.prediction_file) return {};
  std::vector<foretoken::Token> ids =
      tokenizer.encode(io::read_input(*options.prediction_file, kMaxPromptBytes));
  if (ids.empty()) fail("--prediction {} is empty", in_quotes(*options.prediction_file));
  return ids;
}

std::optional<std::size_t> most_predicted(const std::optional<std::string>& prediction_file) {
  if (!prediction_file) return 0;
  std::error_code error;
  const std::uintmax_t n_bytes = std::filesystem::file_size(*prediction_file, error);
  if (error) return std::nullopt;
  return static_cast<std::size_t>(n_bytes);
}

foretoken::GenerationRequest generation_request(const GenerationOptions& generation,
                                                const SpeculationOptions& speculation) {
  foretoken::GenerationRequest out;
  out.max_tokens = generation.max_tokens;
  out.sampling.temperature = generation.temperature;
  out.sampling.top_p = generation.top_p;
  out.sampling.top_k = generation.top_k;
  out.sampling.min_p = generation.min_p;
  out.sampling.repeat_penalty = generation.repeat_penalty;
  out.sampling.presence_penalty = generation.presence_penalty;
  out.sampling.frequency_penalty = generation.frequency_penalty;
  for (const std::string& entry : generation.logit_bias) {
    out.sampling.logit_bias.push_back(parse_bias(entry));
  }
  out.sampling.seed = generation.seed;
  out.stop = generation.stop;
  out.ignore_eos = generation.ignore_eos;
  out.logprobs = generation.logprobs;
  out.draft_tokens = parse_draft_tokens(speculation.draft_tokens);
  out.accept = speculation.accept;
  return out;
}

std::vector<std::string> split_sources(const std::string& list) {
  std::vector<std::string> out;
  split_commas(list, [&](std::string_view part) {
    const std::string_view name = trimmed(part);
    if (name.empty())
      fail("--speculate is {}, expected source names with commas between", in_quotes(list));
    out.emplace_back(name);
  });
  return out;
}

std::vector<std::string> split_list(const std::string& list, std::string_view option) {
  std::vector<std::string> out;
  split_commas(list, [&](std::string_view part) {
    const std::string_view entry = trimmed(part);
    if (entry.empty())
      fail("{} is {}, expected values with commas between", option, in_quotes(list));
    out.emplace_back(entry);
  });
  return out;
}

std::vector<std::size_t> parse_counts(const std::string& list,
                                      std::string_view option,
                                      std::size_t most) {
  std::vector<std::size_t> out;
  for (const std::string& entry : split_list(list, option)) {
    const auto number = parse_number<std::size_t>(entry);
    if (!number || *number > most) {
      fail("{} has {}, expected whole numbers up to {}", option, in_quotes(entry), most);
    }
    out.push_back(*number);
  }
  return out;
}

std::optional<std::size_t> parse_draft_tokens(const std::string& text) {
  if (text == "auto") return std::nullopt;
  const auto number = parse_number<std::size_t>(text);
  if (!number) fail("--draft-tokens is {}, expected auto or 0 to 64", in_quotes(text));
  return number;
}

std::vector<foretoken::Token> parse_token_ids(const std::string& text) {
  std::vector<foretoken::Token> out;
  split_commas(text, [&](std::string_view part) {
    const auto id = parse_number<foretoken::Token>(trimmed(part));
    if (!id) {
      fail("--token-ids: entry {} is {}, expected ids such as 1,2,3", out.size(), in_quotes(part));
    }
    out.push_back(*id);
  });
  return out;
}

models::TargetFormat weight_format(const std::string& name, std::string_view option) {
  const std::optional<models::TargetFormat> format = models::target_format_from_name(name);
  if (!format) fail("{} is {}, expected q4, q8, bf16, f16, f32 or fp8", option, in_quotes(name));
  return *format;
}

}  // namespace ft::apps
