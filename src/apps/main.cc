// The program `foretoken`: reads the command line, runs a subcommand, turns errors into one line
// and an exit status.
#include "apps/commands.h"
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
constexpr int kInterrupted = 130;
constexpr const char* kSeeHelp = "; see foretoken --help";

constexpr std::array kSubcommands = {ft::apps::add_generate,
                                     ft::apps::add_logits,
                                     ft::apps::add_perplexity,
                                     ft::apps::add_tokenize,
                                     ft::apps::add_detokenize,
                                     ft::apps::add_inspect,
                                     ft::apps::add_prove};

int report(std::string message, int status) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "foretoken: {}\n", message);
  return status;
}

int status_of(ft::ErrorCode code) {
  switch (code) {
    case ft::ErrorCode::kInvalidInput:
      return kBadInput;
    case ft::ErrorCode::kCancelled:
      return kInterrupted;
    case ft::ErrorCode::kIo:
    case ft::ErrorCode::kResourceExhausted:
    case ft::ErrorCode::kInternal:
      return kRuntimeFailure;
  }
  return kRuntimeFailure;
}

int status_of(foretoken::ErrorCode code) {
  switch (code) {
    case foretoken::ErrorCode::kInvalidInput:
      return kBadInput;
    case foretoken::ErrorCode::kCancelled:
      return kInterrupted;
    case foretoken::ErrorCode::kIo:
    case foretoken::ErrorCode::kResourceExhausted:
    case foretoken::ErrorCode::kInternal:
      return kRuntimeFailure;
  }
  return kRuntimeFailure;
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
    return report(std::string(error.what()) + kSeeHelp, kBadInput);
  }
  ft::apps::InterruptWatcher interrupts;
  ft::apps::Environment environment{interrupts};
  return command(environment);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is seen where it is written to
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
