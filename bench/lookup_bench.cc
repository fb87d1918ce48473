// What a draft source that looks things up costs per committed token: observe, offer and propose,
// in rounds of four tokens, over a million tokens of text that repeats itself as prose does. Times
// are those of a clock on the wall; longest: the round in which the tables grew most.
#include "base/random.h"
#include "speculation/draft_source.h"
#include "testing/fake_model.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

namespace {

using ft::Token;
using ft::TokenSpan;

constexpr std::size_t kTokens = 1'000'000;
constexpr std::size_t kPerRound = 4;

// Runs of 1 to 16 tokens: every other one is new, the others occurred before.
std::vector<Token> repetitive_text() {
  std::vector<Token> text;
  text.reserve(kTokens + 16);
  for (std::uint64_t i = 0; text.size() < kTokens; ++i) {
    const std::uint64_t bits = ft::noise_bits(7, ft::NoisePurpose::kDraft, i, 0);
    const std::size_t n = 1 + (bits & 15);
    const bool is_copy = (bits >> 8 & 1) != 0 && text.size() > 100;
    const std::size_t from = is_copy ? (bits >> 16) % (text.size() - n) : 0;
    for (std::size_t j = 0; j < n; ++j) {
      const std::uint64_t fresh = ft::noise_bits(8, ft::NoisePurpose::kDraft, 16 * i + j, 0);
      text.push_back(is_copy ? text[from + j] : static_cast<Token>(fresh % 20'000));
    }
  }
  text.resize(kTokens);
  return text;
}

void lookup(benchmark::State& state, std::string_view name) {
  const std::vector<Token> text = repetitive_text();
  const ft::testing::FakeModel model(ft::testing::FakeModelOptions{});
  const auto provider = ft::speculation::make_draft_provider(name, model);
  using Clock = std::chrono::steady_clock;
  Clock::duration longest{};
  for (auto _ : state) {
    const auto source = provider->open(
        {.model = &model, .cache_options = {}, .prediction = TokenSpan(text).first(kTokens / 4)});
    Clock::time_point start = Clock::now();
    for (std::size_t n = kPerRound; n <= kTokens; n += kPerRound) {
      source->observe({.sequence = TokenSpan(text).first(n),
                       .n_prompt = 1,
                       .n_same = n - kPerRound,
                       .taps = {}});
      if (source->offer(8)->n_tokens > 0) {
        benchmark::DoNotOptimize(source->propose({.max_tokens = 8}, {}));
      }
      const Clock::time_point end = Clock::now();
      longest = std::max(longest, end - start);
      start = end;
    }
  }
  state.counters["per_token"] = benchmark::Counter(
      static_cast<double>(kTokens),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["longest"] = std::chrono::duration<double>(longest).count();
}

BENCHMARK_CAPTURE(lookup, ngram, "ngram")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(lookup, suffix, "suffix")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(lookup, prediction, "prediction")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
