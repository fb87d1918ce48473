// foretoken convert: a checkpoint as a container.
#include "apps/commands.h"
#include "apps/model_path.h"
#include "apps/options.h"
#include "apps/progress.h"
#include "apps/result_writer.h"
#include "apps/sizes.h"
#include "apps/verify.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/container_verify.h"
#include "json/json.h"
#include "models/conversion.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string source;
  std::string destination;
  std::string expert_format = "q4";
  std::string dense_format = "q8";
  std::string mtp_format = "q8";
  std::string head_format = "q8";
  bool verify = false;
  std::size_t n_threads = 0;
  OutputOptions output;
};

fs::path without_links(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::weakly_canonical(path, error);
  if (error) fail("convert: {}: {}", in_quotes(path.native()), error.message());
  return out;
}

/// Whether `inner` is `outer` or lies in it. Both as far as they exist.
bool is_inside(const fs::path& inner, const fs::path& outer) {
  const fs::path in = without_links(inner);
  const fs::path out = without_links(outer);
  const auto [left, right] = std::mismatch(out.begin(), out.end(), in.begin(), in.end());
  return left == out.end() || (std::next(left) == out.end() && left->empty());
}

void check_folders(const fs::path& source, const fs::path& destination) {
  if (destination.empty()) fail("convert: DST is empty, expected the folder to write");
  if (is_inside(destination, source) || is_inside(source, destination)) {
    fail("convert: {} and {} lie in one another; choose a folder of its own",
         in_quotes(destination.native()),
         in_quotes(source.native()));
  }
}

models::ConversionResult convert(const ConvertOptions& options,
                                 const checkpoint::Checkpoint& checkpoint,
                                 Environment& environment) {
  models::ConversionOptions wanted;
  wanted.formats = {.dense = weight_format(options.dense_format, "--dense-format"),
                    .experts = weight_format(options.expert_format, "--expert-format"),
                    .mtp = weight_format(options.mtp_format, "--mtp-format"),
                    .head = weight_format(options.head_format, "--head-format")};
  wanted.converter = std::string("foretoken ") + FT_VERSION;
  ProgressBar bar("converting", options.output.wants_progress());
  wanted.progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
  ThreadPool pool(compute_threads(options.n_threads));
  std::stop_source stop;
  const InterruptScope scope(environment.interrupts, [&stop] { stop.request_stop(); });
  return models::convert_model(checkpoint, options.destination, wanted, pool, stop.get_token());
}

std::string to_json(const ConvertOptions& options, const models::ConversionResult& result) {
  json::Writer out;
  out.begin_object().member("container", options.destination).member("bytes", result.total_bytes);
  out.member("resumed_bytes", result.resumed_bytes);
  out.member("was_complete", result.was_complete).member("verified", options.verify);
  return out.end_object().text() + "\n";
}

std::string to_text(const ConvertOptions& options, const models::ConversionResult& result) {
  return fmt::format("{}: {}{}{}\n",
                     options.destination,
                     format_size(result.total_bytes),
                     result.was_complete ? ", was complete" : "",
                     options.verify ? ", every byte verified" : "");
}

int run(const ConvertOptions& options, Environment& environment) {
  const fs::path source = resolve_model(options.source, model_folders());
  const checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(source);
  check_folders(checkpoint.folder(), options.destination);
  const models::ConversionResult result = convert(options, checkpoint, environment);
  if (options.verify) verify(options.destination, options.output);
  ResultWriter().write(options.output.json ? to_json(options, result) : to_text(options, result));
  return 0;
}

void add_format(CLI::App& command, const char* name, std::string& format, const char* what) {
  command.add_option(name, format, what)->type_name("F")->group("Formats")->capture_default_str();
}

}  // namespace

void verify(const std::string& folder, const OutputOptions& output) {
  ProgressBar bar("verifying", output.wants_progress());
  const std::vector<std::string> problems = checkpoint::verify_container(
      folder, [&bar](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  if (problems.empty()) return;
  bar.clear();
  const std::size_t n_more = problems.size() - 1;
  fail("{}{}", problems.front(), n_more > 0 ? fmt::format(" (and {} more)", n_more) : "");
}

void add_convert(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "convert",
      "Write a checkpoint as a container: quantized, one extent per expert. Goes on where an "
      "earlier run was stopped");
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("SRC", options->source, "Model folder, or the name of one that ships")
      ->required()
      ->type_name("");
  command->add_option("DST", options->destination, "Folder to write")->required()->type_name("");
  add_format(*command,
             "--expert-format",
             options->expert_format,
             "Routed experts: q4, q8, bf16, f16, f32, or fp8 (what is fp8 stays, and all else)");
  add_format(*command,
             "--dense-format",
             options->dense_format,
             "Attention, dense and shared networks; indexer and router stay as stored");
  add_format(
      *command, "--mtp-format", options->mtp_format, "The next-token layer, its experts too");
  add_format(*command, "--head-format", options->head_format, "The output head");
  command->add_flag("--verify", options->verify, "Read everything again and check it")
      ->group("Output");
  command
      ->add_option("--threads",
                   options->n_threads,
                   fmt::format("Threads [{}: the cores allowed to this process]", usable_cores()))
      ->type_name("N")
      ->group("Engine")
      ->check(whole_number(1));
  add_output_options(*command, options->output);
  command->callback([options, &chosen] {
    chosen = [options](Environment& environment) { return run(*options, environment); };
  });
}

}  // namespace ft::apps
