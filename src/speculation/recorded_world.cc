#include "speculation/recorded_world.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace ft::speculation {
namespace {

constexpr std::size_t kTokens = 1000;

double nearest(const std::map<std::size_t, double>& by_position, std::size_t position) {
  const auto after = by_position.lower_bound(position);
  if (after == by_position.begin()) return after->second;
  const auto before = std::prev(after);
  if (after == by_position.end()) return before->second;
  return after->first - position < position - before->first ? after->second : before->second;
}

}  // namespace

RecordedWorld::RecordedWorld(std::span<const RecordedTrace> traces) {
  bool is_first = true;
  for (const RecordedTrace& trace : traces) {
    if (trace.rounds.empty()) fail("trace {} of the request has no rounds", &trace - &traces[0]);
    const std::size_t begin = trace.rounds.front().position;
    if (is_first) begin_ = begin;
    if (begin != begin_) {
      fail("traces start at positions {} and {}: they are not of the same request", begin_, begin);
    }
    is_first = false;
    add(trace);
  }
  if (is_first) fail("there is no trace to play");
}

RecordedWorld::Source& RecordedWorld::source(const std::string& name) {
  const auto found = std::ranges::find(sources_, name, &Source::name);
  if (found != sources_.end()) return *found;
  return sources_.emplace_back(Source{.name = name, .runs = {}, .offers = {}, .draft_us = {}});
}

void RecordedWorld::add(const RecordedTrace& trace) {
  for (const std::string& name : trace.sources) source(name);
  for (const RecordedRound& round : trace.rounds) {
    std::size_t n_drafted = 0;
    for (const RoundOutcome::Part& part : round.outcome.parts) n_drafted += part.n_drafted;
    rest_us_[n_drafted + 1][round.position] = static_cast<double>(round.outcome.rest_us);
    end_ = std::max(end_, round.position + round.outcome.n_accepted + 1);
    for (std::size_t i = 0; i < round.offers.size(); ++i) {
      if (round.offers[i]) source(trace.sources.at(i)).offers[round.position] = *round.offers[i];
    }
    if (round.plan.parts.empty()) continue;
    add_drafts(round, source(trace.sources.at(round.plan.parts.front().source)));
  }
}

// The first source's; of one behind it nothing is known that would hold at another depth.
void RecordedWorld::add_drafts(const RecordedRound& round, Source& source) {
  const auto [n_asked, n_drafted] = round.outcome.parts.front();
  if (n_asked == 0) return;
  if (round.outcome.parts.size() == 1 && n_drafted > 0) {
    source.draft_us[n_drafted][round.position] = static_cast<double>(round.outcome.draft_us);
  }
  source.max_depth = std::max(source.max_depth, n_drafted);
  Run& run = source.runs[round.position];
  const std::size_t n_accepted = std::min(round.outcome.n_accepted, n_drafted);
  run.accepted = std::max(run.accepted, n_accepted);
  run.is_end_known = run.is_end_known || n_accepted < n_drafted || n_drafted < n_asked;
}

double RecordedWorld::time_of(const Samples& samples, std::size_t n, std::size_t position) {
  if (samples.empty()) return 0;
  const auto at = [&](Samples::const_iterator i) { return nearest(i->second, position); };
  auto above = samples.lower_bound(n);
  if (above != samples.end() && above->first == n) return at(above);
  if (samples.size() == 1) return at(samples.begin());
  if (above == samples.begin()) ++above;
  if (above == samples.end()) --above;
  const auto below = std::prev(above);
  const auto span = static_cast<double>(above->first) - static_cast<double>(below->first);
  const double share = (static_cast<double>(n) - static_cast<double>(below->first)) / span;
  return std::max(at(below) + share * (at(above) - at(below)), 0.0);
}

// Of the nearest position where so many are known; the lower of two.
std::size_t RecordedWorld::run_length(const Source& source,
                                      std::size_t position,
                                      std::size_t most) {
  const auto is_known = [&](const auto& run) {
    return run.second.is_end_known || run.second.accepted >= most;
  };
  const auto from = source.runs.lower_bound(position);
  const auto after = std::find_if(from, source.runs.end(), is_known);
  const auto before = std::find_if(std::make_reverse_iterator(from), source.runs.rend(), is_known);
  const bool has_before = before != source.runs.rend();
  if (after == source.runs.end()) return has_before ? std::min(before->second.accepted, most) : 0;
  const bool is_after = !has_before || after->first - position < position - before->first;
  return std::min((is_after ? after->second : before->second).accepted, most);
}

std::optional<Offer> RecordedWorld::offer(const Source& source, std::size_t position) const {
  if (source.offers.empty()) return std::nullopt;
  const auto found = source.offers.find(position);
  return found == source.offers.end() ? Offer{} : found->second;
}

RecordedWorld::Place RecordedWorld::place(std::size_t position, std::size_t shift) const {
  return {position, begin_ + (position - begin_ + shift) % (end_ - begin_)};
}

RecordedWorld::Step RecordedWorld::step(std::span<const RoundPlan::Part> parts, Place at) const {
  Step out;
  std::size_t n_drafted = 0;
  bool is_unbroken = true;
  for (const RoundPlan::Part& part : parts) {
    const Source& from = sources_.at(part.source);
    const std::size_t start = at.position + n_drafted;
    const std::optional<Offer> offered = offer(from, start);
    const std::size_t n = offered ? std::min(part.depth, offered->n_tokens) : part.depth;
    if (is_unbroken) {
      const std::size_t run = run_length(from, start, n);
      out.outcome.n_accepted += run;
      is_unbroken = run == n;
    }
    n_drafted += n;
    out.outcome.parts.push_back({part.depth, n});
    out.outcome.draft_us += std::llround(n == 0 ? 0 : time_of(from.draft_us, n, at.timed_as));
  }
  out.outcome.rest_us = std::llround(time_of(rest_us_, n_drafted + 1, at.timed_as));
  out.n_tokens = out.outcome.n_accepted + 1;
  return out;
}

PlayedChoice RecordedWorld::play_fixed(std::string name,
                                       const std::optional<RoundPlan::Part>& part,
                                       std::size_t shift) const {
  double us = 0;
  std::size_t n_rounds = 0;
  std::size_t n_tokens = 0;
  for (std::size_t position = begin_; n_tokens < kTokens; ++n_rounds) {
    std::vector<RoundPlan::Part> parts;
    if (part) parts.push_back(*part);
    if (part) parts.back().depth = std::min(part->depth, end_ - position - 1);
    if (!parts.empty() && parts.back().depth == 0) parts.clear();
    const Step next = step(parts, place(position, shift));
    us += static_cast<double>(next.outcome.draft_us + next.outcome.rest_us);
    n_tokens += next.n_tokens;
    position += next.n_tokens;
    if (position >= end_) position = begin_;
  }
  const auto tokens = static_cast<double>(n_tokens);
  return {std::move(name), us * kTokens / tokens, tokens / static_cast<double>(n_rounds)};
}

PlayedChoice RecordedWorld::play_planner(std::size_t shift) const {
  RoundPlanner planner(sources_.size(), {});
  std::size_t max_drafts = 0;
  for (const Source& source : sources_) max_drafts = std::max(max_drafts, source.max_depth);
  double us = 0;
  std::size_t n_rounds = 0;
  std::size_t n_tokens = 0;
  std::vector<std::optional<Offer>> offers(sources_.size());
  for (std::size_t position = begin_; n_tokens < kTokens; ++n_rounds) {
    for (std::size_t i = 0; i < sources_.size(); ++i) offers[i] = offer(sources_[i], position);
    const RoundPlan plan = planner.plan({.max_drafts = std::min(end_ - position - 1, max_drafts),
                                         .context = position,
                                         .offers = offers});
    const Step next = step(plan.parts, place(position, shift));
    planner.record(plan, next.outcome);
    us += static_cast<double>(next.outcome.draft_us + next.outcome.rest_us);
    n_tokens += next.n_tokens;
    position += next.n_tokens;
    if (position >= end_) position = begin_;
  }
  const auto tokens = static_cast<double>(n_tokens);
  return {"auto", us * kTokens / tokens, tokens / static_cast<double>(n_rounds)};
}

std::vector<PlayedChoice> RecordedWorld::play(std::size_t shift) const {
  std::vector<PlayedChoice> out = {play_planner(shift), play_fixed("none", std::nullopt, shift)};
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    for (std::size_t depth = 1; depth <= sources_[i].max_depth; ++depth) {
      out.push_back(play_fixed(fmt::format("{} {}", sources_[i].name, depth),
                               RoundPlan::Part{.source = i, .depth = depth},
                               shift));
    }
  }
  return out;
}

double regret(std::span<const PlayedChoice> choices) {
  FT_CHECK(choices.size() > 1);
  const auto best = std::ranges::min_element(
      choices.subspan(1), {}, [](const PlayedChoice& choice) { return choice.us_per_1000_tokens; });
  return best->us_per_1000_tokens > 0
             ? choices.front().us_per_1000_tokens / best->us_per_1000_tokens - 1
             : 0;
}

}  // namespace ft::speculation
