// The program `foretoken`: reads the command line, runs a subcommand, turns errors into one line
// and an exit status.
#include "apps/commands.h"
#include "apps/mapped_fault.h"
#include "apps/message.h"
#include "base/error.h"
#include "foretoken/foretoken.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

constexpr int kRuntimeFailure = 1;
constexpr int kBadInput = 2;
constexpr const char* kSeeHelp = "; see foretoken --help";

constexpr std::array kSubcommands = {ft::apps::add_generate,
                                     ft::apps::add_chat,
                                     ft::apps::add_logits,
                                     ft::apps::add_perplexity,
                                     ft::apps::add_tokenize,
                                     ft::apps::add_detokenize,
                                     ft::apps::add_convert,
                                     ft::apps::add_inspect,
                                     ft::apps::add_plan,
                                     ft::apps::add_prove,
                                     ft::apps::add_bench,
                                     ft::apps::add_synth,
                                     ft::apps::add_replay_plan,
                                     ft::apps::add_serve};

int report(std::string message, int status) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  ft::apps::print_message("foretoken: {}\n", message);
  return status;
}

// Of ft::ErrorCode and of its public twin.
template <typename Code>
int status_of(Code code) {
  switch (code) {
    case Code::kInvalidInput:
      return kBadInput;
    case Code::kCancelled:
      return ft::apps::kInterruptedStatus;
    case Code::kIo:
    case Code::kResourceExhausted:
    case Code::kInternal:
      return kRuntimeFailure;
  }
  return kRuntimeFailure;
}

// The parser's own words for an option that is given twice speak of arguments, not of the option.
std::string describe(const CLI::ParseError& error, const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 1 && option->results().size() > 1) {
        return fmt::format(
            "{} is given {} times, expected once", option->get_name(), option->results().size());
      }
    }
  }
  return error.what();
}

int run(int argc, char** argv) {
  CLI::App app("Text from GLM models, with speculation that never changes it", "foretoken");
  app.set_version_flag("--version", FT_VERSION);
  app.require_subcommand(1);
  ft::apps::Command command;
  for (const auto& add : kSubcommands) add(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {  // --help, --version
    return app.exit(help);
  } catch (const CLI::RequiredError& error) {
    // Without a subcommand the parser does not say which word it did not know.
    const bool has_word = app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-';
    const std::string what =
        has_word ? "unknown subcommand " + ft::in_quotes(argv[1]) : error.what();
    return report(what + kSeeHelp, kBadInput);
  } catch (const CLI::ParseError& error) {
    return report(describe(error, app) + kSeeHelp, kBadInput);
  }
  ft::apps::InterruptWatcher interrupts;
  ft::apps::Environment environment{interrupts};
  return command(environment);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is seen where it is written to,
  std::signal(SIGXFSZ, SIG_IGN);  // and so is the limit on the size of files
  ft::apps::end_on_mapped_fault();
  try {
    return run(argc, argv);
  } catch (const foretoken::Error& error) {
    return report(error.what(), status_of(error.code()));
  } catch (const ft::Error& error) {
    return report(error.what(), status_of(error.code()));
  } catch (const std::bad_alloc&) {
    return report("out of memory", kRuntimeFailure);
  } catch (const std::exception& error) {
    return report(std::string("internal error: ") + error.what(), kRuntimeFailure);
  }
}
