// foretoken synth: a random model of GLM-5.2's shape, for measurements without the weights.
#include "apps/commands.h"
#include "apps/options.h"
#include "apps/progress.h"
#include "apps/result_writer.h"
#include "apps/sizes.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "json/json.h"
#include "models/synthetic_model.h"

#include <charconv>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

struct SynthOptions {
  std::string destination;
  std::size_t n_layers = 0;
  std::optional<std::size_t> n_dense_layers;
  std::string width = "full";
  std::string expert_format = "q4";
  std::string dense_format = "q8";
  double routing_skew = 0;
  std::uint64_t seed = 1;
  bool has_mtp = false;
  OutputOptions output;
};

double fraction_of(const std::string& width) {
  if (width == "full") return 1;
  double fraction = 0;
  const char* end = width.data() + width.size();
  const auto [stop, error] = std::from_chars(width.data(), end, fraction);
  if (error == std::errc() && stop == end) return fraction;
  fail("--width is {}, expected full or a fraction such as 0.25", in_quotes(width));
}

models::SyntheticShape shape_of(const SynthOptions& options) {
  models::SyntheticShape shape =
      models::synthetic_shape(options.n_layers, fraction_of(options.width));
  if (options.n_dense_layers) {
    if (*options.n_dense_layers > options.n_layers) {
      fail("--dense-layers is {}, there are {} layers", *options.n_dense_layers, options.n_layers);
    }
    shape.n_dense_layers = *options.n_dense_layers;
  }
  shape.has_mtp = options.has_mtp;
  return shape;
}

int run(const SynthOptions& options, Environment& environment) {
  if (options.destination.empty()) fail("synth: DST is empty, expected the folder to write");
  models::SyntheticOptions wanted;
  wanted.shape = shape_of(options);
  wanted.experts = weight_format(options.expert_format, "--expert-format");
  wanted.dense = weight_format(options.dense_format, "--dense-format");
  wanted.routing_skew = options.routing_skew;
  wanted.seed = options.seed;
  wanted.converter = std::string("foretoken ") + FT_VERSION;
  ProgressBar bar("writing", options.output.wants_progress());
  wanted.progress = [&bar](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
  ThreadPool pool(usable_cores());
  std::stop_source stop;
  const InterruptScope scope(environment.interrupts, [&stop] { stop.request_stop(); });
  const std::uint64_t bytes =
      models::write_synthetic_model(options.destination, wanted, pool, stop.get_token());
  bar.clear();
  if (options.output.json) {
    json::Writer out;
    out.begin_object().member("container", options.destination).member("bytes", bytes);
    ResultWriter().write(out.end_object().text() + "\n");
  } else {
    ResultWriter().write(fmt::format("{}: {}\n", options.destination, format_size(bytes)));
  }
  return 0;
}

}  // namespace

void add_synth(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "synth", "Write a random model of GLM-5.2's shape, for measurements without the weights");
  auto options = std::make_shared<SynthOptions>();
  constexpr const char* kGroup = "Model";
  command->add_option("DST", options->destination, "Folder to write")->required()->type_name("");
  command->add_option("--layers", options->n_layers, "Decoder layers")
      ->type_name("N")
      ->group(kGroup)
      ->check(whole_number(1))
      ->required();
  command
      ->add_option(
          "--dense-layers", options->n_dense_layers, "Of these without experts [the first 3]")
      ->type_name("N")
      ->group(kGroup)
      ->check(whole_number(0));
  command->add_flag("--mtp", options->has_mtp, "With a next-token layer")->group(kGroup);
  command
      ->add_option(
          "--width", options->width, "full, or a fraction of the widths and the vocabulary")
      ->type_name("W")
      ->group(kGroup)
      ->capture_default_str();
  command->add_option("--expert-format", options->expert_format, "Of experts: q4, q8, bf16, fp8")
      ->type_name("F")
      ->group(kGroup)
      ->capture_default_str();
  command
      ->add_option("--dense-format",
                   options->dense_format,
                   "Of the rest, the head and the next-token layer: q4, q8, bf16, fp8")
      ->type_name("F")
      ->group(kGroup)
      ->capture_default_str();
  command
      ->add_option("--routing-skew",
                   options->routing_skew,
                   "Experts are used about as rank^-S; 0 is evenly, at most 4")
      ->type_name("S")
      ->group(kGroup)
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of everything random")
      ->type_name("S")
      ->group(kGroup)
      ->check(whole_number(0))
      ->capture_default_str();
  add_output_options(*command, options->output);
  command->callback([options, &chosen] {
    chosen = [options](Environment& environment) { return run(*options, environment); };
  });
}

}  // namespace ft::apps
