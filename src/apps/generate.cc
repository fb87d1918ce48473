// foretoken generate: plain completion, streamed to standard output.
#include "apps/commands.h"
#include "apps/message.h"
#include "apps/options.h"
#include "apps/outcome.h"
#include "apps/progress.h"
#include "apps/result_writer.h"
#include "base/error.h"
#include "io/file.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

struct GenerateOptions {
  ModelOptions model;
  PromptOptions prompt;
  GenerationOptions generation;
  SpeculationOptions speculation;
  OutputOptions output;
  std::optional<std::string> trace_file;
};

foretoken::Engine open_engine(const GenerateOptions& options) {
  foretoken::EngineOptions wanted = engine_options(options.model);
  if (options.speculation.speculate == std::vector<std::string>{"none"}) {
    wanted.draft_format = "stored";  // nothing is drafted
    wanted.plans_drafts = false;
    wanted.draft_model.clear();
  }
  wanted.max_prediction = most_predicted(options.speculation.prediction_file);
  if (!options.model.no_expert_usage) {
    wanted.expert_usage = foretoken::ExpertUsageFile::kUpdate;
  }
  ProgressBar bar("loading", options.output.wants_progress());
  wanted.load_progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.update(done, total);
  };
  return foretoken::Engine::open(wanted);
}

foretoken::GenerationRequest make_request(const GenerateOptions& options,
                                          const foretoken::Engine& engine,
                                          io::LineWriter* trace) {
  foretoken::GenerationRequest request =
      generation_request(options.generation, options.speculation);
  request.prompt = read_prompt(
      options.prompt, [&engine]() -> const foretoken::Tokenizer& { return engine.tokenizer(); });
  if (options.speculation.prediction_file) {
    request.prediction = read_prediction(options.speculation, engine.tokenizer());
  }
  if (!options.speculation.speculate.empty()) {
    request.speculate =
        split_sources(fmt::format("{}", fmt::join(options.speculation.speculate, ",")));
  }
  if (trace != nullptr) request.trace = [trace](std::string_view line) { trace->write(line); };
  return request;
}

// Text goes out as it is committed; with --json it waits for the document.
Outcome stream_to_output(foretoken::TokenStream& stream,
                         const OutputOptions& output,
                         ResultWriter& result) {
  ProgressBar bar("prompt", output.wants_progress());
  return collect(stream, [&](const foretoken::Event& event) {
    if (const auto* progress = std::get_if<foretoken::PrefillProgress>(&event)) {
      bar.update(progress->n_done, progress->n_prompt);
    } else if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&event)) {
      bar.clear();
      if (!output.json && !result.write(tokens->text)) stream.cancel();
    }
  });
}

// Opening a trace truncates it, so a name among the model's own files is a mistake to stop.
void refuse_model_files(const std::filesystem::path& trace, const std::filesystem::path& model) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto folder_of = [](const fs::path& file) {
    return file.has_parent_path() ? file.parent_path() : fs::path(".");
  };
  if (fs::equivalent(
          folder_of(trace), fs::is_directory(model, ignored) ? model : folder_of(model), ignored)) {
    fail("--trace {} would be written into the model's folder; give it another place",
         in_quotes(trace.string()));
  }
}

int run(const GenerateOptions& options, Environment& environment) {
  std::optional<io::LineWriter> trace;
  if (options.trace_file) {
    refuse_model_files(*options.trace_file, engine_options(options.model).model_path);
    trace.emplace(*options.trace_file);
  }
  foretoken::Engine engine = open_engine(options);
  foretoken::TokenStream stream =
      engine.submit(make_request(options, engine, trace ? &*trace : nullptr));
  const InterruptScope scope(environment.interrupts, [&stream] { stream.cancel(); });

  ResultWriter result;
  const Outcome outcome = stream_to_output(stream, options.output, result);
  if (options.output.json) {
    result.write(outcome_json(outcome, engine.model(), options.generation.logprobs.has_value()) +
                 "\n");
  }
  if (trace) trace->flush();
  if (result.is_closed()) return 0;
  if (options.output.wants_progress()) {
    const bool needs_newline = !outcome.text.empty() && !outcome.text.ends_with('\n');
    print_message("{}{}",
                  needs_newline ? "\n" : "",
                  statistics_text(outcome, engine.model(), options.output.verbose));
  }
  return environment.interrupts.was_interrupted() ? kInterruptedStatus : 0;
}

}  // namespace

void add_generate(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("generate", "Continue a prompt; the text is streamed to standard output");
  auto options = std::make_shared<GenerateOptions>();
  add_prompt_options(*command, options->prompt);
  add_generation_options(*command, options->generation);
  add_speculation_options(*command, options->speculation);
  add_engine_options(*command, options->model);
  add_output_options(*command, options->output);
  command->add_option("--trace", options->trace_file, "File for one JSON line per round")
      ->type_name("FILE")
      ->group("Output");
  command->callback([options, &chosen] {
    chosen = [options](Environment& environment) { return run(*options, environment); };
  });
}

}  // namespace ft::apps
