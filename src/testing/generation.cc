#include "testing/generation.h"

#include "base/error.h"
#include "speculation/prefill.h"

#include <algorithm>

namespace ft::testing {

Generation::Generation(const FakeModel& model, GenerationOptions options)
    : model_(model),
      options_(std::move(options)),
      sampler_(options_.sampling, model.config().n_vocab),
      cache_(model.new_cache({.max_tokens = options_.cache_tokens})),
      workspace_(model.new_workspace()),
      tokens_(options_.prompt) {
  state_ = {.model = &model_,
            .workspace = workspace_.get(),
            .cache = cache_.get(),
            .tokens = &tokens_,
            .n_prompt = options_.prompt.size(),
            .sampler = &sampler_,
            .sources = {},
            .stop_tokens = model.config().eos_tokens,
            .clock = &clock_};
}

speculation::DraftSource& Generation::add_source(std::string_view name) {
  const auto provider = speculation::make_draft_provider(name, model_);
  owned_.push_back(provider->open({.model = &model_,
                                   .sampler = &sampler_,
                                   .cache_options = {.max_tokens = options_.cache_tokens},
                                   .prediction = options_.prediction}));
  add_source(*owned_.back());
  return *owned_.back();
}

void Generation::add_source(speculation::DraftSource& source) {
  sources_.push_back(&source);
  state_.sources = sources_;
}

void Generation::prefill() {
  speculation::PrefillResult chunk;
  while (cache_->length() < tokens_.size()) {
    const std::size_t n = std::min(options_.prefill_chunk, tokens_.size() - cache_->length());
    chunk = speculation::prefill_chunk(state_, n, {});
  }
  speculation::first_token(state_, chunk.logits);
}

speculation::RoundResult Generation::round(speculation::DraftSource* proposer, std::size_t depth) {
  std::vector<speculation::Proposer> proposers;
  if (proposer != nullptr) proposers.push_back({proposer, depth});
  return round(proposers);
}

speculation::RoundResult Generation::round(std::span<const speculation::Proposer> proposers) {
  const std::size_t n_before = tokens_.size();
  speculation::RoundResult result = speculation::decode_round(state_, proposers, {});
  n_accepted_ += result.n_accepted;
  ++n_rounds_;
  FT_CHECK(tokens_.size() == n_before + result.n_committed);
  FT_CHECK(result.logits.n_rows == result.n_committed);
  for (std::size_t i = 0; i < result.n_committed; ++i) {
    const std::vector<float> expected = model_.logits_after(TokenSpan(tokens_).first(n_before + i));
    const std::span<const float> row = result.logits.row(i);
    FT_CHECK(std::equal(row.begin(), row.end(), expected.begin(), expected.end()));
  }
  return result;
}

bool Generation::is_done() const {
  return tokens_.size() >= options_.prompt.size() + options_.max_tokens ||
         tokens_.back() == model_.config().eos_tokens.front();
}

const std::vector<Token>& Generation::run(const Chooser& choose) {
  prefill();
  while (!is_done()) {
    const auto [source, depth] = choose(n_rounds_);
    const std::size_t n_left = options_.prompt.size() + options_.max_tokens - tokens_.size();
    round(source < 0 ? nullptr : sources_.at(static_cast<std::size_t>(source)),
          std::min(depth, n_left - 1));
  }
  return tokens_;
}

const std::vector<Token>& Generation::run_windows(const WindowChooser& choose) {
  prefill();
  while (!is_done()) {
    std::size_t n_left = options_.prompt.size() + options_.max_tokens - tokens_.size() - 1;
    std::vector<speculation::Proposer> proposers;
    for (const auto& [source, depth] : choose(n_rounds_)) {
      proposers.push_back({sources_.at(source), std::min(depth, n_left)});
      n_left -= proposers.back().max_drafts;
    }
    round(proposers);
  }
  return tokens_;
}

std::vector<Token> generate_plainly(const FakeModel& model, const GenerationOptions& options) {
  sampling::Sampler sampler(options.sampling, model.config().n_vocab);
  std::vector<Token> tokens = options.prompt;
  while (tokens.size() < options.prompt.size() + options.max_tokens) {
    tokens.push_back(sampler.pick(model.logits_after(tokens), {tokens, options.prompt.size()}));
    if (tokens.back() == model.config().eos_tokens.front()) break;
  }
  return tokens;
}

}  // namespace ft::testing
