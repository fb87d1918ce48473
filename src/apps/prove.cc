// foretoken prove: the same request with speculation on and off, one thread and several, in prefill
// chunks of several sizes, and, where a container can stream, with pools of experts of several
// sizes and reading ahead on and off. Then with a prompt that an earlier request fed, all of it or
// half, and under other rules (one token, penalties,
// biases, stop strings, a context that ends) and with drafts that mean no good. All must agree bit
// for bit.
#include "apps/commands.h"
#include "apps/difference.h"
#include "apps/options.h"
#include "apps/outcome.h"
#include "apps/progress.h"
#include "apps/prove_requests.h"
#include "apps/result_writer.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/open_engine.h"
#include "json/json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace ft::apps {
namespace {

constexpr std::size_t kMaxDepth = 8;
// Of altered requests.
constexpr std::array<std::string_view, 4> kFewDepths = {"1", "3", "8", "auto"};
constexpr std::array<std::size_t, 3> kChunks = {1, 7, kDefaultPrefillChunk};

struct ProveOptions {
  ModelOptions model;
  PromptOptions prompt;
  GenerationOptions generation;
  SpeculationOptions speculation;
  OutputOptions output;
  bool has_chunk = false;
  bool has_draft_tokens = false;
};

struct Variant {
  std::string speculate;
  std::string draft_tokens;
  std::size_t n_threads = 1;
  std::size_t chunk = kDefaultPrefillChunk;

  /// With the options of the engine it runs on.
  std::string options(const std::string& engine) const {
    std::string out = "--speculate " + speculate;
    if (speculate != "none") out += " --draft-tokens " + draft_tokens;
    return out + fmt::format(" --threads {} --prefill-chunk {}{}", n_threads, chunk, engine);
  }
};

const Variant kPlain = {"none", "0", 1, kDefaultPrefillChunk};

/// An engine that variants run on.
struct Setting {
  std::size_t n_threads = 1;
  std::uint64_t stream_budget_bytes = 0;  // 0: experts as the user asked
  std::string lookahead = {};
  std::size_t context = 0;  // 0: as the user asked
  bool reuses_prefixes = false;

  bool streams() const noexcept { return stream_budget_bytes > 0; }
  std::string options() const {
    std::string out;
    if (context > 0) out += fmt::format(" --context {}", context);
    if (!streams()) return out;
    return out + fmt::format(" --experts stream --ram-budget {} --lookahead {}",
                             stream_budget_bytes,
                             lookahead);
  }
};

struct Case {
  std::string options;
  std::optional<Difference> difference;
};

// Every source alone and all together, unless the user names some.
std::vector<std::string> source_lists(const ProveOptions& options,
                                      const foretoken::ModelInfo& model) {
  if (!options.speculation.speculate.empty()) return options.speculation.speculate;
  std::vector<std::string> out = model.draft_sources;
  if (!options.speculation.prediction_file) std::erase(out, "prediction");
  if (out.size() > 1) out.emplace_back("auto");
  return out;
}

std::vector<std::string> depths(const ProveOptions& options) {
  if (options.has_draft_tokens) return {options.speculation.draft_tokens};
  std::vector<std::string> out;
  for (std::size_t depth = 0; depth <= kMaxDepth; ++depth) out.push_back(std::to_string(depth));
  out.emplace_back("auto");
  return out;
}

std::vector<std::size_t> chunks(const ProveOptions& options) {
  std::vector<std::size_t> out(kChunks.begin(), kChunks.end());
  if (options.has_chunk &&
      std::find(out.begin(), out.end(), options.model.prefill_chunk) == out.end()) {
    out.push_back(options.model.prefill_chunk);
  }
  return out;
}

std::vector<Variant> variants(const ProveOptions& options,
                              const foretoken::ModelInfo& model,
                              const Setting& setting) {
  std::vector<Variant> out;
  const std::size_t n_threads = setting.n_threads;
  for (const std::size_t chunk : chunks(options)) {
    if (setting.streams() || n_threads != 1 || chunk != kDefaultPrefillChunk)
      out.push_back({"none", "0", n_threads, chunk});
    for (const std::string& speculate : source_lists(options, model)) {
      if (speculate == "none") continue;
      for (const std::string& depth : depths(options)) {
        out.push_back({speculate, depth, n_threads, chunk});
      }
    }
  }
  return out;
}

/// The altered requests' share: every list of sources at a few depths.
std::vector<Variant> few_variants(const ProveOptions& options,
                                  const foretoken::ModelInfo& model,
                                  const Setting& setting,
                                  bool has_prediction) {
  std::vector<Variant> out;
  std::vector<std::string> lists = source_lists(options, model);
  if (has_prediction) lists = {"prediction", "auto"};
  for (const std::string& speculate : lists) {
    if (speculate == "none") continue;
    for (const std::string_view depth : kFewDepths) {
      if (options.has_draft_tokens && depth != "auto") continue;
      out.push_back(
          {speculate,
           options.has_draft_tokens ? options.speculation.draft_tokens : std::string(depth),
           setting.n_threads,
           kDefaultPrefillChunk});
    }
  }
  return out;
}

/// As asked, then, if experts can stream, with the smallest pool and one of half the experts.
std::vector<Setting> settings(const ProveOptions& options) {
  const std::size_t many = std::max<std::size_t>(compute_threads(options.model.n_threads), 2);
  std::vector<Setting> out = {{.n_threads = 1}, {.n_threads = many}};
  if (options.model.experts == "resident") return out;
  foretoken::EngineOptions wanted = engine_options(options.model);
  const engine::ModelPlan any = engine::plan_model(wanted);
  const bool can_stream = any.needs.trunk.slot_bytes > 0 &&
                          (any.needs.draft.n_layers == 0 || any.needs.draft.slot_bytes > 0);
  if (!can_stream) return out;
  wanted.experts = "stream";
  const engine::MemoryPlan plan = engine::plan_model(wanted).parts.memory;
  const std::uint64_t least = plan.least_budget_bytes;
  std::uint64_t half = least;
  for (const engine::SlotPlan* tier : {&plan.trunk, &plan.draft}) {
    half += (tier->n_experts - tier->least_slots) * tier->slot_bytes / 2;
  }
  const bool has_room = wanted.ram_budget_bytes == 0 || half <= wanted.ram_budget_bytes;
  out.push_back({1, least, "off"});
  out.push_back({many, least, "on"});
  if (has_room) {
    out.push_back({1, half, "on"});
    out.push_back({many, half, "off"});
  }
  return out;
}

class Proof {
 public:
  Proof(const ProveOptions& options, Environment& environment)
      : options_(options), environment_(environment) {}

  /// Runs all cases; returns the exit status.
  int run() {
    std::vector<Setting> all = settings(options_);
    for (const Setting& setting : all) {
      run_engine(setting, /*altered=*/&setting == &all.front() || &setting == &all.back());
      if (environment_.interrupts.was_interrupted()) return kInterruptedStatus;
    }
    run_reused(all[1]);
    if (environment_.interrupts.was_interrupted()) return kInterruptedStatus;
    run_short_context();
    if (environment_.interrupts.was_interrupted()) return kInterruptedStatus;
    report();
    return is_identical() ? 0 : 1;
  }

 private:
  foretoken::Engine open(const Setting& setting) const {
    foretoken::EngineOptions wanted = engine_options(options_.model);
    wanted.n_threads = setting.n_threads;
    if (setting.context > 0) wanted.context = setting.context;
    wanted.reuses_prefixes = setting.reuses_prefixes;
    if (setting.streams()) {
      wanted.experts = "stream";
      wanted.ram_budget_bytes = setting.stream_budget_bytes;
      wanted.lookahead = setting.lookahead;
    }
    return foretoken::Engine::open(wanted);
  }

  void run_engine(const Setting& setting, bool altered) {
    foretoken::Engine engine = open(setting);
    if (request_.prompt.empty()) prepare(engine);
    if (environment_.interrupts.was_interrupted()) return;
    const std::vector<Variant> all = variants(options_, engine.model(), setting);
    ProgressBar bar(fmt::format("proving, {} threads{}", setting.n_threads, setting.options()),
                    options_.output.wants_progress());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Outcome outcome = generate(engine, request_, all[i]);
      if (environment_.interrupts.was_interrupted()) return;
      add_case(all[i].options(setting.options()), base_, outcome);
      bar.update(i + 1, all.size());
    }
    if (altered) run_altered(engine, setting);
  }

  void run_altered(foretoken::Engine& engine, const Setting& setting) {
    if (altered_.empty()) prepare_altered(engine);
    ProgressBar bar(fmt::format("proving other rules{}", setting.options()),
                    options_.output.wants_progress());
    for (std::size_t i = 0; i < altered_.size(); ++i) {
      const auto& [altered, base] = altered_[i];
      for (const Variant& variant :
           few_variants(options_, engine.model(), setting, !altered.request.prediction.empty())) {
        const Outcome outcome = generate(engine, altered.request, variant);
        if (environment_.interrupts.was_interrupted()) return;
        add_case(variant.options(setting.options()) + altered.name, base, outcome);
      }
      bar.update(i + 1, altered_.size());
    }
  }

  // Each with what it gives without speculation. A prediction changes nothing of it.
  void prepare_altered(foretoken::Engine& engine) {
    for (ProofRequest& other : altered_requests(request_, base_)) {
      const Outcome base = generate(engine, other.request, kPlain);
      altered_.emplace_back(std::move(other), base);
    }
    if (!options_.speculation.speculate.empty()) return;
    for (ProofRequest& other : predicted_requests(request_, base_, engine.model())) {
      altered_.emplace_back(std::move(other), base_);
    }
  }

  // The context ends in the middle of the text.
  void run_short_context() {
    const std::size_t n_tokens = base_.token_ids.size();
    if (n_tokens < 2) return;
    const Setting setting{.n_threads = 1, .context = request_.prompt.size() + n_tokens / 2};
    foretoken::Engine engine = open(setting);
    foretoken::GenerationRequest request = request_;
    request.prediction.resize(std::min(request.prediction.size(), setting.context));
    const Outcome base = generate(engine, request, kPlain);
    for (const Variant& variant : few_variants(options_, engine.model(), setting, false)) {
      const Outcome outcome = generate(engine, request, variant);
      if (environment_.interrupts.was_interrupted()) return;
      add_case(variant.options(setting.options()), base, outcome);
    }
  }

  // The prompt, or its first half, was fed by an earlier request.
  void run_reused(Setting setting) {
    setting.reuses_prefixes = true;
    foretoken::Engine engine = open(setting);
    foretoken::GenerationRequest branch = request_;
    branch.max_tokens = 1;
    std::reverse(branch.prompt.begin() + std::ssize(branch.prompt) / 2, branch.prompt.end());
    for (const Variant& variant : few_variants(options_, engine.model(), setting, false)) {
      for (const foretoken::GenerationRequest* before : {&request_, &branch}) {
        generate(engine, *before, kPlain);
        const Outcome outcome = generate(engine, request_, variant);
        if (environment_.interrupts.was_interrupted()) return;
        if (outcome.completion.usage.cached_tokens == 0) continue;  // too short to be reused
        add_case(fmt::format("{}, {} of its prompt fed before",
                             variant.options(setting.options()),
                             before == &request_ ? "all" : "half"),
                 base_,
                 outcome);
      }
    }
  }

  // The request that all cases share, and the base they are compared with.
  void prepare(foretoken::Engine& engine) {
    request_ = generation_request(options_.generation, options_.speculation);
    request_.prompt = read_prompt(
        options_.prompt, [&engine]() -> const foretoken::Tokenizer& { return engine.tokenizer(); });
    if (options_.speculation.prediction_file) {
      request_.prediction = read_prediction(options_.speculation, engine.tokenizer());
    }
    if (!request_.logprobs) request_.logprobs = 0;
    base_ = generate(engine, request_, kPlain);
    request_.sampling.seed = base_.completion.seed;
  }

  Outcome generate(foretoken::Engine& engine,
                   foretoken::GenerationRequest request,
                   const Variant& variant) {
    request.speculate = split_sources(variant.speculate);
    request.draft_tokens = parse_draft_tokens(variant.draft_tokens);
    request.prefill_chunk = variant.chunk;
    foretoken::TokenStream stream = engine.submit(std::move(request));
    const InterruptScope scope(environment_.interrupts, [&stream] { stream.cancel(); });
    return collect(stream, {});
  }

  void add_case(std::string options, const Outcome& base, const Outcome& outcome) {
    cases_.push_back({std::move(options), first_difference(base, outcome)});
    if (options_.output.json || options_.output.quiet) return;
    const Case& added = cases_.back();
    if (added.difference) {
      writer_.write(fmt::format("{}: {}\n", added.options, to_text(*added.difference)));
    } else if (options_.output.verbose) {
      writer_.write(fmt::format("{}: identical\n", added.options));
    }
  }

  bool is_identical() const {
    return std::none_of(cases_.begin(), cases_.end(), [](const Case& c) { return c.difference; });
  }

  void report() {
    if (options_.output.json) {
      writer_.write(to_json() + "\n");
      return;
    }
    const auto n_different = std::count_if(
        cases_.begin(), cases_.end(), [](const Case& c) { return c.difference.has_value(); });
    if (n_different > 0) {
      writer_.write(fmt::format("different: {} of {} cases\n", n_different, cases_.size()));
    } else {
      writer_.write(fmt::format("identical: {} cases, {} tokens, ids, text and log-probabilities\n",
                                cases_.size(),
                                base_.token_ids.size()));
    }
  }

  std::string to_json() const {
    json::Writer out;
    out.begin_object().member("identical", is_identical()).key("cases").begin_array();
    for (const Case& entry : cases_) {
      out.begin_object();
      out.member("options", entry.options).member("identical", !entry.difference.has_value());
      out.key("first_difference");
      write_difference(out, entry.difference);
      out.end_object();
    }
    out.end_array();
    out.member("tokens", std::uint64_t{base_.token_ids.size()});
    out.member("seed", base_.completion.seed);
    out.end_object();
    return out.text();
  }

  const ProveOptions& options_;
  Environment& environment_;
  ResultWriter writer_;
  foretoken::GenerationRequest request_;
  Outcome base_;
  std::vector<std::pair<ProofRequest, Outcome>> altered_;  // with their own bases
  std::vector<Case> cases_;
};

}  // namespace

void add_prove(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("prove",
                         "Run a request with speculation on and off, one thread "
                         "and several, all chunk sizes, experts resident and streamed; "
                         "compare bit for bit");
  auto options = std::make_shared<ProveOptions>();
  add_prompt_options(*command, options->prompt);
  add_generation_options(*command, options->generation);
  add_speculation_options(*command, options->speculation);
  add_engine_options(*command, options->model);
  add_output_options(*command, options->output);
  command->callback([options, &chosen, command] {
    // What is not greedy has no text of its own to compare with: only its law is that of the base.
    if (options->speculation.accept == "ratio" && options->generation.temperature != 0.0F) {
      fail(
          "prove compares texts, and --accept ratio keeps their law alone; use --accept match, or "
          "--temperature 0, where both modes are equal");
    }
    options->has_chunk = command->count("--prefill-chunk") > 0;
    options->has_draft_tokens = command->count("--draft-tokens") > 0;
    chosen = [options](Environment& environment) { return Proof(*options, environment).run(); };
  });
}

}  // namespace ft::apps
