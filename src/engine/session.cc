#include "engine/session.h"

#include "base/error.h"
#include "speculation/prefill.h"

#include <algorithm>
#include <utility>

namespace ft::engine {
namespace {

constexpr std::string_view kPrediction = "prediction";

std::vector<std::unique_ptr<speculation::DraftSource>> open_sources(
    EngineCore& core,
    const std::vector<std::string>& names,
    const speculation::SourceContext& context) {
  std::vector<std::unique_ptr<speculation::DraftSource>> out;
  for (const std::string& name :
       resolve_sources(names, source_names(core.parts()), !context.prediction.empty())) {
    out.push_back(core.provider(name).open(context));
  }
  return out;
}

}  // namespace

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
    : sampler_(std::move(options.sampling), core.model().config().n_vocab),
      cache_(core.model().new_cache(core.parts().cache_options())),
      sources_(open_sources(core,
                            options.sources,
                            {.model = &core.model(),
                             .sampler = &sampler_,
                             .cache_options = core.parts().cache_options(),
                             .prediction = options.prediction,
                             .history_tokens = core.parts().history_tokens,
                             .meter = options.meter})),
      planner_(sources_.size(), {.fixed_depth = options.draft_tokens}) {
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
  core.workspace().set_meter(options.meter);
}

void Session::begin(TokenSpan prompt) {
  FT_CHECK(tokens_.empty() && !prompt.empty() && prompt.size() <= cache_->max_tokens());
  tokens_.assign(prompt.begin(), prompt.end());
  state_.n_prompt = prompt.size();
}

ConstMatrix Session::prefill(std::size_t chunk, const std::stop_token& stop) {
  const std::size_t n = std::min(chunk, n_unfed());
  return speculation::prefill_chunk(state_, n, stop).logits;
}

Token Session::first_token(ConstMatrix logits) {
  return speculation::first_token(state_, logits);
}

RoundReport Session::round(std::size_t tokens_left, const std::stop_token& stop) {
  FT_CHECK(tokens_left > 0 && has_room());
  const std::size_t n_free = cache_->max_tokens() - cache_->length();
  // The round's own token comes free: it needs neither a draft nor, yet, a position.
  const std::size_t max_drafts = std::min(tokens_left - 1, n_free - 1);
  offers_.clear();
  for (const auto& source : sources_) offers_.push_back(source->offer(max_drafts));
  const speculation::PlanInputs inputs{
      .max_drafts = max_drafts, .context = cache_->length(), .offers = offers_};
  RoundReport report;
  report.plan = planner_.plan(inputs);
  report.baseline_us = planner_.baseline_us(inputs);
  std::vector<speculation::Proposer> proposers;
  for (const speculation::RoundPlan::Part& part : report.plan.parts) {
    proposers.push_back({source_views_[part.source], part.depth});
    report.sources.push_back(proposers.back().source->name());
  }
  const bool wants_hint = store_ != nullptr && max_drafts > 0 && store_->begin_round();
  state_.hinter = wants_hint ? source_views_.front() : nullptr;
  report.result = speculation::decode_round(state_, proposers, stop);
  if (store_ != nullptr) store_->end_round();
  planner_.record(report.plan, speculation::outcome_of(report.result));
  return report;
}

std::size_t Session::draft_cache_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& source : sources_) {
    if (const cache::KvCache* cache = source->cache()) bytes += cache->used_bytes();
  }
  return bytes;
}

}  // namespace ft::engine
