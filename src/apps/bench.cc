// foretoken bench: speed of prompts and generations at given lengths and depths, with speculation,
// where the time goes and what part of the memory bandwidth it takes.
#include "apps/bench_prompt.h"
#include "apps/bench_report.h"
#include "apps/commands.h"
#include "apps/machine_watch.h"
#include "apps/message.h"
#include "apps/options.h"
#include "apps/outcome.h"
#include "apps/progress.h"
#include "apps/result_writer.h"
#include "apps/sizes.h"
#include "base/error.h"
#include "io/file.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr std::size_t kMaxPromptBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxTokens = std::size_t{1} << 24;
constexpr std::uint64_t kMaxProbeBytes = std::uint64_t{1} << 40;

struct BenchOptions {
  ModelOptions model;
  std::string n_prompt = "512";
  std::string n_generated = "128";
  std::string depth = "0";
  std::size_t repetitions = 5;
  std::string output = "md";
  std::vector<std::string> speculate;
  std::string draft_tokens = "auto";
  std::string probe_size = "1Gi";
  std::optional<std::string> prompt_file;
  std::uint64_t seed = 1;
  bool quiet = false;
};

/// Plain decoding, and what the model offers.
std::vector<std::string> settings_of(const BenchOptions& options,
                                     const foretoken::ModelInfo& model) {
  if (!options.speculate.empty()) return options.speculate;
  std::vector<std::string> out = {"none"};
  if (!model.draft_sources.empty()) out.emplace_back("auto");
  return out;
}

class Benchmark {
 public:
  Benchmark(const BenchOptions& options, Environment& environment)
      : options_(options),
        environment_(environment),
        format_(bench_format(options.output)),
        n_prompt_(parse_counts(options.n_prompt, "-p", kMaxTokens)),
        n_generated_(parse_counts(options.n_generated, "-n", kMaxTokens)),
        depths_(parse_counts(options.depth, "-d", kMaxTokens)) {}

  int run() {
    foretoken::EngineOptions wanted = engine_options(options_.model);
    const std::size_t least = least_context();
    if (wanted.context == 0) wanted.context = least;
    if (wanted.context < least) {
      fail("--context is {}, these tests need {} positions", wanted.context, least);
    }
    const std::uint64_t probe_bytes = parse_size(options_.probe_size, "--probe-size");
    if (probe_bytes < 4096 || probe_bytes > kMaxProbeBytes) {
      fail("--probe-size is {}, expected 4096 to 1Ti", format_size(probe_bytes));
    }
    if (options_.prompt_file) prompt_.text = io::read_text(*options_.prompt_file, kMaxPromptBytes);
    prompt_.seed = options_.seed;

    wanted.plans_drafts = options_.speculate.empty() ||
                          std::any_of(options_.speculate.begin(),
                                      options_.speculate.end(),
                                      [](const auto& setting) { return setting != "none"; });
    if (!wanted.plans_drafts) wanted.draft_model.clear();
    wanted.max_prediction = 0;
    foretoken::Engine engine = foretoken::Engine::open(wanted);
    std::vector<BenchResult> results = lay_out(engine);
    MachineWatch watch(engine.model().n_threads, probe_bytes);
    measure(engine, results);
    report(engine, std::move(results), watch.finish());
    return environment_.interrupts.was_interrupted() ? kInterruptedStatus : 0;
  }

 private:
  /// Positions that every test fits into; the opening of a dialogue takes a few.
  std::size_t least_context() const {
    constexpr std::size_t kOpeningRoom = 64;
    const auto most = [](const std::vector<std::size_t>& counts) {
      return *std::max_element(counts.begin(), counts.end());
    };
    const std::size_t depth = most(depths_);
    return std::max(depth + most(n_prompt_) + 1,
                    std::max(depth, kOpeningRoom) + most(n_generated_) + 1);
  }

  std::vector<BenchResult> lay_out(const foretoken::Engine& engine) const {
    std::vector<BenchResult> out;
    for (const std::size_t depth : depths_) {
      for (const std::size_t n : n_prompt_) {
        if (n > 0) out.push_back({.test = {.n_prompt = n, .depth = depth}});
      }
      for (const std::size_t n : n_generated_) {
        if (n > 0) add_generations(engine, n, depth, out);
      }
    }
    if (out.empty()) fail("-p and -n are 0, expected at least one number of tokens");
    return out;
  }

  void add_generations(const foretoken::Engine& engine,
                       std::size_t n,
                       std::size_t depth,
                       std::vector<BenchResult>& out) const {
    for (const std::string& setting : settings_of(options_, engine.model())) {
      BenchTest test{.n_generated = n, .depth = depth, .speculate = split_sources(setting)};
      if (!test.drafts()) {
        out.push_back({.test = std::move(test)});
        continue;
      }
      for (const std::string& length : split_list(options_.draft_tokens, "--draft-tokens")) {
        test.draft_tokens = parse_draft_tokens(length);
        out.push_back({.test = test});
      }
    }
  }

  /// Repetitions of all tests alternate, so that a busy moment hits all alike. The first round only
  /// warms up.
  void measure(foretoken::Engine& engine, std::vector<BenchResult>& results) {
    tokens_ = bench_tokens(engine, prompt_, least_context());
    opening_ = bench_opening(engine, prompt_);
    ProgressBar bar("measuring", !options_.quiet && format_ == BenchFormat::kMarkdown);
    const std::size_t n_rounds = options_.repetitions + 1;
    std::vector<std::vector<foretoken::Completion>> completions(results.size());
    const auto goes_on = [&] { return !environment_.interrupts.was_interrupted(); };
    for (std::size_t round = 0; round < n_rounds && goes_on(); ++round) {
      for (std::size_t i = 0; i < results.size(); ++i) {
        foretoken::Completion completion = run_test(engine, results[i].test);
        if (!goes_on()) break;
        bar.update(round * results.size() + i + 1, n_rounds * results.size());
        if (round == 0) continue;
        results[i].tokens_per_second.push_back(speed_of(results[i].test, completion));
        completions[i].push_back(std::move(completion));
      }
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!completions[i].empty()) take_median(results[i], completions[i]);
    }
    std::erase_if(results, [](const BenchResult& r) { return r.tokens_per_second.empty(); });
  }

  static double speed_of(const BenchTest& test, const foretoken::Completion& completion) {
    return test.is_prompt() ? completion.timings.prompt_per_second
                            : completion.timings.predicted_per_second;
  }

  static void take_median(BenchResult& result,
                          const std::vector<foretoken::Completion>& completions) {
    std::vector<std::size_t> order(completions.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return result.tokens_per_second[a] < result.tokens_per_second[b];
    });
    result.completion = completions[order[(order.size() - 1) / 2]];
  }

  foretoken::Completion run_test(foretoken::Engine& engine, const BenchTest& test) {
    foretoken::GenerationRequest request;
    request.prompt = prompt_of(test);
    request.n_untimed = test.is_prompt() ? test.depth : 0;
    // The first token is the prefill's work.
    request.max_tokens = test.is_prompt() ? 1 : test.n_generated + 1;
    request.sampling.temperature = 0.0F;
    request.ignore_eos = true;
    request.speculate = test.speculate;
    request.draft_tokens = test.draft_tokens;
    request.measure_work = true;
    foretoken::TokenStream stream = engine.submit(std::move(request));
    const InterruptScope scope(environment_.interrupts, [&stream] { stream.cancel(); });
    Outcome outcome = collect(stream, {});
    if (!environment_.interrupts.was_interrupted()) check_ids(test, outcome.token_ids);
    return std::move(outcome.completion);
  }

  /// At depth 0 a generation follows an opening; deeper, the opening stands at the end of the text.
  std::vector<foretoken::Token> prompt_of(const BenchTest& test) const {
    const auto first = tokens_.begin();
    if (test.is_prompt()) {
      return {first, first + static_cast<std::ptrdiff_t>(test.depth + test.n_prompt)};
    }
    const std::size_t n_text = test.depth - std::min(test.depth, opening_.size());
    std::vector<foretoken::Token> out(first, first + static_cast<std::ptrdiff_t>(n_text));
    out.insert(out.end(), opening_.begin(), opening_.end());
    return out;
  }

  /// Speculation and repetition change no token: a difference is a defect, not a speed.
  void check_ids(const BenchTest& test, const std::vector<foretoken::Token>& ids) {
    if (test.is_prompt()) return;
    const auto [known, is_new] = ids_.try_emplace({test.depth, test.n_generated}, ids);
    if (!is_new && known->second != ids) {
      throw LogicError(fmt::format(
          "bench: {} with --speculate {} generated other tokens than before; `foretoken prove` "
          "shows the first difference",
          test.name(),
          test.speculation()));
    }
  }

  void report(const foretoken::Engine& engine,
              std::vector<BenchResult> results,
              MachineReport machine) const {
    if (results.empty()) return;
    const BenchReport out{.machine = std::move(machine),
                          .model = engine.model(),
                          .kv_type = options_.model.kv_type,
                          .results = std::move(results)};
    ResultWriter().write(out.text(format_));
    if (out.machine.is_busy) {
      print_message(
          "foretoken: the machine is busy: others used {:.0f} % of the processors, {} "
          "threads reach {:.2f} of {} times one; these speeds are not stable\n",
          100 * out.machine.others_share,
          out.machine.n_threads,
          out.machine.thread_scaling,
          out.machine.n_threads);
    }
  }

  const BenchOptions& options_;
  Environment& environment_;
  BenchFormat format_;
  std::vector<std::size_t> n_prompt_;
  std::vector<std::size_t> n_generated_;
  std::vector<std::size_t> depths_;
  BenchPromptOptions prompt_;
  std::vector<foretoken::Token> tokens_;
  std::vector<foretoken::Token> opening_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<foretoken::Token>> ids_;
};

void add_test_options(CLI::App& command, BenchOptions& options) {
  constexpr const char* kGroup = "Tests";
  command.add_option("-p,--n-prompt", options.n_prompt, "Prompt lengths; 0 is none")
      ->type_name("N,...")
      ->group(kGroup)
      ->capture_default_str();
  command.add_option("-n,--n-gen", options.n_generated, "Tokens to generate; 0 is none")
      ->type_name("N,...")
      ->group(kGroup)
      ->capture_default_str();
  command.add_option("-d,--depth", options.depth, "Positions already in the context")
      ->type_name("N,...")
      ->group(kGroup)
      ->capture_default_str();
  command.add_option("-r,--repetitions", options.repetitions, "Measured runs of each test")
      ->type_name("N")
      ->group(kGroup)
      ->check(whole_number(1))
      ->capture_default_str();
  command
      .add_option("--speculate",
                  options.speculate,
                  "Draft sources of a generation test (repeatable) [none and auto]")
      ->type_name("SOURCES")
      ->group(kGroup)
      ->allow_extra_args(false)
      ->take_all();
  command.add_option("--draft-tokens", options.draft_tokens, "Draft lengths: auto, 0 to 64")
      ->type_name("N,...")
      ->group(kGroup)
      ->capture_default_str();
  command.add_option("--prompt-file", options.prompt_file, "Text of the prompts [a built-in one]")
      ->type_name("FILE")
      ->group(kGroup);
  command.add_option("--seed", options.seed, "Order of the built-in text's sentences")
      ->type_name("S")
      ->check(whole_number(0))
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option(
          "--probe-size", options.probe_size, "Memory that is read to measure its bandwidth")
      ->type_name("SIZE")
      ->group(kGroup)
      ->capture_default_str();
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "bench", "Speed of prompts and generations, and what part of the machine they use");
  auto options = std::make_shared<BenchOptions>();
  add_test_options(*command, *options);
  add_engine_options(*command, options->model);
  command->add_option("-o,--output", options->output, "Form: md, json, jsonl, csv")
      ->type_name("FORM")
      ->group("Output")
      ->capture_default_str();
  command->add_flag("--quiet", options->quiet, "No progress")->group("Output");
  command->callback([options, &chosen] {
    chosen = [options](Environment& environment) { return Benchmark(*options, environment).run(); };
  });
}

}  // namespace ft::apps
