#include "engine/session.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace ft::engine {
namespace {

// Rounds after which a planner knows something.
constexpr std::size_t kExperienced = 16;

constexpr std::string_view kPrediction = "prediction";

const SavedSource* find_saved(const SessionState& saved, const speculation::DraftSource& source) {
  const auto at = std::find_if(
      saved.sources.begin(), saved.sources.end(), [&source](const SavedSource& candidate) {
        return candidate.name == source.name() && candidate.version == source.state_version();
      });
  return at != saved.sources.end() ? &*at : nullptr;
}

/// A source that was taken up sees what the sequence is now.
void show(speculation::DraftSource& source,
          TokenSpan sequence,
          std::size_t n_prompt,
          std::size_t n_fed) {
  const std::vector<ConstMatrix> no_rows(source.taps().size());
  source.observe({.sequence = sequence,
                  .n_prompt = n_prompt,
                  .first_position = n_fed,
                  .n_rows = 0,
                  .taps = no_rows});
}

}  // namespace

std::size_t n_reusable(TokenSpan sequence, const cache::KvCache& cache, TokenSpan prompt) {
  const auto [end, other] =
      std::mismatch(sequence.begin(), sequence.end(), prompt.begin(), prompt.end());
  if (end == sequence.begin()) return 0;
  const auto n_common = static_cast<std::size_t>(end - sequence.begin());
  const std::size_t n = std::min(n_common - 1, cache.length());
  const bool is_reachable = n == cache.length() || cache.rollback_limit() >= cache.max_tokens();
  return is_reachable ? n : 0;
}

std::vector<std::string> resolve_sources(const std::vector<std::string>& names,
                                         const std::vector<std::string>& available,
                                         bool has_prediction) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      fail("speculate: source {} is named twice", in_quotes(names[i]));
    }
    if (names.size() > 1 && (names[i] == "auto" || names[i] == "none")) {
      fail("speculate: '{}' stands alone, it cannot be combined with other sources", names[i]);
    }
    if (names[i] == kPrediction && !has_prediction) {
      fail(
          "speculate: source 'prediction' needs a prediction; give --prediction FILE, or leave it "
          "out");
    }
  }
  if (names.empty() || names.front() == "none") return {};
  if (names.front() != "auto") return names;
  std::vector<std::string> out;
  for (const std::string& name : available) {
    if (name != kPrediction || has_prediction) out.push_back(name);
  }
  return out;
}

Session::Session(EngineCore& core, SessionOptions options)
    : core_(core),
      meter_(options.meter),
      planner_options_{.fixed_depth = options.draft_tokens},
      prediction_(options.prediction.begin(), options.prediction.end()),
      source_names_(
          resolve_sources(options.sources, source_names(core.parts()), !prediction_.empty())),
      sampler_(std::move(options.sampling), core.model().config().n_vocab),
      cache_(core.model().new_cache(core.parts().cache_options())),
      sources_(open_sources()),
      planner_(sources_.size(), planner_options_) {
  for (const auto& source : sources_) source_views_.push_back(source.get());
  if (!options.ignore_eos) stop_tokens_ = core.model().config().eos_tokens;
  state_ = {.model = &core.model(),
            .workspace = &core.workspace(),
            .cache = cache_.get(),
            .tokens = &tokens_,
            .n_prompt = 0,
            .sampler = &sampler_,
            .sources = source_views_,
            .stop_tokens = stop_tokens_,
            .accept = options.accept,
            .clock = core.parts().clock.get(),
            .store = core.parts().store.get(),
            .meter = options.meter};
  if (!sources_.empty()) store_ = core.parts().store.get();
}

Session::~Session() {
  if (planner_options_.fixed_depth || n_planned_ < kExperienced) return;
  try {
    core_.experience().keep(source_names_, company_, planner_.experience());
  } catch (...) {
    // No memory: the next one learns by itself.
  }
}

/// A given draft length keeps its schedule whatever was before: a text in ratio mode depends on it.
void Session::inherit_experience() {
  if (planner_options_.fixed_depth) return;
  const speculation::Experience* latest = core_.experience().find(source_names_, company_);
  if (latest == nullptr) return;
  inherited_ = *latest;
  planner_ = speculation::RoundPlanner(*latest, planner_options_);
}

Session::Sources Session::open_sources() {
  Sources out;
  for (const std::string& name : source_names_) {
    out.push_back(core_.provider(name).open({.model = &core_.model(),
                                             .sampler = &sampler_,
                                             .cache_options = core_.parts().cache_options(),
                                             .prediction = prediction_,
                                             .history_tokens = core_.parts().history_tokens,
                                             .meter = meter_}));
  }
  return out;
}

SessionState Session::identity() const {
  return {.weights_hash = core_.model().config().weights_hash,
          .kv_type = core_.parts().kv_type,
          .context = core_.parts().context,
          .tokens = {},
          .n_prompt = state_.n_prompt,
          .n_fed = cache_->length(),
          .n_rounds = state_.n_rounds,
          .cache = nullptr,
          .sources = {}};
}

SessionState Session::save() const {
  FT_CHECK(n_unfed() > 0);  // the logits of a prompt that is fed whole are not kept
  return save_front(cache_->length());
}

SessionState Session::save_front(std::size_t n_fed) const {
  SessionState out = identity();
  out.tokens = tokens_;
  out.n_fed = n_fed;
  out.cache = cache_->clone_front(n_fed);
  for (const auto& source : sources_) {
    if (auto state = source->save(n_fed + 1)) {
      out.sources.push_back(
          {std::string(source->name()), source->state_version(), std::move(state)});
    }
  }
  return out;
}

SessionState Session::put_down() {
  begun_ = {};
  SessionState out = identity();
  out.tokens = std::move(tokens_);
  out.cache = std::move(cache_);
  for (const auto& source : sources_) {
    if (auto state = source->release()) {
      out.sources.push_back(
          {std::string(source->name()), source->state_version(), std::move(state)});
    }
  }
  return out;
}

void Session::check(const SessionState& saved) const {
  const EngineParts& parts = core_.parts();
  const models::ModelConfig& model = core_.model().config();
  if (saved.weights_hash != model.weights_hash) {
    fail("session state: made with weights {}, this model has {}; restore it with the same model",
         in_quotes(saved.weights_hash),
         in_quotes(model.weights_hash));
  }
  if (saved.kv_type != parts.kv_type) {
    fail("session state: its cache holds {}, this engine's hold {}; open it with the same type",
         dtype_name(saved.kv_type),
         dtype_name(parts.kv_type));
  }
  if (saved.context != parts.context) {
    fail("session state: made for a context of {} tokens, this engine has {}; open it with {}",
         saved.context,
         parts.context,
         saved.context);
  }
  const std::size_t n = saved.tokens.size();
  const bool is_whole = saved.cache != nullptr && saved.cache->length() == saved.n_fed &&
                        saved.n_fed < n && saved.n_prompt > 0 && saved.n_prompt <= n &&
                        (n == saved.n_prompt || saved.n_fed + 1 == n);
  if (!is_whole) {
    fail(
        "session state: {} tokens, {} of them prompt, {} fed and a cache of {} do not fit; save "
        "it again",
        n,
        saved.n_prompt,
        saved.n_fed,
        saved.cache != nullptr ? saved.cache->length() : 0);
  }
  for (const Token token : saved.tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= model.n_vocab)
      fail("session state: token {}, expected 0 to {}", token, model.n_vocab - 1);
  }
}

Session::Sources Session::sources_after(const SessionState& saved) {
  Sources out = open_sources();
  for (const auto& source : out) {
    if (const SavedSource* found = find_saved(saved, *source))
      source->restore(*found->state, saved.tokens.size());
    show(*source, saved.tokens, saved.n_prompt, saved.n_fed);
  }
  return out;
}

void Session::restore(const SessionState& saved) {
  check(saved);
  std::unique_ptr<cache::KvCache> cache = saved.cache->clone();
  std::vector<Token> tokens = saved.tokens;
  Sources sources = sources_after(saved);
  std::vector<speculation::DraftSource*> views;
  for (const auto& source : sources) views.push_back(source.get());
  speculation::RoundPlanner planner(sources.size(), planner_options_);

  // From here on nothing throws.
  begun_ = {};
  cache_ = std::move(cache);
  tokens_ = std::move(tokens);
  sources_ = std::move(sources);
  source_views_ = std::move(views);
  planner_ = std::move(planner);
  inherited_.reset();
  n_planned_ = 0;
  state_.cache = cache_.get();
  state_.sources = source_views_;
  state_.n_prompt = saved.n_prompt;
  state_.n_rounds = saved.n_rounds;
  state_.n_shown = tokens_.size();
}

void Session::begin(TokenSpan prompt) {
  FT_CHECK(tokens_.empty() && !prompt.empty() && prompt.size() <= cache_->max_tokens());
  tokens_.assign(prompt.begin(), prompt.end());
  state_.n_prompt = prompt.size();
}

void Session::begin(TokenSpan prompt, SessionState&& from) {
  const std::size_t n = n_reusable(from.tokens, *from.cache, prompt);
  std::unique_ptr<cache::KvCache> cache = std::move(from.cache);
  if (cache->length() > n) cache->truncate(n);
  begin_with(prompt, std::move(cache), [&from](speculation::DraftSource& source) {
    if (const SavedSource* found = find_saved(from, source)) source.adopt(*found->state);
  });
}

void Session::begin(TokenSpan prompt, const SessionState& from) {
  const std::size_t n = n_reusable(from.tokens, *from.cache, prompt);
  begin_with(prompt, from.cache->clone_front(n), [&from, n](speculation::DraftSource& source) {
    if (const SavedSource* found = find_saved(from, source)) source.restore(*found->state, n + 1);
  });
}

template <typename TakeUp>
void Session::begin_with(TokenSpan prompt, std::unique_ptr<cache::KvCache> cache, TakeUp take_up) {
  FT_CHECK(cache->max_tokens() == cache_->max_tokens());
  begin(prompt);
  cache_ = std::move(cache);
  state_.cache = cache_.get();
  for (const auto& source : sources_) {
    take_up(*source);
    show(*source, tokens_, tokens_.size(), cache_->length());
  }
  state_.n_shown = tokens_.size();
}

ConstMatrix Session::prefill(std::size_t chunk, const std::stop_token& stop) {
  const std::size_t n = std::min(chunk, n_unfed());
  return speculation::prefill_chunk(state_, n, stop).logits;
}

void Session::begin_prefill(std::size_t n) {
  begun_ = speculation::begin_chunk(state_, n);
}

ConstMatrix Session::end_prefill(const speculation::ForwardShare& share) {
  const auto chunk = std::get<speculation::PrefillChunk>(std::exchange(begun_, {}));
  return speculation::end_chunk(state_, chunk, share).logits;
}

speculation::ForwardPart Session::part() const {
  if (const auto* chunk = std::get_if<speculation::PrefillChunk>(&begun_)) {
    return speculation::part_of(state_, *chunk);
  }
  return speculation::part_of(state_, std::get<BegunRound>(begun_).drafted);
}

Token Session::first_token(ConstMatrix logits) {
  return speculation::first_token(state_, logits);
}

speculation::PlanInputs Session::plan_inputs(std::size_t tokens_left) {
  const std::size_t n_free = cache_->max_tokens() - cache_->length();
  // The round's own token comes free: it needs neither a draft nor, yet, a position.
  const std::size_t max_drafts = std::min(tokens_left - 1, n_free - 1);
  offers_.clear();
  for (const auto& source : sources_) offers_.push_back(source->offer(max_drafts));
  speculation::PlanInputs inputs{
      .max_drafts = max_drafts, .context = cache_->length(), .offers = offers_};
  if (store_ != nullptr) {
    const auto rows = std::span(missing_bytes_).first(std::min(max_drafts + 1, kForecastRows));
    if (store_->forecast_missing(rows)) inputs.missing_bytes = rows;
  }
  return inputs;
}

void Session::begin_round(std::size_t tokens_left, Company company, const std::stop_token& stop) {
  FT_CHECK(tokens_left > 0 && has_room());
  BegunRound begun;
  begun.company = company;
  RoundReport& report = begun.report;
  company_ = company;
  if (n_planned_++ == 0) inherit_experience();
  report.inputs = plan_inputs(tokens_left);
  report.plan = planner_.plan(report.inputs);
  std::vector<speculation::Proposer> proposers;
  for (const speculation::RoundPlan::Part& part : report.plan.parts) {
    proposers.push_back({source_views_[part.source], part.depth});
    report.sources.push_back(proposers.back().source->name());
  }
  const bool wants_hint = company == Company::kAlone && store_ != nullptr &&
                          report.inputs.max_drafts > 0 && store_->begin_round();
  state_.hinter = wants_hint ? source_views_.front() : nullptr;
  begun.drafting.emplace(state_, proposers, stop);
  begun_ = std::move(begun);
  if (company == Company::kShared) return;
  drafting()->finish_alone();
  end_drafting();
}

speculation::RoundDraft* Session::drafting() noexcept {
  auto* begun = std::get_if<BegunRound>(&begun_);
  return begun != nullptr && begun->drafting ? &*begun->drafting : nullptr;
}

void Session::end_drafting() {
  auto begun = std::get<BegunRound>(std::exchange(begun_, {}));
  begun.drafted = begun.drafting->result();
  begun.drafting.reset();
  begun_ = std::move(begun);
}

RoundReport Session::end_round(const speculation::ForwardShare& share) {
  auto begun = std::get<BegunRound>(std::exchange(begun_, {}));
  RoundReport report = std::move(begun.report);
  report.result = speculation::end_round(state_, std::move(begun.drafted), share);
  if (store_ != nullptr && begun.company == Company::kAlone) store_->end_round();
  planner_.record(report.plan, speculation::outcome_of(report.result));
  return report;
}

RoundReport Session::round(std::size_t tokens_left, const std::stop_token& stop) {
  begin_round(tokens_left, Company::kAlone, stop);
  const speculation::ForwardPart part = this->part();
  const speculation::SharedForward forward(speculation::forward_context(state_), {&part, 1}, stop);
  return end_round(forward.share(0));
}

std::size_t Session::draft_cache_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& source : sources_) {
    if (const cache::KvCache* cache = source->cache()) bytes += cache->used_bytes();
  }
  return bytes;
}

}  // namespace ft::engine
