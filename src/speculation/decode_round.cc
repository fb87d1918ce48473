#include "speculation/decode_round.h"

#include "base/error.h"
#include "sampling/verify.h"
#include "speculation/observers.h"

#include <algorithm>
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

DraftLaws propose(const RoundState& state,
                  std::span<const Proposer> proposers,
                  const std::stop_token& stop,
                  RoundResult& round) {
  const bool wants_laws =
      state.accept == sampling::AcceptMode::kRatio && state.sampler->params().temperature > 0;
  const std::size_t n_vocab = state.model->config().n_vocab;
  DraftLaws laws;
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

sampling::Verdict verify(const RoundState& state,
                         TokenSpan drafts,
                         const DraftLaws& laws,
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

}  // namespace

RoundOutcome outcome_of(const RoundResult& result) {
  return {.parts = result.parts,
          .n_accepted = result.n_accepted,
          .draft_us = result.draft_us,
          .rest_us = result.forward_us + result.verify_us + result.observe_us,
          .stall_us = result.stall_us,
          .missing_bytes = static_cast<double>(result.missing_bytes)};
}

void DraftLaws::add(Draft draft, std::size_t n_vocab) {
  of_parts.push_back(std::move(draft.laws));
  const std::span<const float> all = of_parts.back();
  for (std::size_t i = 0; i < draft.tokens.size(); ++i) {
    of_drafts.push_back(all.empty() ? all : all.subspan(i * n_vocab, n_vocab));
  }
}

DraftedRound begin_round(const RoundState& state,
                         std::span<const Proposer> proposers,
                         const std::stop_token& stop) {
  std::vector<Token>& tokens = *state.tokens;
  FT_CHECK(tokens.size() == state.cache->length() + 1);
  if (stop.stop_requested()) throw Cancelled();
  DraftedRound round;
  RoundResult& result = round.result;

  const std::int64_t start_us = state.clock->now_us();
  if (!proposers.empty()) {
    const StageScope stage(state.meter, Stage::kDraft);
    round.laws = propose(state, proposers, stop, result);
  }
  round.window = {tokens.back()};
  round.window.insert(round.window.end(), result.drafts.begin(), result.drafts.end());
  tokens.reserve(tokens.size() + round.window.size());

  const std::int64_t drafted_us = state.clock->now_us();
  result.draft_us = drafted_us - start_us;
  if (state.hinter != nullptr && result.drafts.empty()) {
    result.hints = hints(state, stop);
    result.forward_us = state.clock->now_us() - drafted_us;
  }
  round.layers = tapped_layers(state.sources);
  return round;
}

ForwardPart part_of(const RoundState& state, const DraftedRound& round) noexcept {
  return {.slice = {state.cache, round.window, round.window.size()},
          .layers = round.layers,
          .hints = round.result.hints};
}

RoundResult end_round(RoundState& state, DraftedRound round, const ForwardShare& share) {
  std::vector<Token>& tokens = *state.tokens;
  RoundResult result = std::move(round.result);
  const std::size_t n_fed = tokens.size() - 1;
  FT_CHECK(state.cache->length() == n_fed + round.window.size());

  const std::int64_t start_us = state.clock->now_us();
  const sampling::Verdict verdict = verify(state, result.drafts, round.laws, share.logits);
  result.n_accepted = verdict.n_accepted;
  result.n_committed = verdict.n_accepted + 1;
  state.cache->truncate(n_fed + result.n_committed);
  tokens.insert(tokens.end(),
                round.window.begin() + 1,
                round.window.begin() + 1 + static_cast<std::ptrdiff_t>(result.n_accepted));
  tokens.push_back(verdict.next);
  ++state.n_rounds;
  result.logits = share.logits;
  result.logits.n_rows = result.n_committed;

  const std::int64_t verified_us = state.clock->now_us();
  show_all(state, {n_fed, result.n_committed, share.layers, share.taps});
  result.forward_us += share.forward_us;
  result.verify_us = verified_us - start_us;
  result.observe_us = state.clock->now_us() - verified_us;
  result.stall_us = share.stall_us;
  result.missing_bytes = share.missing_bytes;
  return result;
}

ForwardContext forward_context(const RoundState& state) noexcept {
  return {*state.model, *state.workspace, *state.clock, state.store, state.meter};
}

RoundResult decode_round(RoundState& state,
                         std::span<const Proposer> proposers,
                         const std::stop_token& stop) {
  DraftedRound round = begin_round(state, proposers, stop);
  const ForwardPart part = part_of(state, round);
  const SharedForward forward(forward_context(state), {&part, 1}, stop);
  return end_round(state, std::move(round), forward.share(0));
}

}  // namespace ft::speculation
