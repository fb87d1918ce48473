#include "speculation/decode_round.h"

#include "base/error.h"
#include "sampling/verify.h"
#include "speculation/observers.h"
#include "speculation/round_draft.h"

#include <algorithm>
#include <utility>

namespace ft::speculation {
namespace {

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

DraftedRound begin_round(const RoundState& state,
                         std::span<const Proposer> proposers,
                         const std::stop_token& stop) {
  RoundDraft draft(state, proposers, stop);
  draft.finish_alone();
  return draft.result();
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
