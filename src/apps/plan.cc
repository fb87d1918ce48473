// foretoken plan: what would lie where in memory, how many experts would be there, and how fast the
// machine could go at best; or why it does not fit. Nothing is loaded.
#include "apps/commands.h"
#include "apps/machine_watch.h"
#include "apps/options.h"
#include "apps/result_writer.h"
#include "apps/sizes.h"
#include "base/error.h"
#include "engine/open_engine.h"
#include "io/drive_probe.h"
#include "json/json.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

// Reported of trained models of this kind: the part of a token's experts that the previous token
// used too. A pool that holds one token's experts has these.
constexpr double kReuse = 0.41;
constexpr std::uint64_t kProbeBytes = std::uint64_t{256} << 20;

struct PlanOptions {
  ModelOptions model;
  std::vector<std::string> speculate;
  std::optional<std::string> prediction_file;
  bool no_probe = false;
  bool json = false;
};

/// Bytes that a token without drafts needs at least, and what comes of them.
struct Outlook {
  std::uint64_t weight_bytes = 0;  // read from memory
  std::uint64_t drive_bytes = 0;   // if no expert were there
  double uniform_hit_rate = 1;
  double hit_rate = 1;
};

struct Measured {
  double memory_bytes_per_s = 0;
  std::optional<double> drive_bytes_per_s;
};

struct Speed {
  double tokens_per_second = 0;
  std::string_view bound;  // "drive", "memory"
};

Outlook outlook_of(const engine::ModelPlan& plan) {
  Outlook out;
  const models::ExpertNeeds& trunk = plan.needs.trunk;
  const std::uint64_t n_experts = trunk.n_layers * trunk.n_experts;
  const std::uint64_t n_used = trunk.n_layers * trunk.n_active;
  out.weight_bytes = plan.needs.mapped_bytes + plan.needs.packed_bytes;
  if (n_experts > 0) out.weight_bytes += trunk.stored_bytes / n_experts * n_used;
  const engine::MemoryPlan& memory = plan.parts.memory;
  if (!memory.streams) return out;
  out.drive_bytes = n_used * memory.trunk.slot_bytes;
  out.uniform_hit_rate = memory.trunk.resident_share();
  out.hit_rate = memory.trunk.n_slots >= n_used ? std::max(kReuse, out.uniform_hit_rate)
                                                : out.uniform_hit_rate;
  return out;
}

std::optional<double> drive_rate(const std::vector<experts::LayerExtents>& layers) {
  std::vector<io::BulkFile> files;
  files.reserve(layers.size());
  for (const experts::LayerExtents& layer : layers) {
    files.push_back(io::BulkFile::open(layer.files.front(), /*direct=*/true));
  }
  std::vector<io::ProbeExtent> extents;
  extents.reserve(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    extents.push_back({.file = &files[i],
                       .offset = 0,
                       .size_bytes = layers[i].extent_bytes * layers[i].checksums.size()});
  }
  const auto rate = io::probe_drive(extents, {});
  return rate ? std::optional(rate->bytes_per_s) : std::nullopt;
}

Measured measure(const engine::ModelPlan& plan) {
  Measured out;
  out.memory_bytes_per_s = MachineWatch::read_bandwidth(*plan.parts.pool, kProbeBytes);
  if (plan.parts.memory.streams) out.drive_bytes_per_s = drive_rate(plan.layers);
  return out;
}

/// At best: the drive and the processor work at the same time, each at its full speed.
std::optional<Speed> speed_of(const Outlook& outlook, const Measured& measured) {
  const double memory_s = static_cast<double>(outlook.weight_bytes) / measured.memory_bytes_per_s;
  double drive_s = 0;
  const double missing = static_cast<double>(outlook.drive_bytes) * (1 - outlook.hit_rate);
  if (missing > 0) {
    if (!measured.drive_bytes_per_s) return std::nullopt;
    drive_s = missing / *measured.drive_bytes_per_s;
  }
  const double token_s = std::max(memory_s, drive_s);
  if (!(token_s > 0)) return std::nullopt;
  return Speed{1 / token_s, drive_s > memory_s ? "drive" : "memory"};
}

void write_slots(json::Writer& out, const engine::SlotPlan& slots) {
  out.begin_object();
  out.member("slots", std::uint64_t{slots.n_slots});
  out.member("least_slots", std::uint64_t{slots.least_slots});
  out.member("experts", std::uint64_t{slots.n_experts});
  out.member("share", slots.resident_share()).member("slot_bytes", slots.slot_bytes);
  out.end_object();
}

std::string to_json(const engine::ModelPlan& plan,
                    const Outlook& outlook,
                    const std::optional<Measured>& measured) {
  const engine::MemoryPlan& memory = plan.parts.memory;
  json::Writer out;
  out.begin_object();
  out.member("name", plan.parts.name).member("mode", memory.streams ? "stream" : "resident");
  out.member("context", std::uint64_t{plan.parts.context});
  out.member("budget_bytes", memory.budget_bytes);
  out.member("least_budget_bytes", memory.least_budget_bytes);
  out.member("planned_bytes", memory.planned_bytes());
  out.key("terms").begin_array();
  for (const engine::MemoryTerm& term : memory.terms) {
    out.begin_object().member("name", term.name).member("bytes", term.bytes).end_object();
  }
  out.end_array();
  out.member("mapped_bytes", memory.mapped_bytes);
  write_slots(out.key("trunk"), memory.trunk);
  write_slots(out.key("draft"), memory.draft);
  out.key("hit_rate").begin_object();
  out.member("uniform", outlook.uniform_hit_rate).member("expected", outlook.hit_rate);
  out.end_object();
  out.key("measured");
  if (!measured) {
    out.null();
  } else {
    out.begin_object().member("memory_bytes_per_s", measured->memory_bytes_per_s);
    out.key("drive_bytes_per_s");
    if (measured->drive_bytes_per_s) {
      out.value(*measured->drive_bytes_per_s);
    } else {
      out.null();
    }
    out.end_object();
  }
  const std::optional<Speed> speed = measured ? speed_of(outlook, *measured) : std::nullopt;
  out.key("tokens_per_second");
  if (speed) {
    out.value(speed->tokens_per_second).member("bound", speed->bound);
  } else {
    out.null().key("bound").null();
  }
  out.end_object();
  return out.text() + "\n";
}

std::string slots_text(std::string_view name, const engine::SlotPlan& slots) {
  if (slots.n_experts == 0) return {};
  return fmt::format("{:<32}{:>10} of {} experts, {:.1f} %, {} each\n",
                     name,
                     slots.n_slots,
                     slots.n_experts,
                     100 * slots.resident_share(),
                     format_size(slots.slot_bytes));
}

std::string memory_text(const engine::ModelPlan& plan) {
  const engine::MemoryPlan& memory = plan.parts.memory;
  std::string out = fmt::format("{}: experts {}, context {}\n",
                                plan.parts.name,
                                memory.streams ? "streamed" : "resident",
                                plan.parts.context);
  for (const engine::MemoryTerm& term : memory.terms) {
    out += fmt::format("{:<32}{:>10}\n", term.name, format_size(term.bytes));
  }
  out += fmt::format("{:<32}{:>10}\n", "= anonymous memory", format_size(memory.planned_bytes()));
  out += fmt::format("{:<32}{:>10}{}\n",
                     "budget",
                     memory.budget_bytes > 0 ? format_size(memory.budget_bytes) : "unknown",
                     memory.cut_from_bytes > 0 ? fmt::format(" (asked for {}, more is not left)",
                                                             format_size(memory.cut_from_bytes))
                                               : "");
  out += fmt::format("{:<32}{:>10} (--ram-budget {}Mi)\n",
                     "least budget",
                     format_size(memory.least_budget_bytes),
                     memory.least_budget_bytes >> 20);
  out += fmt::format(
      "{:<32}{:>10} beside it\n", "weights in the page cache", format_size(memory.mapped_bytes));
  return out + slots_text("slots", memory.trunk) + slots_text("slots for drafts", memory.draft);
}

std::string outlook_text(const engine::ModelPlan& plan,
                         const Outlook& outlook,
                         const std::optional<Measured>& measured) {
  std::string out;
  if (plan.parts.memory.streams) {
    out += fmt::format("{:<32}{:>8.1f} % ", "expected hits", 100 * outlook.hit_rate);
    out += outlook.hit_rate > outlook.uniform_hit_rate
               ? fmt::format(
                     "(41 % of a token's experts served the one before; {:.1f} % if all "
                     "were used alike)\n",
                     100 * outlook.uniform_hit_rate)
               : "(if all experts are used alike; real use is skewed)\n";
  }
  if (!measured) return out;
  out += fmt::format("{:<32}{:>10.1f} GB/s\n", "memory reads", measured->memory_bytes_per_s * 1e-9);
  if (plan.parts.memory.streams) {
    out += measured->drive_bytes_per_s
               ? fmt::format(
                     "{:<32}{:>10.2f} GB/s\n", "drive reads", *measured->drive_bytes_per_s * 1e-9)
               : fmt::format("{:<32}{:>10}\n", "drive reads", "not measured: too little is cold");
  }
  if (const auto speed = speed_of(outlook, *measured)) {
    out += fmt::format("{:<32}{:>10.2f} tokens/s at most without drafts; the {} is the bound\n",
                       "expected speed",
                       speed->tokens_per_second,
                       speed->bound);
  }
  return out;
}

int run(const PlanOptions& options) {
  foretoken::EngineOptions wanted = engine_options(options.model);
  wanted.plans_drafts = options.speculate != std::vector<std::string>{"none"};
  if (!wanted.plans_drafts) {
    wanted.draft_format = "stored";
    wanted.draft_model.clear();
  }
  wanted.max_prediction = most_predicted(options.prediction_file);
  const engine::ModelPlan plan = engine::plan_model(wanted);
  if (!plan.parts.memory.refusal.empty()) fail("{}", plan.parts.memory.refusal);
  const Outlook outlook = outlook_of(plan);
  std::optional<Measured> measured;
  if (!options.no_probe) measured = measure(plan);
  ResultWriter().write(options.json ? to_json(plan, outlook, measured)
                                    : memory_text(plan) + outlook_text(plan, outlook, measured));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "plan", "What would lie where in memory, and how fast it could go; or why it does not fit");
  auto options = std::make_shared<PlanOptions>();
  add_engine_options(*command, options->model);
  command
      ->add_option("--speculate", options->speculate, "none: no memory for drafts of the own head")
      ->type_name("SOURCES")
      ->group("Speculation");
  command->add_option("--prediction", options->prediction_file, "File with the expected output")
      ->type_name("FILE")
      ->group("Speculation");
  command->add_flag("--no-probe", options->no_probe, "Do not measure the drive and the memory")
      ->group("Output");
  add_json_option(*command, options->json);
  command->callback(
      [options, &chosen] { chosen = [options](Environment&) { return run(*options); }; });
}

}  // namespace ft::apps
