// One timeline: tokens, cache, draft sources, sampler, planner. Engine thread only.
#pragma once

#include "base/types.h"
#include "base/work_meter.h"
#include "cache/kv_cache.h"
#include "engine/engine_core.h"
#include "engine/planner_experience.h"
#include "engine/session_state.h"
#include "sampling/sampler.h"
#include "speculation/decode_round.h"
#include "speculation/draft_source.h"
#include "speculation/forward_share.h"
#include "speculation/prefill.h"
#include "speculation/round_draft.h"
#include "speculation/round_planner.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ft::engine {

struct SessionOptions {
  sampling::SamplingParams sampling;
  std::vector<std::string> sources = {"auto"};
  TokenSpan prediction = {};                // the output that the caller expects
  std::optional<std::size_t> draft_tokens;  // unset: the planner's choice
  sampling::AcceptMode accept = sampling::AcceptMode::kMatch;
  bool ignore_eos = false;
  WorkMeter* meter = nullptr;  // what the session's work is reported to; may be null
};

/// The names a request's `speculate` stands for: `auto` is all of the available that
/// have something to draft from,
/// `none` is none. Throws InvalidInput for a repeated name, for `auto` or `none` beside others and
/// for `prediction` without one; unknown names are the provider's to refuse.
std::vector<std::string> resolve_sources(const std::vector<std::string>& names,
                                         const std::vector<std::string>& available,
                                         bool has_prediction);

struct RoundReport {
  std::vector<std::string_view> sources;  // by part of the plan; none was asked: empty
  speculation::PlanInputs inputs;         // refer to the session, until its next round
  speculation::RoundPlan plan;
  speculation::RoundResult result;  // its logits die at the next forward
};

class Session {
 public:
  /// `core` must outlive the session. Throws InvalidInput for sampling parameters and sources that
  /// cannot be.
  Session(EngineCore& core, SessionOptions options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Session(Session&&) = delete;
  Session& operator=(Session&&) = delete;
  /// Leaves what its planner learned to later sessions.
  ~Session();

  /// The prompt of an empty session, 1 ... context tokens. Prefill it before the first round.
  void begin(TokenSpan prompt);
  /// begin(), with the n_reusable() positions of another session of this engine taken for fed.
  /// Sources go on as they would with a prompt that was that session's first tokens; those that the
  /// state does not hold start with a gap. Takes the state's caches, or copies of what it needs. If
  /// it throws, this session is of no use any more.
  void begin(TokenSpan prompt, SessionState&& from);
  void begin(TokenSpan prompt, const SessionState& from);
  /// Prompt tokens that are not yet fed.
  std::size_t n_unfed() const noexcept { return tokens_.size() - cache_->length(); }
  /// Feeds the next tokens of the prompt, at most `chunk`. Returns the logits of the last prompt
  /// position with the last chunk, an empty matrix before. Throws Cancelled.
  ConstMatrix prefill(std::size_t chunk, const std::stop_token& stop);
  /// Samples and commits the first token from the logits of the last chunk.
  Token first_token(ConstMatrix logits);

  /// Whether the cache has room for a round.
  bool has_room() const noexcept { return cache_->length() < cache_->max_tokens(); }
  /// One round that commits at most `tokens_left` >= 1 tokens. Throws Cancelled; the session is
  /// then as before.
  RoundReport round(std::size_t tokens_left, const std::stop_token& stop);

  // prefill() and round() in halves, for a forward that others share: begin, the forward with
  // part(), end. What was begun may wait or be given up; nothing has changed before the end.

  /// 1 ... n_unfed() tokens.
  void begin_prefill(std::size_t n);
  /// Throws Cancelled and what sources throw. In company the draft is then for the caller to
  /// complete.
  void begin_round(std::size_t tokens_left, Company company, const std::stop_token& stop);
  /// The draft that is to be completed, for speculation::draft_together(); null: none is.
  speculation::RoundDraft* drafting() noexcept;
  /// It is complete. Throws what went wrong; then nothing was begun.
  void end_drafting();
  /// Of what was begun last; a view until its end.
  speculation::ForwardPart part() const;
  ConstMatrix end_prefill(const speculation::ForwardShare& share);
  RoundReport end_round(const speculation::ForwardShare& share);

  /// A copy of the session as it is between two calls, with at least one committed token that is
  /// not fed: anywhere but between the last chunk of a prompt and its first token (LogicError).
  /// Costs a copy of the caches.
  SessionState save() const;
  /// As save(), at any time between two calls, of the first n_fed positions of the cache alone.
  /// What sources keep may go further; begin() takes that back.
  SessionState save_front(std::size_t n_fed) const;
  /// The session as begin() can take it up; nothing is copied. Afterwards it can only be destroyed.
  SessionState put_down();
  /// Makes this session the saved one, whatever it was; sampling, stop tokens, sources and
  /// prediction stay its own. Sources that the state does not hold, or holds in another version,
  /// know the tokens and start with a gap. The planner plans afresh. Throws InvalidInput naming
  /// what differs if the state is that of other weights, another cache type or context, or is
  /// broken; then, and whatever else is thrown, this session is as before. Costs a copy of the
  /// caches and one pass over the tokens.
  void restore(const SessionState& saved);

  /// Committed tokens, the prompt first.
  TokenSpan tokens() const noexcept { return tokens_; }
  const cache::KvCache& cache() const noexcept { return *cache_; }
  const sampling::SamplingParams& sampling() const noexcept { return sampler_.params(); }
  std::size_t n_sources() const noexcept { return sources_.size(); }
  const speculation::PlannerOptions& planner_options() const noexcept { return planner_options_; }
  /// What its planner began with, from the first round on; none: nothing.
  const std::optional<speculation::Experience>& inherited() const noexcept { return inherited_; }
  std::string_view source_name(std::size_t i) const noexcept { return sources_[i]->name(); }
  std::optional<speculation::FixedChoice> best_in_hindsight() const {
    return planner_.best_in_hindsight();
  }
  std::size_t cache_bytes() const noexcept { return cache_->used_bytes(); }
  std::size_t draft_cache_bytes() const noexcept;

 private:
  // The window of the deepest automatic choice; beyond it the planner goes on by itself.
  static constexpr std::size_t kForecastRows = 17;

  /// A round between its halves.
  struct BegunRound {
    RoundReport report;
    std::optional<speculation::RoundDraft> drafting;  // until it is drafted
    speculation::DraftedRound drafted;
    Company company = Company::kAlone;
  };

  speculation::PlanInputs plan_inputs(std::size_t tokens_left);
  void inherit_experience();

  using Sources = std::vector<std::unique_ptr<speculation::DraftSource>>;
  Sources open_sources();
  SessionState identity() const;
  template <typename TakeUp>
  void begin_with(TokenSpan prompt, std::unique_ptr<cache::KvCache> cache, TakeUp take_up);
  void check(const SessionState& saved) const;
  /// New sources that stand where the saved ones stood.
  Sources sources_after(const SessionState& saved);

  EngineCore& core_;
  WorkMeter* meter_;
  speculation::PlannerOptions planner_options_;
  std::vector<Token> prediction_;
  std::vector<std::string> source_names_;
  sampling::Sampler sampler_;
  std::unique_ptr<cache::KvCache> cache_;
  Sources sources_;
  std::vector<speculation::DraftSource*> source_views_;
  std::vector<std::optional<speculation::Offer>> offers_;  // of this round
  std::array<double, kForecastRows> missing_bytes_{};      // of this round
  std::vector<Token> stop_tokens_;
  std::vector<Token> tokens_;
  speculation::RoundPlanner planner_;
  std::optional<speculation::Experience> inherited_;
  std::size_t n_planned_ = 0;          // rounds that it has planned
  Company company_ = Company::kAlone;  // of the latest one
  speculation::RoundState state_;
  std::variant<std::monostate, speculation::PrefillChunk, BegunRound> begun_;
  experts::StreamingStore* store_ = nullptr;  // null: experts are resident, or nobody drafts
};

}  // namespace ft::engine
