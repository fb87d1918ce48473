#include "speculation/decode_round.h"

#include "base/error.h"
#include "sampling/verify.h"
#include "speculation/observers.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace ft::speculation {
namespace {

// The window is the pending token and the drafts: positions length() … length() + n.
std::size_t room_for_drafts(const cache::KvCache& cache) {
  const std::size_t n_free = cache.max_tokens() - cache.length();
  return n_free == 0 ? 0 : std::min(n_free - 1, cache.rollback_limit());
}

// A source's drafts, checked.
Draft ask(DraftSource& source,
          const DraftRequest& request,
          std::size_t n_vocab,
          const std::stop_token& stop) {
  Draft out = source.propose(request, stop);
  if (out.tokens.size() > request.max_tokens) {
    throw LogicError(fmt::format("draft source '{}' returned {} tokens, asked for at most {}",
                                 source.name(),
                                 out.tokens.size(),
                                 request.max_tokens));
  }
  const std::size_t n_expected = out.tokens.size() * n_vocab;
  if (request.wants_laws && !out.laws.empty() && out.laws.size() != n_expected) {
    throw LogicError(fmt::format("draft source '{}' returned laws of {} numbers, expected {}",
                                 source.name(),
                                 out.laws.size(),
                                 n_expected));
  }
  for (const Token draft : out.tokens) {
    if (draft < 0 || static_cast<std::size_t>(draft) >= n_vocab) {
      throw LogicError(
          fmt::format("draft source '{}' proposed token {}, the vocabulary is 0 ... {}",
                      source.name(),
                      draft,
                      n_vocab - 1));
    }
  }
  return out;
}

// Ratio mode: what the drafts of a window were drawn from.
struct Laws {
  std::vector<std::vector<float>> of_parts;
  std::vector<std::span<const float>> of_drafts;  // into them; empty: not a draw

  void add(Draft draft, std::size_t n_vocab) {
    of_parts.push_back(std::move(draft.laws));
    const std::span<const float> all = of_parts.back();
    for (std::size_t i = 0; i < draft.tokens.size(); ++i) {
      of_drafts.push_back(all.empty() ? all : all.subspan(i * n_vocab, n_vocab));
    }
  }
};

Laws propose(const RoundState& state,
             std::span<const Proposer> proposers,
             const std::stop_token& stop,
             RoundResult& round) {
  const bool wants_laws =
      state.accept == sampling::AcceptMode::kRatio && state.sampler->params().temperature > 0;
  const std::size_t n_vocab = state.model->config().n_vocab;
  Laws laws;
  std::size_t room = room_for_drafts(*state.cache);
  for (const Proposer& proposer : proposers) {
    RoundResult::Part& part = round.parts.emplace_back();
    part.n_asked = std::min(proposer.max_drafts, room);
    if (part.n_asked == 0) continue;
    const DraftRequest request{.max_tokens = part.n_asked,
                               .ahead = round.drafts,
                               .wants_laws = wants_laws,
                               .attempt = state.n_rounds};
    Draft draft = ask(*proposer.source, request, n_vocab, stop);
    part.n_drafted = draft.tokens.size();
    room -= part.n_drafted;
    round.drafts.insert(round.drafts.end(), draft.tokens.begin(), draft.tokens.end());
    if (wants_laws) laws.add(std::move(draft), n_vocab);
  }
  return laws;
}

// A wrong hint costs time, so its law is nobody's concern.
std::vector<Token> hints(const RoundState& state, const std::stop_token& stop) {
  const StageScope stage(state.meter, Stage::kDraft);
  const DraftRequest request{
      .max_tokens = 1, .ahead = {}, .wants_laws = false, .attempt = state.n_rounds};
  return ask(*state.hinter, request, state.model->config().n_vocab, stop).tokens;
}

// What a workspace is told for one forward; no later one sees it.
class HintScope {
 public:
  HintScope(models::Workspace& workspace, TokenSpan hints) : workspace_(workspace) {
    workspace_.set_hints(hints);
  }
  ~HintScope() { workspace_.set_hints({}); }
  HintScope(const HintScope&) = delete;
  HintScope& operator=(const HintScope&) = delete;
  HintScope(HintScope&&) = delete;
  HintScope& operator=(HintScope&&) = delete;

 private:
  models::Workspace& workspace_;
};

const models::ForwardOutput& forward(const RoundState& state,
                                     std::span<const models::SequenceSlice> slices,
                                     std::span<const LayerIndex> taps,
                                     TokenSpan hints,
                                     const std::stop_token& stop) {
  const HintScope scope(*state.workspace, hints);
  return state.model->forward(slices, taps, stop, *state.workspace);
}

sampling::Verdict verify(const RoundState& state,
                         TokenSpan drafts,
                         const Laws& laws,
                         ConstMatrix logits) {
  const StageScope stage(state.meter, Stage::kSampling);
  const sampling::History history{*state.tokens, state.n_prompt};
  try {
    switch (state.accept) {
      case sampling::AcceptMode::kMatch:
        break;
      case sampling::AcceptMode::kRatio:
        return sampling::verify_rejection(
            history,
            {.tokens = drafts, .laws = laws.of_drafts, .attempt = state.n_rounds},
            logits,
            state.stop_tokens,
            *state.sampler);
    }
    return sampling::verify_exact(history, drafts, logits, state.stop_tokens, *state.sampler);
  } catch (...) {
    roll_back(*state.cache, state.tokens->size() - 1);
    throw;
  }
}

experts::ExpertStats expert_stats(const RoundState& state) {
  return state.store != nullptr ? state.store->stats() : experts::ExpertStats();
}

void count_reads(const experts::ExpertStats& before,
                 const experts::ExpertStats& after,
                 RoundResult& round) {
  const std::uint64_t n_missed = after.trunk.misses - before.trunk.misses;
  const std::uint64_t n_cached = after.trunk.from_page_cache - before.trunk.from_page_cache;
  round.missing_bytes = (n_missed - std::min(n_missed, n_cached)) * after.trunk.slot_bytes;
  round.stall_us = after.stall_us - before.stall_us;
}

}  // namespace

RoundOutcome outcome_of(const RoundResult& result) {
  return {.parts = result.parts,
          .n_accepted = result.n_accepted,
          .draft_us = result.draft_us,
          .rest_us = result.forward_us + result.verify_us + result.observe_us,
          .stall_us = result.stall_us,
          .missing_bytes = static_cast<double>(result.missing_bytes)};
}

RoundResult decode_round(RoundState& state,
                         std::span<const Proposer> proposers,
                         const std::stop_token& stop) {
  std::vector<Token>& tokens = *state.tokens;
  cache::KvCache& cache = *state.cache;
  FT_CHECK(tokens.size() == cache.length() + 1);
  if (stop.stop_requested()) throw Cancelled();
  const std::size_t n_fed = cache.length();
  RoundResult round;

  const std::int64_t start_us = state.clock->now_us();
  Laws laws;
  if (!proposers.empty()) {
    const StageScope stage(state.meter, Stage::kDraft);
    laws = propose(state, proposers, stop, round);
  }
  std::vector<Token> window = {tokens.back()};
  window.insert(window.end(), round.drafts.begin(), round.drafts.end());
  tokens.reserve(tokens.size() + window.size());

  const std::int64_t drafted_us = state.clock->now_us();
  if (state.hinter != nullptr && round.drafts.empty()) round.hints = hints(state, stop);
  const std::vector<LayerIndex> layers = tapped_layers(state.sources);
  const std::array slices = {models::SequenceSlice{&cache, window, window.size()}};
  const experts::ExpertStats before = expert_stats(state);
  const models::ForwardOutput& out = forward(state, slices, layers, round.hints, stop);
  count_reads(before, expert_stats(state), round);

  const std::int64_t forwarded_us = state.clock->now_us();
  const sampling::Verdict verdict = verify(state, round.drafts, laws, out.logits);
  round.n_accepted = verdict.n_accepted;
  round.n_committed = verdict.n_accepted + 1;
  cache.truncate(n_fed + round.n_committed);
  tokens.insert(tokens.end(),
                window.begin() + 1,
                window.begin() + 1 + static_cast<std::ptrdiff_t>(round.n_accepted));
  tokens.push_back(verdict.next);
  ++state.n_rounds;
  round.logits = out.logits;
  round.logits.n_rows = round.n_committed;

  const std::int64_t verified_us = state.clock->now_us();
  show_all(state, {n_fed, round.n_committed, layers, out.taps});
  round.draft_us = drafted_us - start_us;
  round.forward_us = forwarded_us - drafted_us;
  round.verify_us = verified_us - forwarded_us;
  round.observe_us = state.clock->now_us() - verified_us;
  return round;
}

}  // namespace ft::speculation
