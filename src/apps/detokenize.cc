// foretoken detokenize: token ids to the exact bytes.
#include "apps/commands.h"
#include "apps/model_path.h"
#include "apps/options.h"
#include "apps/result_writer.h"
#include "json/json.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace ft::apps {
namespace {

struct DetokenizeOptions {
  std::string model;
  std::string token_ids;
  bool json = false;
};

int run(const DetokenizeOptions& options) {
  const auto ids = parse_token_ids(options.token_ids);
  const auto tokenizer =
      foretoken::Tokenizer::open(resolve_model(options.model, model_folders()).string());
  const std::string bytes = tokenizer.decode(ids);
  if (options.json) {
    json::Writer out;
    out.begin_object().member("text", bytes).end_object();
    ResultWriter().write(out.text() + "\n");
  } else {
    ResultWriter().write(bytes);
  }
  return 0;
}

}  // namespace

void add_detokenize(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("detokenize", "Ids to the exact bytes, special tokens included");
  auto options = std::make_shared<DetokenizeOptions>();
  add_model_argument(*command, options->model);
  command->add_option("--token-ids", options->token_ids, "Ids: 1,2,3")
      ->type_name("IDS")
      ->group("Input")
      ->required();
  add_json_option(*command, options->json);
  command->callback(
      [options, &chosen] { chosen = [options](Environment&) { return run(*options); }; });
}

}  // namespace ft::apps
