// Tokens per second of requests that run together, with and without drafts, in runs that alternate:
// sessions_bench MODEL [--sessions 1,4] [--speculate none,auto,mtp:3] [-n 200] [-r 5].
#include "foretoken/foretoken.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <utility>
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

using Clock = std::chrono::steady_clock;

/// What became of one request.
struct Reply {
  std::vector<std::pair<Clock::time_point, std::size_t>> tokens;  // when they came, how many
  std::size_t n_rounds = 0;
};

Reply collect(foretoken::TokenStream& stream) {
  Reply reply;
  while (const auto event = stream.next()) {
    if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event)) {
      reply.tokens.emplace_back(Clock::now(), tokens->ids.size());
    } else if (const auto* completion = std::get_if<foretoken::Completion>(&*event)) {
      reply.n_rounds = completion->speculation.rounds;
    }
  }
  return reply;
}

foretoken::GenerationRequest request(const foretoken::Engine& engine,
                                     const Options& options,
                                     const std::string& source,
                                     std::size_t i) {
  foretoken::GenerationRequest out;
  out.prompt = prompt(engine, i);
  out.max_tokens = options.n_tokens;
  out.sampling.temperature = options.temperature;
  out.sampling.seed = i;
  out.ignore_eos = true;
  const std::size_t colon = source.find(':');
  out.speculate = {source.substr(0, colon)};
  if (colon != std::string::npos) out.draft_tokens = std::stoul(source.substr(colon + 1));
  return out;
}

/// Counts while all sessions decode: from the last first token to the first end.
void run(foretoken::Engine& engine, const Options& options, Case& one) {
  std::vector<Reply> replies(one.n_sessions);
  {
    std::vector<std::jthread> readers;
    for (std::size_t i = 0; i < one.n_sessions; ++i) {
      readers.emplace_back(
          [&reply = replies[i],
           stream = engine.submit(request(engine, options, one.source, i))]() mutable {
            reply = collect(stream);
          });
    }
  }
  Clock::time_point begin = Clock::time_point::min();
  Clock::time_point end = Clock::time_point::max();
  double n_tokens = 0;
  double n_rounds = 0;
  for (const Reply& reply : replies) {
    begin = std::max(begin, reply.tokens.front().first);
    end = std::min(end, reply.tokens.back().first);
    n_tokens += static_cast<double>(options.n_tokens);
    n_rounds += static_cast<double>(reply.n_rounds);
  }
  std::size_t n_counted = 0;
  for (const Reply& reply : replies) {
    for (const auto& [at, n] : reply.tokens) n_counted += at > begin && at <= end ? n : 0;
  }
  const std::chrono::duration<double> took = end - begin;
  one.rates.push_back(static_cast<double>(n_counted) / took.count());
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
