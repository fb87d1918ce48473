#include "speculation/round_draft.h"

#include "base/error.h"
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

Draft checked(Draft draft,
              const DraftSource& source,
              const DraftRequest& request,
              std::size_t n_vocab) {
  if (draft.tokens.size() > request.max_tokens) {
    throw LogicError(fmt::format("draft source '{}' returned {} tokens, asked for at most {}",
                                 source.name(),
                                 draft.tokens.size(),
                                 request.max_tokens));
  }
  const std::size_t n_expected = draft.tokens.size() * n_vocab;
  if (request.wants_laws && !draft.laws.empty() && draft.laws.size() != n_expected) {
    throw LogicError(fmt::format("draft source '{}' returned laws of {} numbers, expected {}",
                                 source.name(),
                                 draft.laws.size(),
                                 n_expected));
  }
  for (const Token token : draft.tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= n_vocab) {
      throw LogicError(
          fmt::format("draft source '{}' proposed token {}, the vocabulary is 0 ... {}",
                      source.name(),
                      token,
                      n_vocab - 1));
    }
  }
  return draft;
}

// A wrong hint costs time, so its law is nobody's concern.
std::vector<Token> hints(const RoundState& state, const std::stop_token& stop) {
  const StageScope stage(state.meter, Stage::kDraft);
  const DraftRequest request{
      .max_tokens = 1, .ahead = {}, .wants_laws = false, .attempt = state.n_rounds};
  return checked(state.hinter->propose(request, stop),
                 *state.hinter,
                 request,
                 state.model->config().n_vocab)
      .tokens;
}

}  // namespace

void DraftLaws::add(Draft draft, std::size_t n_vocab) {
  of_parts.push_back(std::move(draft.laws));
  const std::span<const float> all = of_parts.back();
  for (std::size_t i = 0; i < draft.tokens.size(); ++i) {
    of_drafts.push_back(all.empty() ? all : all.subspan(i * n_vocab, n_vocab));
  }
}

RoundDraft::RoundDraft(const RoundState& state,
                       std::span<const Proposer> proposers,
                       std::stop_token stop)
    : state_(&state),
      proposers_(proposers.begin(), proposers.end()),
      stop_(std::move(stop)),
      wants_laws_(state.accept == sampling::AcceptMode::kRatio &&
                  state.sampler->params().temperature > 0),
      room_(room_for_drafts(*state.cache)) {
  FT_CHECK(state.tokens->size() == state.cache->length() + 1);
  if (stop_.stop_requested()) throw Cancelled();
}

// Its time is the round's, and its failure too.
template <typename Piece>
void RoundDraft::run(Piece piece) noexcept {
  if (error_ != nullptr) return;
  const std::int64_t start_us = state_->clock->now_us();
  try {
    piece();
  } catch (...) {
    error_ = std::current_exception();
    drop_running();
  }
  round_.result.draft_us += state_->clock->now_us() - start_us;
}

std::optional<models::DraftSlice> RoundDraft::next() noexcept {
  wanted_.reset();
  if (n_done_ < proposers_.size()) run([this] { draft_on(); });
  return wanted_;
}

void RoundDraft::take(const models::DraftStep& step, std::int64_t step_us) noexcept {
  round_.result.draft_us += step_us;
  run([&] { running_->take(step); });
}

void RoundDraft::finish_alone() noexcept {
  is_alone_ = true;
  drop_running();
  next();
}

void RoundDraft::draft_on() {
  const StageScope stage(state_->meter, Stage::kDraft);
  for (; n_done_ < proposers_.size(); ++n_done_) {
    if (running_ == nullptr && !begin_next()) continue;
    if (stop_.stop_requested()) throw Cancelled();
    wanted_ = running_->next();
    if (wanted_) return;
    add(std::exchange(running_, nullptr)->end());
  }
}

// Whether its drafts need steps of the head; else it has drafted.
bool RoundDraft::begin_next() {
  RoundResult& result = round_.result;
  DraftSource& source = *proposers_[n_done_].source;
  result.parts.resize(n_done_ + 1);
  n_asked_ = std::min(proposers_[n_done_].max_drafts, room_);
  result.parts.back().n_asked = n_asked_;
  if (n_asked_ == 0) return false;
  running_ = is_alone_ ? nullptr : source.head_drafter();
  if (running_ == nullptr) {
    add(source.propose(request(), stop_));
    return false;
  }
  running_->begin(request());
  return true;
}

DraftRequest RoundDraft::request() const {
  return {.max_tokens = n_asked_,
          .ahead = round_.result.drafts,
          .wants_laws = wants_laws_,
          .attempt = state_->n_rounds};
}

void RoundDraft::add(Draft draft) {
  const std::size_t n_vocab = state_->model->config().n_vocab;
  draft = checked(std::move(draft), *proposers_[n_done_].source, request(), n_vocab);
  RoundResult& result = round_.result;
  result.parts.back().n_drafted = draft.tokens.size();
  room_ -= draft.tokens.size();
  result.drafts.insert(result.drafts.end(), draft.tokens.begin(), draft.tokens.end());
  if (wants_laws_) round_.laws.add(std::move(draft), n_vocab);
}

void RoundDraft::drop_running() noexcept {
  if (running_ == nullptr) return;
  try {
    std::exchange(running_, nullptr)->end();
  } catch (...) {
    // Its rows are gone; only the drafts, which nobody wants, had no room.
  }
}

DraftedRound RoundDraft::result() {
  if (error_ != nullptr) std::rethrow_exception(error_);
  FT_CHECK(n_done_ == proposers_.size());
  RoundResult& result = round_.result;
  std::vector<Token>& tokens = *state_->tokens;
  round_.window = {tokens.back()};
  round_.window.insert(round_.window.end(), result.drafts.begin(), result.drafts.end());
  tokens.reserve(tokens.size() + round_.window.size());
  if (state_->hinter != nullptr && result.drafts.empty()) {
    const std::int64_t start_us = state_->clock->now_us();
    result.hints = hints(*state_, stop_);
    result.forward_us = state_->clock->now_us() - start_us;
  }
  round_.layers = tapped_layers(state_->sources);
  return std::move(round_);
}

namespace {

// One pass for a step of these rounds, or for each one by itself.
void step_together(const HeadContext& context,
                   std::span<RoundDraft* const> rounds,
                   std::span<const models::DraftSlice> slices,
                   const std::stop_token& stop) {
  FT_CHECK(context.head != nullptr && context.workspace != nullptr);
  context.workspace->set_stop(stop);
  const std::int64_t start_us = context.clock.now_us();
  std::span<const models::DraftStep> steps;
  try {
    steps = context.head->step(slices, *context.workspace);
  } catch (...) {
    for (RoundDraft* round : rounds) round->finish_alone();
    return;
  }
  const std::int64_t us = context.clock.now_us() - start_us;
  const auto n = static_cast<std::int64_t>(rounds.size());
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    // What does not divide evenly is the first ones'.
    const bool pays_more = static_cast<std::int64_t>(i) < us % n;
    rounds[i]->take(steps[i], us / n + (pays_more ? 1 : 0));
  }
}

}  // namespace

void draft_together(const HeadContext& context,
                    std::span<RoundDraft* const> rounds,
                    const std::stop_token& stop) {
  std::vector<RoundDraft*> steppers;
  std::vector<models::DraftSlice> slices;
  do {
    steppers.clear();
    slices.clear();
    std::size_t n_rows = 0;
    for (RoundDraft* round : rounds) {
      const std::optional<models::DraftSlice> wanted = round->next();
      if (!wanted) continue;
      const std::size_t n = wanted->next_tokens.size();
      if (!slices.empty() && n_rows + n > context.max_rows) {
        step_together(context, steppers, slices, stop);
        steppers.clear();
        slices.clear();
        n_rows = 0;
      }
      steppers.push_back(round);
      slices.push_back(*wanted);
      n_rows += n;
    }
    if (!slices.empty()) step_together(context, steppers, slices, stop);
  } while (!slices.empty());
}

}  // namespace ft::speculation
