#include "testing/chain_trials.h"

#include "base/error.h"
#include "base/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

namespace ft::testing {
namespace {

constexpr std::size_t kVocab = 8;
constexpr std::size_t kText = 3;
constexpr std::array<Token, 2> kPrompt = {5, 2};

using Law = std::vector<float>;
using Counts = std::vector<std::uint64_t>;

// Logits after a token. The drafter has the target's, disturbed.
class Chain {
 public:
  Chain() {
    for (std::size_t last = 0; last < kVocab; ++last) {
      for (std::size_t id = 0; id < kVocab; ++id) {
        const auto number = [&](std::uint64_t stream) {
          return noise_uniform(
              19, NoisePurpose::kDraft, stream, static_cast<std::uint32_t>(last * kVocab + id));
        };
        target_[last][id] = static_cast<float>(3 * number(0));
        drafter_[last][id] = static_cast<float>(1.5 * number(0) + 2 * number(1));
      }
    }
  }
  std::span<const float> target(Token last) const {
    return target_[static_cast<std::size_t>(last)];
  }
  std::span<const float> drafter(Token last) const {
    return drafter_[static_cast<std::size_t>(last)];
  }
  // Mostly a likely token, not always the best.
  static Token fixed_draft(Token last) { return static_cast<Token>((3 * last + 1) % 8); }

 private:
  std::array<std::array<float, kVocab>, kVocab> target_{};
  std::array<std::array<float, kVocab>, kVocab> drafter_{};
};

class Text {
 public:
  Text(const ChainTrials& trials, const Chain& chain, std::uint64_t index)
      : trials_(trials), chain_(chain), sampler_(params(trials.sampling, index), kVocab) {}

  sampling::Verdict round() {
    propose();
    std::vector<float> rows;
    for (std::size_t i = tokens_.size() - 1 - n_drafts(); i < tokens_.size(); ++i) {
      const std::span<const float> row = chain_.target(tokens_[i]);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const std::size_t n_committed = tokens_.size() - n_drafts();
    std::vector<std::span<const float>> laws(laws_.begin(), laws_.end());
    const ChainWindow window{
        {TokenSpan(tokens_).first(n_committed), kPrompt.size()},
        {.tokens = TokenSpan(tokens_).subspan(n_committed), .laws = laws, .attempt = attempt()},
        {rows.data(), n_drafts() + 1, kVocab, kVocab}};
    const sampling::Verdict verdict =
        trials_.judge ? trials_.judge(window, sampler_)
                      : sampling::verify_rejection(
                            window.committed, window.drafts, window.target_logits, {}, sampler_);
    tokens_.resize(n_committed + verdict.n_accepted);
    tokens_.push_back(verdict.next);
    ++n_rounds_;
    return verdict;
  }

  TokenSpan output() const { return TokenSpan(tokens_).subspan(kPrompt.size()); }

 private:
  static sampling::SamplingParams params(sampling::SamplingParams of, std::uint64_t index) {
    of.seed += index;
    return of;
  }
  std::size_t n_drafts() const { return laws_.size(); }
  std::uint64_t attempt() const { return trials_.forgets_attempt ? 0 : n_rounds_; }

  bool is_fixed(std::size_t i) const {
    switch (trials_.drafting) {
      case Drafting::kSampled:
      case Drafting::kUntold:
        return false;
      case Drafting::kDeterministic:
        return true;
      case Drafting::kMixed:
        return (i + n_rounds_) % 2 == 0;
    }
    return false;
  }

  // Drafts behind the committed tokens, and their laws.
  void propose() {
    laws_.clear();
    for (std::size_t i = 0; i < trials_.n_drafts; ++i) {
      Law& law = laws_.emplace_back();
      if (is_fixed(i)) {
        tokens_.push_back(Chain::fixed_draft(tokens_.back()));
        continue;
      }
      const std::span<const float> logits = chain_.drafter(tokens_.back());
      const sampling::History history{tokens_, kPrompt.size()};
      if (trials_.drafting != Drafting::kUntold) law.resize(kVocab);
      if (trials_.has_raw_laws) {
        sampling::SamplingParams raw;
        raw.temperature = trials_.sampling.temperature;
        sampling::Sampler(raw, kVocab).probabilities(logits, history, law);
      } else if (!law.empty()) {
        sampler_.probabilities(logits, history, law);
      }
      tokens_.push_back(sampler_.pick(logits, history, NoisePurpose::kDraft, attempt()));
    }
  }

  const ChainTrials& trials_;
  const Chain& chain_;
  sampling::Sampler sampler_;
  std::vector<Token> tokens_{kPrompt.begin(), kPrompt.end()};
  std::vector<Law> laws_;
  std::uint64_t n_rounds_ = 0;
};

// The law of what follows an output, in the plainest way.
class Expected {
 public:
  Expected(const ChainTrials& trials, const Chain& chain)
      : chain_(chain), sampler_(trials.sampling, kVocab) {}

  std::vector<double> target(TokenSpan output) { return law(output, true); }
  std::vector<double> drafter(TokenSpan output) { return law(output, false); }

  // Of all texts of kText tokens, the first token the highest digit.
  std::vector<double> texts() {
    std::vector<double> out;
    std::vector<Token> output;
    add_texts(output, 1, out);
    return out;
  }

 private:
  std::vector<double> law(TokenSpan output, bool is_target) {
    std::vector<Token> tokens(kPrompt.begin(), kPrompt.end());
    tokens.insert(tokens.end(), output.begin(), output.end());
    Law out(kVocab);
    sampler_.probabilities(is_target ? chain_.target(tokens.back()) : chain_.drafter(tokens.back()),
                           {tokens, kPrompt.size()},
                           out);
    return {out.begin(), out.end()};
  }
  void add_texts(std::vector<Token>& output, double probability, std::vector<double>& out) {
    if (output.size() == kText) {
      out.push_back(probability);
      return;
    }
    const std::vector<double> next = target(output);
    for (std::size_t id = 0; id < kVocab; ++id) {
      output.push_back(static_cast<Token>(id));
      add_texts(output, probability * next[id], out);
      output.pop_back();
    }
  }

  const Chain& chain_;
  sampling::Sampler sampler_;
};

double expected_acceptance(const ChainTrials& trials, Expected& expected) {
  const std::vector<double> p = expected.target({});
  const std::vector<double> q = expected.drafter({});
  double out = 0;
  for (std::size_t id = 0; id < kVocab; ++id) {
    switch (trials.drafting) {
      case Drafting::kSampled:
        out += std::min(p[id], q[id]);
        break;
      case Drafting::kUntold:
        out += p[id] * q[id];
        break;
      case Drafting::kDeterministic:
      case Drafting::kMixed:
        break;
    }
  }
  const bool is_fixed =
      trials.drafting == Drafting::kDeterministic || trials.drafting == Drafting::kMixed;
  return is_fixed ? p[static_cast<std::size_t>(Chain::fixed_draft(kPrompt.back()))] : out;
}

}  // namespace

ChainLaws run(const ChainTrials& trials) {
  const Chain chain;
  Counts first(kVocab);
  Counts texts(kVocab * kVocab * kVocab);
  // By the output of round 1, whose length says how many of its drafts were accepted.
  std::map<std::vector<Token>, Counts> second_rounds;
  ChainLaws out;
  for (std::size_t index = 0; index < trials.n_texts; ++index) {
    Text text(trials, chain, index);
    if (text.round().n_accepted > 0) ++out.n_first_accepted;
    const std::vector<Token> round_1(text.output().begin(), text.output().end());
    text.round();
    while (text.output().size() < kText) text.round();
    const TokenSpan output = text.output();
    ++first[static_cast<std::size_t>(output[0])];
    std::size_t cell = 0;
    for (std::size_t i = 0; i < kText; ++i)
      cell = cell * kVocab + static_cast<std::size_t>(output[i]);
    ++texts[cell];
    Counts& group = second_rounds[round_1];
    group.resize(kVocab);
    ++group[static_cast<std::size_t>(output[round_1.size()])];
  }
  Expected expected(trials, chain);
  out.first.add(first, expected.target({}));
  out.text.add(texts, expected.texts());
  for (const auto& [round_1, counts] : second_rounds) {
    out.second_round.add(counts, expected.target(round_1));
  }
  out.first_acceptance = expected_acceptance(trials, expected);
  return out;
}

std::vector<ChainTrials> right_chain_trials(std::size_t n_texts) {
  sampling::SamplingParams plain;
  sampling::SamplingParams top_k;
  top_k.top_k = 3;
  sampling::SamplingParams top_p;
  top_p.top_p = 0.7F;
  sampling::SamplingParams min_p;
  min_p.min_p = 0.2F;
  sampling::SamplingParams all = {.temperature = 0.8F,
                                  .top_k = 6,
                                  .top_p = 0.9F,
                                  .min_p = 0.05F,
                                  .repetition_penalty = 1.2F,
                                  .presence_penalty = 0.3F,
                                  .frequency_penalty = 0.4F,
                                  .logit_bias = {{3, 1.0F}, {6, -0.5F}}};
  std::vector<ChainTrials> out;
  const auto add = [&](const char* name,
                       const sampling::SamplingParams& sampling,
                       std::size_t n_drafts,
                       Drafting drafting) {
    out.push_back({.name = name,
                   .sampling = sampling,
                   .n_drafts = n_drafts,
                   .drafting = drafting,
                   .n_texts = n_texts});
    out.back().sampling.seed = out.size() * 100'000'000;
  };
  add("sampled_1", plain, 1, Drafting::kSampled);
  add("sampled_2", plain, 2, Drafting::kSampled);
  add("sampled_3", plain, 3, Drafting::kSampled);
  add("sampled_4", plain, 4, Drafting::kSampled);
  add("deterministic_1", plain, 1, Drafting::kDeterministic);
  add("deterministic_3", plain, 3, Drafting::kDeterministic);
  add("untold_2", plain, 2, Drafting::kUntold);
  add("mixed_2", plain, 2, Drafting::kMixed);
  add("mixed_4", plain, 4, Drafting::kMixed);
  add("top_k", top_k, 2, Drafting::kSampled);
  add("top_p", top_p, 3, Drafting::kMixed);
  add("min_p", min_p, 2, Drafting::kSampled);
  add("all_sampled", all, 3, Drafting::kSampled);
  add("all_mixed", all, 4, Drafting::kMixed);
  add("all_deterministic", all, 2, Drafting::kDeterministic);
  return out;
}

}  // namespace ft::testing
