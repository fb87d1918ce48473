#include "apps/outcome.h"

#include "apps/expert_report.h"
#include "apps/sizes.h"
#include "engine/expert_counts.h"

#include <cstdint>
#include <iterator>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace ft::apps {
namespace {

std::uint64_t u64(std::size_t n) {
  return n;
}

void write_counts(json::Writer& out,
                  std::string_view name,
                  const std::vector<std::size_t>& counts) {
  out.key(name).begin_array();
  for (const std::size_t count : counts) out.value(u64(count));
  out.end_array();
}

void write_logprob(json::Writer& out, const foretoken::TokenLogprob& entry) {
  out.member("id", entry.id).member("logprob", entry.logprob);
}

void write_result(json::Writer& out, const Outcome& outcome, bool with_logprobs) {
  out.member("text", outcome.text);
  out.key("token_ids").begin_array();
  for (const foretoken::Token id : outcome.token_ids) out.value(id);
  out.end_array();
  const foretoken::Completion& completion = outcome.completion;
  out.member("finish_reason", foretoken::to_string(completion.finish_reason));
  if (completion.stop) {
    out.member("stop", *completion.stop);
  } else {
    out.key("stop").null();
  }
  out.member("seed", completion.seed);
  if (!with_logprobs) return;
  out.key("logprobs").begin_array();
  for (const foretoken::TokenLogprobs& entry : outcome.logprobs) {
    out.begin_object();
    write_logprob(out, entry.chosen);
    out.key("top").begin_array();
    for (const foretoken::TokenLogprob& top : entry.top) {
      out.begin_object();
      write_logprob(out, top);
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array();
}

void write_usage_and_timings(json::Writer& out, const foretoken::Completion& completion) {
  const foretoken::Usage& usage = completion.usage;
  out.key("usage").begin_object();
  out.member("prompt_tokens", u64(usage.prompt_tokens));
  out.member("completion_tokens", u64(usage.completion_tokens));
  out.member("cached_tokens", u64(usage.cached_tokens));
  out.end_object();
  const foretoken::Timings& timings = completion.timings;
  out.key("timings").begin_object();
  out.member("load_ms", timings.load_ms);
  out.member("prompt_n", u64(timings.prompt_n));
  out.member("prompt_ms", timings.prompt_ms);
  out.member("prompt_per_second", timings.prompt_per_second);
  out.member("predicted_n", u64(timings.predicted_n));
  out.member("predicted_ms", timings.predicted_ms);
  out.member("predicted_per_second", timings.predicted_per_second);
  out.member("time_to_first_token_ms", timings.time_to_first_token_ms);
  out.member("draft_n", u64(completion.speculation.drafted));
  out.member("draft_n_accepted", u64(completion.speculation.accepted));
  out.end_object();
}

void write_speculation(json::Writer& out, const foretoken::SpeculationStatistics& speculation) {
  out.key("speculation").begin_object();
  out.key("sources").begin_array();
  for (const std::string& source : speculation.sources) out.value(source);
  out.end_array();
  out.member("accept", speculation.accept);
  out.member("rounds", u64(speculation.rounds));
  out.member("forwards", u64(speculation.forwards));
  out.member("drafted", u64(speculation.drafted));
  out.member("accepted", u64(speculation.accepted));
  out.member("rejected", u64(speculation.drafted - speculation.accepted));
  write_counts(out, "acceptance_lengths", speculation.acceptance_lengths);
  write_counts(out, "drafted_per_position", speculation.drafted_per_position);
  write_counts(out, "accepted_per_position", speculation.accepted_per_position);
  out.member("tokens_per_forward", speculation.tokens_per_forward);
  out.member("forwards_saved", u64(speculation.forwards_saved));
  out.key("by_source").begin_object();
  for (const auto& [name, counts] : speculation.by_source) {
    out.key(name).begin_object();
    out.member("drafted", u64(counts.drafted)).member("accepted", u64(counts.accepted));
    out.end_object();
  }
  out.end_object();
  if (const auto& best = speculation.best_fixed) {
    out.key("best_fixed").begin_object();
    out.member("source", best->source.empty() ? "none" : best->source);
    out.member("draft_tokens", u64(best->draft_tokens)).member("regret", best->regret);
    out.end_object();
  } else {
    out.key("best_fixed").null();
  }
  out.end_object();
}

void write_resources(json::Writer& out, const foretoken::Completion& completion) {
  engine::write_experts(out.key("experts"), completion.experts);
  const foretoken::MemoryUse& memory = completion.memory;
  out.key("memory").begin_object();
  out.member("budget_bytes", memory.budget_bytes);
  out.member("peak_anonymous_bytes", memory.peak_anonymous_bytes);
  out.member("kv_bytes", memory.kv_bytes);
  out.member("draft_kv_bytes", memory.draft_kv_bytes);
  out.member("expert_cache_bytes", memory.expert_cache_bytes);
  out.end_object();
}

std::string speculation_text(const foretoken::SpeculationStatistics& speculation) {
  if (speculation.sources.empty()) return "speculation: none\n";
  const double rate = speculation.drafted == 0 ? 0
                                               : 100.0 * static_cast<double>(speculation.accepted) /
                                                     static_cast<double>(speculation.drafted);
  return fmt::format(
      "speculation: {}; {:.2f} tokens per forward ({} forwards, {} saved); {} of {} drafts "
      "accepted ({:.1f} %)\n",
      fmt::join(speculation.sources, ", "),
      speculation.tokens_per_forward,
      speculation.forwards,
      speculation.forwards_saved,
      speculation.accepted,
      speculation.drafted,
      rate);
}

std::string verbose_text(const Outcome& outcome, const foretoken::ModelInfo& model) {
  const foretoken::MemoryUse& memory = outcome.completion.memory;
  std::string out = fmt::format("model: {}, {:.1f} M parameters, {}, hash {}; {} threads, {}\n",
                                model.name,
                                static_cast<double>(model.parameters) / 1e6,
                                model.format,
                                model.hash,
                                model.n_threads,
                                model.isa);
  out += fmt::format("memory: {} anonymous at most, {} cache, {} draft cache; load {:.1f} ms\n",
                     format_size(memory.peak_anonymous_bytes),
                     format_size(memory.kv_bytes),
                     format_size(memory.draft_kv_bytes),
                     outcome.completion.timings.load_ms);
  for (const auto& [name, counts] : outcome.completion.speculation.by_source) {
    out +=
        fmt::format("source {}: {} of {} drafts accepted\n", name, counts.accepted, counts.drafted);
  }
  if (const auto& best = outcome.completion.speculation.best_fixed) {
    out += fmt::format("planner: {:+.1f} % time against the best fixed choice, {}\n",
                       100 * best->regret,
                       best->source.empty()
                           ? "no drafts"
                           : fmt::format("{} at {}", best->source, best->draft_tokens));
  }
  return out;
}

}  // namespace

Outcome collect(foretoken::TokenStream& stream, const EventObserver& observer) {
  Outcome out;
  while (std::optional<foretoken::Event> event = stream.next()) {
    if (observer) observer(*event);
    if (auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event)) {
      out.text += tokens->text;
      out.token_ids.insert(out.token_ids.end(), tokens->ids.begin(), tokens->ids.end());
      std::move(tokens->logprobs.begin(), tokens->logprobs.end(), std::back_inserter(out.logprobs));
    } else if (auto* completion = std::get_if<foretoken::Completion>(&*event)) {
      out.completion = std::move(*completion);
    }
  }
  return out;
}

std::string outcome_json(const Outcome& outcome,
                         const foretoken::ModelInfo& model,
                         bool with_logprobs) {
  json::Writer out;
  out.begin_object();
  write_result(out, outcome, with_logprobs);
  write_usage_and_timings(out, outcome.completion);
  write_speculation(out, outcome.completion.speculation);
  write_resources(out, outcome.completion);
  out.key("model").begin_object();
  out.member("name", model.name);
  out.member("parameters", model.parameters);
  out.member("format", model.format);
  out.member("hash", model.hash);
  out.end_object().end_object();
  return out.text();
}

std::string statistics_text(const Outcome& outcome,
                            const foretoken::ModelInfo& model,
                            bool is_verbose) {
  const foretoken::Completion& completion = outcome.completion;
  const foretoken::Timings& timings = completion.timings;
  std::string out = fmt::format("prompt: {} tokens, {:.0f} tok/s; first token after {:.1f} ms\n",
                                timings.prompt_n,
                                timings.prompt_per_second,
                                timings.time_to_first_token_ms);
  out += fmt::format("generated: {} tokens, {:.0f} tok/s; {}{}; seed {}\n",
                     timings.predicted_n,
                     timings.predicted_per_second,
                     foretoken::to_string(completion.finish_reason),
                     completion.stop ? fmt::format(" at '{}'", *completion.stop) : std::string(),
                     completion.seed);
  out += speculation_text(completion.speculation);
  out += experts_text(completion.experts, timings.prompt_ms + timings.predicted_ms);
  if (is_verbose) out += verbose_text(outcome, model);
  return out;
}

}  // namespace ft::apps
