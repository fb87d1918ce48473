#include "engine/generation.h"

#include "base/error.h"
#include "base/work_meter.h"
#include "engine/errors.h"
#include "engine/expert_counts.h"
#include "engine/generation_output.h"
#include "engine/round_tracer.h"
#include "engine/session.h"
#include "engine/speculation_recorder.h"
#include "sampling/sampler.h"

#include <algorithm>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace ft::engine {
namespace {

double milliseconds(std::int64_t microseconds) {
  return static_cast<double>(microseconds) / 1000;
}

double per_second(std::size_t n, double ms) {
  return ms > 0 ? static_cast<double>(n) * 1000 / ms : 0;
}

foretoken::PhaseWork phase_work(const WorkTotals& totals) {
  const auto ms = [&totals](Stage stage) { return milliseconds(totals.us(stage)); };
  foretoken::PhaseWork out;
  out.stages_ms = {.attention = ms(Stage::kAttention),
                   .indexer = ms(Stage::kIndexer),
                   .experts = ms(Stage::kExperts),
                   .dense = ms(Stage::kDense),
                   .head = ms(Stage::kHead),
                   .sampling = ms(Stage::kSampling),
                   .draft = ms(Stage::kDraft),
                   .other = ms(Stage::kOther)};
  out.weight_bytes = totals.weight_bytes;
  return out;
}

sampling::AcceptMode accept_mode(const std::string& name) {
  if (name == "match") return sampling::AcceptMode::kMatch;
  if (name == "ratio") return sampling::AcceptMode::kRatio;
  fail(
      "accept is {}, expected 'match' (text equal with speculation on and off) or 'ratio' (equal "
      "in law)",
      in_quotes(name));
}

void check_ids(TokenSpan ids, std::string_view what, std::size_t n_vocab) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<std::size_t>(ids[i]) >= n_vocab) {
      fail("token {} of {} is {}, expected 0 to {}", i, what, ids[i], n_vocab - 1);
    }
  }
}

constexpr std::int64_t kProgressIntervalUs = 200'000;
constexpr std::chrono::hours kLongestTime{365 * 24};

class Generation final : public Member, public PrefixOwner {
 public:
  Generation(EngineCore& core,
             foretoken::GenerationRequest request,
             std::shared_ptr<EventChannel> channel,
             std::int64_t submitted_us)
      : core_(core),
        request_(std::move(request)),
        channel_(std::move(channel)),
        stop_(channel_->stop_token()),
        submitted_us_(submitted_us),
        output_(core.parts(), request_),
        tracer_(request_.trace, core) {
    if (request_.measure_work) meter_.emplace(*core.parts().clock);
  }

  void start() noexcept override {
    guard([this] { open_if_ready(); });
  }

  Need need() noexcept override {
    if (!is_over_) guard([this] { open_if_ready(); });
    if (is_over_) return Need::kNothing;
    if (!session_) return Need::kOther;
    if (!channel_->has_room()) return Need::kReader;
    return is_prefilling() ? Need::kPrefill : Need::kRound;
  }

  void begin(std::size_t max_rows, Company company) noexcept override {
    guard([&] {
      if (is_prefilling()) {
        begin_chunk(max_rows);
      } else if (!is_round_begun_) {
        begin_round(company);
      }
    });
  }

  speculation::RoundDraft* drafting() noexcept override {
    return is_over_ ? nullptr : session_->drafting();
  }
  void end_drafting() noexcept override {
    guard([this] { session_->end_drafting(); });
  }

  speculation::ForwardPart part() const override { return session_->part(); }

  void take(const speculation::ForwardShare& share) noexcept override {
    if (is_over_) return;
    guard([&] {
      is_prefilling() ? take_chunk(share) : take_round(share);
      if (!output_.finish() && !is_prefilling() && !session_->has_room()) {
        send({{}, output_.end(foretoken::FinishReason::kLength), {}});
      }
      if (output_.finish()) complete();
    });
  }

  void fail(const std::exception_ptr& error) noexcept override {
    if (!is_over_) guard([&] { std::rethrow_exception(error); });
  }

  /// A chunk over many streamed layers takes long: tells how far it is, at most every
  /// kProgressIntervalUs.
  void on_layer(std::size_t n_done, std::size_t n_layers) noexcept override {
    look_at_clock();
    if (is_over_ || stop_.stop_requested() || !is_prefilling()) return;
    guard([&] {
      if (now_us() - last_progress_us_ < kProgressIntervalUs || !channel_->has_room()) return;
      last_progress_us_ = now_us();
      channel_->push(
          foretoken::PrefillProgress{n_fed() + n_chunk_ * n_done / n_layers, n_prompt()});
    });
  }

  WorkMeter* meter() noexcept override { return meter_ ? &*meter_ : nullptr; }
  std::stop_token stop_token() const noexcept override { return stop_; }
  std::optional<std::chrono::microseconds> time_left() const noexcept override {
    if (!request_.time_limit) return std::nullopt;
    return *request_.time_limit - std::chrono::microseconds(now_us() - submitted_us_);
  }
  void cancel() noexcept override { channel_->cancel(); }
  void abandon() noexcept override {
    channel_->fail(
        {foretoken::ErrorCode::kCancelled, "the engine was closed before the request was served"});
  }

  const Session& session() const noexcept override { return *session_; }
  bool is_feeding() override {
    return is_prefilling() && !stop_.stop_requested() && channel_->has_room();
  }

 private:
  /// Whatever a step throws ends the request, and no other.
  template <typename Step>
  void guard(Step step) noexcept {
    try {
      try {
        step();
      } catch (const Cancelled&) {
        // An end that was reached before the cancellation stands.
        if (!session_) open();
        const auto reason =
            is_timed_out_ ? foretoken::FinishReason::kTimeout : foretoken::FinishReason::kCancelled;
        if (!output_.finish()) send({{}, output_.end(reason), {}});
        complete();
      }
    } catch (...) {
      is_over_ = true;
      channel_->fail(public_error(std::current_exception()));
      core_.prefixes().remove(*this);
      session_.reset();
    }
  }

  /// Ends the request, with a time of its own, like a cancelled one.
  void look_at_clock() noexcept {
    if (stop_.stop_requested() || time_left().value_or(kLongestTime).count() > 0) return;
    is_timed_out_ = true;
    channel_->cancel();
  }

  /// Throws Cancelled.
  void open_if_ready() {
    look_at_clock();
    if (stop_.stop_requested()) throw Cancelled();
    if (!session_ && !(may_reuse() && core_.prefixes().is_coming(request_.prompt))) open();
  }

  // A text in ratio mode depends on drafts, and those on what a source saw before. What is measured
  // is fed.
  bool may_reuse() const noexcept {
    return request_.accept != "ratio" && !request_.measure_work && request_.n_untimed == 0;
  }

  void begin_session() {
    PrefixPool& prefixes = core_.prefixes();
    if (stop_.stop_requested()) {  // its caches stay empty
      session_->begin(request_.prompt);
      return;
    }
    may_reuse() ? prefixes.begin(*session_, request_.prompt)
                : prefixes.begin_empty(*session_, request_.prompt);
    prefixes.add(*this);
    n_cached_ = n_fed();
  }

  void open() {
    at_start_ = core_.expert_stats();
    session_.emplace(core_,
                     SessionOptions{.sampling = resolve_sampling(request_.sampling,
                                                                 core_.parts().sampling_defaults,
                                                                 core_.parts().draw_seed),
                                    .sources = request_.speculate,
                                    .prediction = request_.prediction,
                                    .draft_tokens = request_.draft_tokens,
                                    .accept = accept_mode(request_.accept),
                                    .ignore_eos = request_.ignore_eos,
                                    .meter = meter_ ? &*meter_ : nullptr});
    for (std::size_t i = 0; i < session_->n_sources(); ++i)
      recorder_.add_source(session_->source_name(i));
    start_prefill_clock();
    begin_session();
  }

  void complete() {
    is_over_ = true;
    tracer_.begin(*session_);
    channel_->finish(completion(*session_));
    core_.prefixes().remove(*this);
    core_.prefixes().rest(*session_);
    session_.reset();
  }

  bool is_prefilling() const noexcept { return session_->tokens().size() == n_prompt(); }
  std::size_t n_prompt() const noexcept { return request_.prompt.size(); }
  std::size_t n_fed() const noexcept { return n_prompt() - session_->n_unfed(); }

  void start_prefill_clock() {
    n_prefilled_ = 0;
    prefill_start_us_ = now_us();
    prefill_end_us_ = prefill_start_us_;
    at_prefill_start_ = mark();
  }

  void begin_chunk(std::size_t max_rows) {
    const std::size_t chunk =
        request_.prefill_chunk > 0 ? request_.prefill_chunk : core_.parts().prefill_chunk;
    // A chunk ends where the clock starts.
    const std::size_t n_left =
        n_fed() < request_.n_untimed ? request_.n_untimed - n_fed() : session_->n_unfed();
    n_chunk_ = std::min({chunk, max_rows, n_left});
    session_->begin_prefill(n_chunk_);
  }

  void take_chunk(const speculation::ForwardShare& share) {
    const ConstMatrix logits = session_->end_prefill(share);
    n_prefilled_ += n_chunk_;
    prefill_end_us_ = now_us();
    channel_->push(foretoken::PrefillProgress{n_fed(), n_prompt()});
    if (session_->n_unfed() == 0) {
      at_prefill_end_ = mark();
      take_first_token(logits);
    } else if (n_fed() == request_.n_untimed) {
      start_prefill_clock();
    }
  }

  void take_first_token(const ConstMatrix& logits) {
    const Token first = session_->first_token(logits);
    first_token_us_ = now_us();
    at_first_token_ = mark();
    send(output_.take({&first, 1}, 0, logits));
    core_.sample_peak_anonymous_bytes();
  }

  /// What is measured of a phase: its end's values less its start's.
  struct Mark {
    std::int64_t at_us = 0;
    WorkTotals work;
    experts::ExpertStats experts;
  };
  Mark mark() {
    if (!meter_) return {};
    return {now_us(), meter_->totals(), core_.expert_stats()};
  }
  static foretoken::PhaseWork phase(const Mark& start, const Mark& end) {
    foretoken::PhaseWork out = phase_work(end.work.since(start.work));
    out.wall_ms = milliseconds(end.at_us - start.at_us);
    out.experts = experts_between(start.experts, end.experts);
    return out;
  }

  void begin_round(Company company) {
    tracer_.before_round();
    session_->begin_round(request_.max_tokens - output_.n_tokens(), company, stop_);
    is_round_begun_ = true;
    tracer_.begin(*session_);
  }

  void take_round(const speculation::ForwardShare& share) {
    is_round_begun_ = false;
    const RoundReport report = session_->end_round(share);
    count(report);
    tracer_.after_round(*session_, report);
    send(output_.take(session_->tokens().last(report.result.n_committed),
                      report.result.n_accepted,
                      report.result.logits));
  }

  void count(const RoundReport& report) {
    std::vector<SpeculationRecorder::Part> parts;
    for (std::size_t i = 0; i < report.sources.size(); ++i)
      parts.push_back({report.sources[i], report.result.parts[i].n_drafted});
    recorder_.add_round(parts, report.result.n_accepted);
  }

  void send(foretoken::CommittedTokens tokens) {
    if (!tokens.ids.empty() || !tokens.text.empty()) channel_->push(std::move(tokens));
  }

  foretoken::Completion completion(const Session& session) {
    foretoken::Completion out;
    const std::size_t n_tokens = output_.n_tokens();
    out.finish_reason = *output_.finish();
    out.stop = output_.matched_stop();
    out.seed = session.sampling().seed;
    out.usage = {request_.prompt.size(), n_tokens, n_cached_};
    if (meter_ && n_tokens > 0) {
      out.prompt_work = phase(at_prefill_start_, at_prefill_end_);
      out.predicted_work = phase(at_first_token_, mark());
    }
    out.timings = timings(n_tokens);
    out.speculation = recorder_.summary(n_tokens);
    out.speculation.accept = request_.accept;
    if (const auto best = session.best_in_hindsight()) {
      out.speculation.best_fixed = {
          .source = best->source ? std::string(session.source_name(*best->source)) : "",
          .draft_tokens = best->depth,
          .regret = best->regret};
    }
    out.experts = experts_between(at_start_, core_.expert_stats());
    if (core_.parts().has_budget) out.memory.budget_bytes = core_.parts().memory.budget_bytes;
    for (const auto* tier : {&out.experts.trunk, &out.experts.draft}) {
      out.memory.expert_cache_bytes += tier->n_slots * tier->slot_bytes;
    }
    out.memory.peak_anonymous_bytes = core_.sample_peak_anonymous_bytes();
    out.memory.kv_bytes = session.cache_bytes();
    out.memory.draft_kv_bytes = session.draft_cache_bytes();
    return out;
  }

  foretoken::Timings timings(std::size_t n_tokens) const {
    foretoken::Timings out;
    out.load_ms = core_.parts().load_ms;
    out.prompt_n = n_prefilled_;
    out.prompt_ms = milliseconds(prefill_end_us_ - prefill_start_us_);
    out.prompt_per_second = per_second(n_prefilled_, out.prompt_ms);
    out.predicted_n = n_tokens;
    if (n_tokens > 0) {
      out.predicted_ms = milliseconds(now_us() - first_token_us_);
      out.predicted_per_second = per_second(n_tokens - 1, out.predicted_ms);
      out.time_to_first_token_ms = milliseconds(first_token_us_ - submitted_us_);
    }
    return out;
  }

  std::int64_t now_us() const { return core_.parts().clock->now_us(); }

  EngineCore& core_;
  const foretoken::GenerationRequest request_;
  const std::shared_ptr<EventChannel> channel_;
  const std::stop_token stop_;
  const std::int64_t submitted_us_;
  GenerationOutput output_;  // refers to request_
  SpeculationRecorder recorder_;
  RoundTracer tracer_;  // refers to request_
  std::optional<WorkMeter> meter_;
  std::optional<Session> session_;  // from start() to the end
  bool is_over_ = false;
  bool is_round_begun_ = false;
  bool is_timed_out_ = false;
  std::size_t n_cached_ = 0;  // prompt tokens that were there already
  std::size_t n_chunk_ = 0;   // tokens of the running chunk
  experts::ExpertStats at_start_;
  Mark at_prefill_start_;
  Mark at_prefill_end_;
  Mark at_first_token_;
  std::int64_t last_progress_us_ = 0;
  std::size_t n_prefilled_ = 0;
  std::int64_t prefill_start_us_ = 0;
  std::int64_t prefill_end_us_ = 0;
  std::int64_t first_token_us_ = 0;
};

void check_prediction(TokenSpan prediction, const EngineParts& parts) {
  if (prediction.size() > parts.context) {
    fail(
        "the prediction has {} tokens, the context holds {}; shorten the prediction, leave it out "
        "or "
        "raise the context (at most {} for this model)",
        prediction.size(),
        parts.context,
        parts.model->config().max_context);
  }
  if (prediction.size() > parts.max_prediction.value_or(parts.context)) {
    fail(
        "the prediction has {} tokens, max_prediction is {}; shorten the prediction, leave it out "
        "or "
        "open the engine for longer ones",
        prediction.size(),
        *parts.max_prediction);
  }
  check_ids(prediction, "the prediction", parts.model->config().n_vocab);
}

}  // namespace

void check_request(const foretoken::GenerationRequest& request, const EngineParts& parts) {
  check_prompt(request.prompt, parts);
  const std::size_t n_vocab = parts.model->config().n_vocab;
  if (request.max_tokens == 0) fail("max_tokens is 0, expected at least 1");
  if (request.n_untimed >= request.prompt.size()) {
    fail("n_untimed is {}, expected fewer than the {} tokens of the prompt",
         request.n_untimed,
         request.prompt.size());
  }
  if (request.logprobs.value_or(0) > n_vocab) {
    fail(
        "logprobs is {}, expected at most the vocabulary of {} tokens", *request.logprobs, n_vocab);
  }
  if (request.draft_tokens.value_or(0) > speculation::kMaxDraftTokens) {
    fail("draft_tokens is {}, expected 0 to {}",
         *request.draft_tokens,
         speculation::kMaxDraftTokens);
  }
  accept_mode(request.accept);
  if (request.time_limit &&
      (request.time_limit->count() < 1 || *request.time_limit > kLongestTime)) {
    fail("time_limit is {} ms, expected 1 to {} (a year)",
         request.time_limit->count(),
         std::chrono::milliseconds(kLongestTime).count());
  }
  check_prediction(request.prediction, parts);
  if (!request.stop.empty() && parts.text == nullptr) {
    fail("stop strings need text, and the model has no tokenizer.json; leave them out");
  }
  const auto& stops = request.stop;
  if (std::any_of(stops.begin(), stops.end(), [](const auto& stop) { return stop.empty(); })) {
    fail("a stop string is empty; leave it out");
  }
}

void check_prompt(TokenSpan prompt, const EngineParts& parts) {
  if (prompt.empty()) fail("the prompt has no tokens, expected at least one");
  if (prompt.size() > parts.context) {
    fail(
        "the prompt has {} tokens, the context holds {}; shorten the prompt or raise the context "
        "(at most {} for this model)",
        prompt.size(),
        parts.context,
        parts.model->config().max_context);
  }
  check_ids(prompt, "the prompt", parts.model->config().n_vocab);
}

std::unique_ptr<Member> make_generation(EngineCore& core,
                                        foretoken::GenerationRequest request,
                                        std::shared_ptr<EventChannel> channel,
                                        std::int64_t submitted_us) {
  return std::make_unique<Generation>(core, std::move(request), std::move(channel), submitted_us);
}

}  // namespace ft::engine
