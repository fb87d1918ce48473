// The subcommands of the program, one file each.
#pragma once

#include "apps/interrupt.h"

#include <functional>

namespace CLI {  // NOLINT(readability-identifier-naming): third-party name
class App;
}

namespace ft::apps {

/// What every command may use.
struct Environment {
  InterruptWatcher& interrupts;
};

/// Runs the chosen subcommand and returns the exit status. Throws ft::Error and foretoken::Error.
using Command = std::function<int(Environment&)>;

// Each adds its subcommand and options to `app`; if the command line names it, `chosen` becomes
// what to run. Options live as long as the parsed App.
void add_generate(CLI::App& app, Command& chosen);
void add_chat(CLI::App& app, Command& chosen);
void add_logits(CLI::App& app, Command& chosen);
void add_perplexity(CLI::App& app, Command& chosen);
void add_tokenize(CLI::App& app, Command& chosen);
void add_detokenize(CLI::App& app, Command& chosen);
void add_convert(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_plan(CLI::App& app, Command& chosen);
void add_prove(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_synth(CLI::App& app, Command& chosen);
void add_replay_plan(CLI::App& app, Command& chosen);
void add_serve(CLI::App& app, Command& chosen);

}  // namespace ft::apps
