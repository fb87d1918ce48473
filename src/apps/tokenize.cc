// foretoken tokenize: text or a chat request to token ids.
#include "apps/commands.h"
#include "apps/model_path.h"
#include "apps/options.h"
#include "apps/result_writer.h"
#include "base/error.h"
#include "io/file.h"
#include "json/json.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace ft::apps {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text;
  std::optional<std::string> file;
  std::optional<std::string> chat_file;
  bool show = false;
};

// A single positional argument is the text, unless a file brings it.
void settle_positionals(TokenizeOptions& options) {
  const bool has_file = options.file || options.chat_file;
  if (!has_file && !options.text && !options.model.empty()) {
    options.text = options.model;
    options.model.clear();
  }
  const int n_given = (options.text ? 1 : 0) + (options.file ? 1 : 0) + (options.chat_file ? 1 : 0);
  if (n_given != 1) fail("{} of TEXT, --file and --chat-json are given, expected one", n_given);
}

foretoken::ChatPrompt encode(const TokenizeOptions& options,
                             const foretoken::Tokenizer& tokenizer) {
  if (options.chat_file) {
    return tokenizer.encode_chat(io::read_input(*options.chat_file, kMaxTextBytes));
  }
  foretoken::ChatPrompt out;
  out.text = options.text ? *options.text : io::read_input(*options.file, kMaxTextBytes);
  out.ids = tokenizer.encode(out.text);
  return out;
}

int run(TokenizeOptions options) {
  settle_positionals(options);
  const auto tokenizer =
      foretoken::Tokenizer::open(resolve_model(options.model, model_folders()).string());
  const foretoken::ChatPrompt prompt = encode(options, tokenizer);
  json::Writer out;
  if (options.show) out.begin_object().key("token_ids");
  out.begin_array();
  for (const foretoken::Token id : prompt.ids) out.value(id);
  out.end_array();
  if (options.show) out.member("text", prompt.text).end_object();
  ResultWriter().write(out.text() + "\n");
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("tokenize", "Text or a chat request to ids, a JSON array");
  auto options = std::make_shared<TokenizeOptions>();
  add_model_argument(*command, options->model);
  command->add_option("TEXT", options->text, "The text; alone, it needs no MODEL before it")
      ->type_name("");
  command->add_option("--file", options->file, "File with the text")
      ->type_name("FILE")
      ->group("Input");
  command
      ->add_option("--chat-json",
                   options->chat_file,
                   "File with a chat request: {\"messages\": [...], \"tools\": [...]}")
      ->type_name("FILE")
      ->group("Input");
  command
      ->add_flag("--show", options->show, "An object of token_ids and the (rendered) text instead")
      ->group("Output");
  command->callback(
      [options, &chosen] { chosen = [options](Environment&) { return run(*options); }; });
}

}  // namespace ft::apps
