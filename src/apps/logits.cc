// foretoken logits: raw logits of a prompt, and drafts of the model's next-token head, for
// comparison with an oracle.
#include "apps/commands.h"
#include "apps/options.h"
#include "apps/result_writer.h"
#include "json/json.h"

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

struct LogitsOptions {
  ModelOptions model;
  std::string token_ids;
  bool all = false;
  std::size_t n_drafts = 0;
  bool json = false;
};

void write_ids(json::Writer& out, const std::vector<foretoken::Token>& ids) {
  out.begin_array();
  for (const foretoken::Token id : ids) out.value(id);
  out.end_array();
}

void write_rows(json::Writer& out, const std::vector<std::vector<float>>& rows) {
  out.begin_array();
  for (const std::vector<float>& row : rows) {
    out.begin_array();
    for (const float value : row) out.value(value);
    out.end_array();
  }
  out.end_array();
}

std::string to_json(const std::vector<foretoken::Token>& ids,
                    const foretoken::Evaluation& evaluation,
                    bool with_drafts) {
  json::Writer out;
  out.begin_object();
  write_ids(out.key("token_ids"), ids);
  out.key("positions").begin_array();
  for (const std::size_t position : evaluation.positions) out.value(std::uint64_t{position});
  out.end_array();
  write_rows(out.key("logits"), evaluation.logits);
  if (with_drafts) {
    out.key("mtp").begin_object();
    write_ids(out.key("drafts"), evaluation.drafts);
    write_rows(out.key("logits"), evaluation.draft_logits);
    out.end_object();
  }
  out.end_object();
  return out.text() + "\n";
}

// One row per line, numbers as exact as in JSON.
std::string to_lines(const std::vector<std::vector<float>>& rows) {
  std::string out;
  for (const std::vector<float>& row : rows) out += fmt::format("{}\n", fmt::join(row, " "));
  return out;
}

int run(const LogitsOptions& options) {
  foretoken::EvaluationRequest request;
  request.tokens = parse_token_ids(options.token_ids);
  request.all_positions = options.all;
  request.n_drafts = options.n_drafts;
  foretoken::EngineOptions wanted = engine_options(options.model);
  wanted.plans_drafts = options.n_drafts > 0;
  if (options.all) wanted.n_logit_rows = options.model.prefill_chunk;
  foretoken::Engine engine = foretoken::Engine::open(wanted);
  const foretoken::Evaluation evaluation = engine.evaluate(request);
  ResultWriter result;
  if (options.json) {
    result.write(to_json(request.tokens, evaluation, options.n_drafts > 0));
  } else {
    result.write(to_lines(evaluation.logits));
    result.write(to_lines(evaluation.draft_logits));
  }
  return 0;
}

}  // namespace

void add_logits(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "logits", "Raw logits of a prompt, one row per line, or with --json exactly as they are");
  auto options = std::make_shared<LogitsOptions>();
  command->add_option("--token-ids", options->token_ids, "Prompt as ids: 1,2,3")
      ->type_name("IDS")
      ->group("Prompt")
      ->required();
  command->add_flag("--all", options->all, "A row for each prompt position, else the last one's")
      ->group("Output");
  command
      ->add_option(
          "--mtp", options->n_drafts, "Greedy drafts of the next-token head after the prompt")
      ->type_name("N")
      ->check(whole_number(0))
      ->group("Output");
  // Logits are compared with an oracle's.
  options->model.draft_format = "stored";
  options->model.kv_type = "f32";
  add_engine_options(*command, options->model);
  add_json_option(*command, options->json);
  command->callback(
      [options, &chosen] { chosen = [options](Environment&) { return run(*options); }; });
}

}  // namespace ft::apps
