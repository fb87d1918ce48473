// Tokens per second of requests that run together, with and without drafts, in runs that alternate:
// sessions_bench MODEL [--sessions 1,4] [--speculate none,auto] [-n 200] [-r 5].
#include "foretoken/foretoken.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

struct Options {
  std::string model;
  std::vector<std::size_t> sessions = {1, 4};
  std::vector<std::string> sources = {"none", "auto"};
  std::size_t n_tokens = 200;
  std::size_t n_repetitions = 5;
  float temperature = 0;
  std::optional<std::size_t> draft_tokens;  // unset: the planner's choice
};

struct Case {
  std::string source;
  std::size_t n_sessions = 0;
  std::vector<double> rates;    // tokens per second of all sessions, by repetition
  double tokens_per_round = 0;  // in the last one
};

std::vector<foretoken::Token> prompt(const foretoken::Engine& engine, std::size_t i) {
  static const std::vector<std::string> kHeroes = {
      "wolf", "queen", "robot", "sailor", "cat", "baker", "dragon", "child"};
  try {
    return engine.tokenizer().encode("[gMASK]<sop><|user|>Tell me a story about a " +
                                     kHeroes[i % kHeroes.size()] + ".<|assistant|><think></think>");
  } catch (const foretoken::Error&) {  // a synthetic model has no text
    std::mt19937 random(static_cast<unsigned>(i));
    std::vector<foretoken::Token> ids(16);
    for (auto& id : ids) id = static_cast<foretoken::Token>(random() % engine.model().n_vocab);
    return ids;
  }
}

void run(foretoken::Engine& engine, const Options& options, Case& one) {
  std::vector<foretoken::TokenStream> streams;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < one.n_sessions; ++i) {
    foretoken::GenerationRequest request;
    request.prompt = prompt(engine, i);
    request.max_tokens = options.n_tokens;
    request.sampling.temperature = options.temperature;
    request.sampling.seed = i;
    request.ignore_eos = true;
    request.speculate = {one.source};
    request.draft_tokens = options.draft_tokens;
    streams.push_back(engine.submit(request));
  }
  double n_tokens = 0;
  double n_rounds = 0;
  for (foretoken::TokenStream& stream : streams) {
    while (const auto event = stream.next()) {
      const auto* completion = std::get_if<foretoken::Completion>(&*event);
      if (completion == nullptr) continue;
      n_tokens += static_cast<double>(completion->usage.completion_tokens);
      n_rounds += static_cast<double>(completion->speculation.rounds);
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  one.rates.push_back(n_tokens / took.count());
  one.tokens_per_round = n_tokens / std::max(n_rounds, 1.0);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string ratios(const Case& one, const Case& base) {
  std::vector<double> out;
  for (std::size_t i = 0; i < one.rates.size(); ++i) out.push_back(one.rates[i] / base.rates[i]);
  return fmt::format("{:.2f} ({:.2f}-{:.2f})",
                     median(out),
                     *std::min_element(out.begin(), out.end()),
                     *std::max_element(out.begin(), out.end()));
}

void bench(const Options& options) {
  foretoken::EngineOptions engine_options;
  engine_options.model_path = options.model;
  engine_options.context = 1024;
  engine_options.max_sessions = *std::max_element(options.sessions.begin(), options.sessions.end());
  foretoken::Engine engine = foretoken::Engine::open(engine_options);
  std::vector<Case> cases;
  for (const std::string& source : options.sources) {
    for (const std::size_t n : options.sessions) cases.push_back({source, n, {}, 0});
  }
  for (std::size_t i = 0; i <= options.n_repetitions; ++i) {  // the first warms up
    for (Case& one : cases) run(engine, options, one);
  }
  for (Case& one : cases) one.rates.erase(one.rates.begin());
  fmt::print("{:>10} {:>8} {:>10}  {:>18}  {:>18} {:>14}\n",
             "drafts",
             "sessions",
             "tokens/s",
             "x first sessions",
             "x first drafts",
             "tokens/round");
  const std::size_t n_sizes = options.sessions.size();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    fmt::print("{:>10} {:>8} {:>10.1f}  {:>18}  {:>18} {:>14.2f}\n",
               cases[i].source,
               cases[i].n_sessions,
               median(cases[i].rates),
               ratios(cases[i], cases[i - i % n_sizes]),
               ratios(cases[i], cases[i % n_sizes]),
               cases[i].tokens_per_round);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Requests that run together");
  app.add_option("model", options.model)->required();
  app.add_option("--sessions", options.sessions)->delimiter(',');
  app.add_option("--speculate", options.sources)->delimiter(',');
  app.add_option("-n", options.n_tokens);
  app.add_option("-r", options.n_repetitions);
  app.add_option("--draft-tokens", options.draft_tokens);
  app.add_option("--temperature", options.temperature);
  CLI11_PARSE(app, argc, argv);
  try {
    bench(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
