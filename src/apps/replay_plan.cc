// foretoken replay-plan: the planner's choices computed again from a trace, and, of several traces
// of one request, what other choices would have taken.
#include "apps/commands.h"
#include "apps/options.h"
#include "apps/result_writer.h"
#include "engine/trace_reader.h"
#include "json/json.h"
#include "speculation/recorded_world.h"
#include "speculation/replay.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr int kDiffers = 1;

struct ReplayOptions {
  std::vector<std::string> traces;
  bool json = false;
};

struct Replayed {
  std::size_t n_rounds = 0;
  std::optional<speculation::PlanDifference> difference;
};

std::string as_json(const ReplayOptions& options,
                    const std::vector<Replayed>& replayed,
                    const std::vector<speculation::PlayedChoice>& played) {
  json::Writer out;
  out.begin_object().key("traces").begin_array();
  for (std::size_t i = 0; i < replayed.size(); ++i) {
    const auto& difference = replayed[i].difference;
    out.begin_object().member("file", options.traces[i]);
    out.member("rounds", std::uint64_t{replayed[i].n_rounds});
    out.member("identical", !difference.has_value());
    if (difference) {
      out.key("difference").begin_object();
      out.member("round", std::uint64_t{difference->round});
      out.member("recorded", difference->recorded).member("recomputed", difference->recomputed);
      out.end_object();
    }
    out.end_object();
  }
  out.end_array();
  if (!played.empty()) {
    out.key("played").begin_array();
    for (const speculation::PlayedChoice& choice : played) {
      out.begin_object().member("choice", choice.name);
      out.member("us_per_1000_tokens", choice.us_per_1000_tokens);
      out.member("tokens_per_round", choice.tokens_per_round).end_object();
    }
    out.end_array().member("regret", speculation::regret(played));
  }
  return out.end_object().text() + "\n";
}

std::string as_text(const ReplayOptions& options,
                    const std::vector<Replayed>& replayed,
                    const std::vector<speculation::PlayedChoice>& played) {
  std::string out;
  for (std::size_t i = 0; i < replayed.size(); ++i) {
    out += fmt::format("{}: {} rounds, ", options.traces[i], replayed[i].n_rounds);
    if (const auto& difference = replayed[i].difference) {
      out += fmt::format("differs in round {}\n  recorded    {}\n  recomputed  {}\n",
                         difference->round,
                         difference->recorded,
                         difference->recomputed);
    } else {
      out += "identical\n";
    }
  }
  if (played.empty()) return out;
  out += "played in the world of all traces, per 1,000 tokens:\n";
  for (const speculation::PlayedChoice& choice : played) {
    out += fmt::format("  {:<16}{:>12.1f} ms {:>7.2f} tokens per round\n",
                       choice.name,
                       choice.us_per_1000_tokens / 1000,
                       choice.tokens_per_round);
  }
  return out + fmt::format("regret of auto against the best fixed choice: {:.2f} %\n",
                           100 * speculation::regret(played));
}

int run(const ReplayOptions& options) {
  std::vector<speculation::RecordedTrace> traces;
  std::vector<Replayed> replayed;
  bool is_same = true;
  for (const std::string& path : options.traces) {
    traces.push_back(engine::read_trace(path));
    replayed.push_back({traces.back().rounds.size(), speculation::find_difference(traces.back())});
    is_same = is_same && !replayed.back().difference;
  }
  std::vector<speculation::PlayedChoice> played;
  if (traces.size() > 1) played = speculation::RecordedWorld(traces).play();
  ResultWriter().write(options.json ? as_json(options, replayed, played)
                                    : as_text(options, replayed, played));
  return is_same ? 0 : kDiffers;
}

}  // namespace

void add_replay_plan(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "replay-plan", "The planner's choices from a trace, again; of several traces, other choices");
  auto options = std::make_shared<ReplayOptions>();
  command->add_option("TRACE", options->traces, "Files of generate --trace")->required();
  add_json_option(*command, options->json);
  command->callback(
      [options, &chosen] { chosen = [options](Environment&) { return run(*options); }; });
}

}  // namespace ft::apps
