// foretoken perplexity: how well a model predicts a text; what a quantisation costs shows here.
#include "apps/commands.h"
#include "apps/options.h"
#include "apps/result_writer.h"
#include "base/error.h"
#include "io/file.h"
#include "json/json.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  std::size_t window = 512;
  bool json = false;
};

struct Score {
  std::size_t n_tokens = 0;  // scored: all but each window's first
  std::size_t n_bytes = 0;   // theirs
  double nats = 0;

  double nats_per_token() const noexcept { return nats / static_cast<double>(n_tokens); }
  double nats_per_byte() const noexcept { return nats / static_cast<double>(n_bytes); }
};

Score score(foretoken::Engine& engine,
            const std::vector<foretoken::Token>& tokens,
            std::size_t window) {
  Score total;
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += window) {
    const std::size_t end = std::min(begin + window, tokens.size());
    foretoken::EvaluationRequest request;
    request.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                          tokens.begin() + static_cast<std::ptrdiff_t>(end));
    request.logprobs = true;
    total.n_bytes += engine.tokenizer().decode(std::span(request.tokens).subspan(1)).size();
    for (const float logprob : engine.evaluate(request).logprobs) {
      total.nats -= static_cast<double>(logprob);
      ++total.n_tokens;
    }
  }
  return total;
}

int run(const PerplexityOptions& options) {
  const std::string text = io::read_text(options.file, kMaxTextBytes);
  foretoken::EngineOptions wanted = engine_options(options.model);
  wanted.plans_drafts = false;
  wanted.n_logit_rows = std::min(options.model.prefill_chunk, options.window);
  foretoken::Engine engine = foretoken::Engine::open(wanted);
  const std::vector<foretoken::Token> tokens = engine.tokenizer().encode(text);
  if (tokens.size() < 2) {
    fail("{} has {} tokens, expected 2 or more: the first one of a window is only read",
         options.file,
         tokens.size());
  }
  const Score total = score(engine, tokens, options.window);
  const double perplexity = std::exp(total.nats_per_token());
  if (!options.json) {
    ResultWriter().write(fmt::format(
        "perplexity {:.4f}: {:.5f} nats per token, {:.5f} per byte ({} tokens, {} bytes)\n",
        perplexity,
        total.nats_per_token(),
        total.nats_per_byte(),
        total.n_tokens,
        total.n_bytes));
    return 0;
  }
  json::Writer out;
  out.begin_object();
  out.member("perplexity", perplexity);
  out.member("nats_per_token", total.nats_per_token());
  out.member("nats_per_byte", total.nats_per_byte());
  out.member("tokens", std::uint64_t{total.n_tokens});
  out.member("bytes", std::uint64_t{total.n_bytes});
  out.member("window", std::uint64_t{options.window});
  out.end_object();
  ResultWriter().write(out.text() + "\n");
  return 0;
}

}  // namespace

void add_perplexity(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "perplexity", "How well the model predicts a text: exp of the mean negative log-probability");
  auto options = std::make_shared<PerplexityOptions>();
  command->add_option("--file", options->file, "The text")
      ->type_name("FILE")
      ->group("Input")
      ->required();
  command
      ->add_option("--window", options->window, "Tokens per window; windows do not see each other")
      ->type_name("N")
      ->check(whole_number(2))
      ->capture_default_str()
      ->group("Input");
  options->model.draft_format = "stored";  // nothing is drafted
  add_engine_options(*command, options->model);
  add_json_option(*command, options->json);
  command->callback(
      [options, &chosen] { chosen = [options](Environment&) { return run(*options); }; });
}

}  // namespace ft::apps
