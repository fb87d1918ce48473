#include "sampling/sampler.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::sampling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

// Logits of `n` tokens, spread over about `width`, the same for the same seed.
std::vector<float> some_logits(std::size_t n, double width, std::uint64_t seed) {
  std::vector<float> logits(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = noise_uniform(seed, NoisePurpose::kDraft, 0, static_cast<std::uint32_t>(i));
    logits[i] = static_cast<float>(-width * std::log(u) / 4);
  }
  return logits;
}

std::vector<float> law(const SamplingParams& params,
                       std::span<const float> logits,
                       const History& history = {}) {
  std::vector<float> out(logits.size());
  Sampler(params, logits.size()).probabilities(logits, history, out);
  return out;
}

std::string error_of(const SamplingParams& params, std::size_t n_vocab = 10) {
  try {
    Sampler sampler(params, n_vocab);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

// The law and the draw again, in the plainest way: everything sorted, every token's noise computed.
struct Reference {
  std::vector<double> scores;  // -inf: filtered

  Reference(const SamplingParams& params, std::span<const float> logits) : scores(logits.size()) {
    const float best = *std::max_element(logits.begin(), logits.end());
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return logits[a] > logits[b];
    });
    const double inverse = 1 / static_cast<double>(params.temperature);
    const auto score = [&](std::size_t id) {
      return (static_cast<double>(logits[id]) - static_cast<double>(best)) * inverse;
    };
    if (params.top_k > 0) order.resize(std::min(params.top_k, order.size()));
    double total = 0;
    for (const std::size_t id : order) total += std::exp(score(id));
    std::fill(scores.begin(), scores.end(), -HUGE_VAL);
    double mass = 0;
    for (const std::size_t id : order) {
      if (params.top_p < 1 && mass >= static_cast<double>(params.top_p) * total) break;
      mass += std::exp(score(id));
      if (std::exp(score(id)) >= static_cast<double>(params.min_p)) scores[id] = score(id);
    }
  }

  Token draw(std::uint64_t seed, std::uint64_t position) const {
    std::size_t winner = scores.size();
    double best = -HUGE_VAL;
    for (std::size_t id = 0; id < scores.size(); ++id) {
      const double u =
          noise_uniform(seed, NoisePurpose::kTarget, position, static_cast<std::uint32_t>(id));
      const double noisy = scores[id] - std::log(-std::log(u));
      if (noisy > best) {
        best = noisy;
        winner = id;
      }
    }
    return static_cast<Token>(winner);
  }
};

TEST(Sampler_Greedy, PicksTheHighestLogit) {
  Sampler sampler(greedy(), 4);
  EXPECT_EQ(sampler.pick(std::vector<float>{-3, -1, -2, -8}, {}), 1);
}

TEST(Sampler_Greedy, TiesGoToTheLowestId) {
  Sampler sampler(greedy(), 5);
  EXPECT_EQ(sampler.pick(std::vector<float>{1, 7, 3, 7, 7}, {}), 1);
  EXPECT_EQ(sampler.pick(std::vector<float>{0, -0.0f, 0, 0, 0}, {}), 0);
}

TEST(Sampler_Greedy, IgnoresFiltersAndSeed) {
  SamplingParams params = greedy();
  params.top_k = 3;
  params.top_p = 0.5f;
  params.min_p = 0.2f;
  params.seed = 99;
  const std::vector<float> logits = {1, 2, 5, 4};
  EXPECT_EQ(Sampler(params, 4).pick(logits, {}), 2);
  EXPECT_THAT(law(params, logits), ElementsAre(0, 0, 1, 0));
}

TEST(Sampler_Greedy, NeverPicksMinusInfinity) {
  Sampler sampler(greedy(), 3);
  EXPECT_EQ(sampler.pick(std::vector<float>{-kInf, -kInf, -5}, {}), 2);
}

TEST(Sampler_BadLogits, NanAndInfinityAreErrorsThatNameTheToken) {
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    Sampler sampler(params, 3);
    for (const float bad : {kNan, kInf}) {
      try {
        sampler.pick(std::vector<float>{9, 1, bad}, {});
        FAIL() << "no error for " << bad;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("token 2"));
      }
    }
  }
}

TEST(Sampler_Greedy, LooksAtEveryTokenOfALargeVocabulary) {
  for (const std::size_t n : {std::size_t{64}, std::size_t{200}}) {
    for (std::size_t best = 0; best < n; ++best) {
      std::vector<float> logits(n, -kInf);
      logits[best] = -3;
      logits[n - 1] = std::max(logits[n - 1], -4.0f);
      EXPECT_EQ(Sampler(greedy(), n).pick(logits, {}), static_cast<Token>(best));
      logits.assign(n, 5);
      logits[best] = kNan;
      EXPECT_THROW(Sampler(greedy(), n).pick(logits, {}), Error) << best << " of " << n;
    }
  }
}

TEST(Sampler_BadLogits, NothingLeftIsInvalidInput) {
  Sampler sampler(SamplingParams{}, 2);
  EXPECT_THROW(sampler.pick(std::vector<float>{-kInf, -kInf}, {}), InvalidInput);
}

TEST(Sampler_Params, ErrorsNameParameterValueAndRange) {
  const auto with = [](auto change) {
    SamplingParams params;
    change(params);
    return error_of(params);
  };
  using P = SamplingParams;
  EXPECT_EQ(with([](P& p) { p.temperature = -1; }),
            "sampling: temperature is -1, expected a finite number >= 0");
  EXPECT_THAT(with([](P& p) { p.temperature = kNan; }), HasSubstr("temperature is nan"));
  EXPECT_THAT(with([](P& p) { p.temperature = kInf; }), HasSubstr("temperature is inf"));
  EXPECT_THAT(with([](P& p) { p.top_p = 0; }), HasSubstr("top_p is 0, expected"));
  EXPECT_THAT(with([](P& p) { p.top_p = 1.5f; }), HasSubstr("top_p is 1.5"));
  EXPECT_THAT(with([](P& p) { p.top_p = kNan; }), HasSubstr("top_p is nan"));
  EXPECT_THAT(with([](P& p) { p.min_p = -0.5f; }), HasSubstr("min_p is -0.5"));
  EXPECT_THAT(with([](P& p) { p.min_p = 2; }), HasSubstr("min_p is 2"));
  EXPECT_THAT(with([](P& p) { p.repetition_penalty = 0; }), HasSubstr("repetition_penalty is 0"));
  EXPECT_THAT(with([](P& p) { p.repetition_penalty = kInf; }),
              HasSubstr("repetition_penalty is inf"));
  EXPECT_THAT(with([](P& p) { p.presence_penalty = kNan; }), HasSubstr("presence_penalty is nan"));
  EXPECT_THAT(with([](P& p) { p.frequency_penalty = -kInf; }),
              HasSubstr("frequency_penalty is -inf"));
  EXPECT_EQ(with([](P& p) {
              p.logit_bias = {{10, 1}};
            }),
            "sampling: logit_bias names token 10, expected 0 ... 9");
  EXPECT_THAT(with([](P& p) { p.logit_bias = {{-1, 1}}; }), HasSubstr("names token -1"));
  EXPECT_THAT(with([](P& p) { p.logit_bias = {{3, kNan}}; }), HasSubstr("token 3 is nan"));
  EXPECT_THAT(with([](P& p) { p.logit_bias = {{3, kInf}}; }), HasSubstr("token 3 is inf"));
  EXPECT_EQ(with([](P& p) { p.logit_bias = {{9, -kInf}}; }), "no error");
}

TEST(Sampler_Penalties, FollowTheirFormulas) {
  // Prompt 0 1, output 1 2 2. Token 3 is not in the history.
  const std::vector<Token> tokens = {0, 1, 1, 2, 2};
  const History history{tokens, 2};
  SamplingParams params;
  params.repetition_penalty = 2;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  params.logit_bias = {{0, 1.0f}, {3, -0.5f}, {3, -0.5f}};
  const std::vector<float> logits = {3, -1, 4, 2};
  // 0: (3 + 1) / 2. 1: -1 * 2 - .5 - .25. 2: 4 / 2 - .5 - 2 * .25. 3: 2 - 1.
  const std::vector<double> expected = {2, -2.75, 1, 1};
  double total = 0;
  for (const double logit : expected) total += std::exp(logit);
  const std::vector<float> got = law(params, logits, history);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(got[i], static_cast<float>(std::exp(expected[i]) / total)) << i;
  }
}

TEST(Sampler_Penalties, ChangeTheGreedyChoiceAndLeaveNoTrace) {
  SamplingParams params = greedy();
  params.frequency_penalty = 1;
  Sampler sampler(params, 3);
  const std::vector<float> logits = {1, 2.5f, 2};
  const std::vector<Token> once = {1};
  EXPECT_EQ(sampler.pick(logits, {once, 0}), 2);
  EXPECT_EQ(sampler.pick(logits, {once, 1}), 1) << "the prompt is not penalised by frequency";
  EXPECT_EQ(sampler.pick(logits, {}), 1);
}

TEST(Sampler_Penalties, RepetitionCountsThePromptToo) {
  SamplingParams params = greedy();
  params.repetition_penalty = 2;
  const std::vector<Token> prompt = {1};
  EXPECT_EQ(Sampler(params, 3).pick(std::vector<float>{1, 2.5f, 2}, {prompt, 1}), 2);
}

TEST(Sampler_Penalties, ThatOverflowAreTheCallersFault) {
  SamplingParams params = greedy();
  params.presence_penalty = -3e38f;
  params.frequency_penalty = -3e38f;
  const std::vector<Token> history = {1};
  try {
    Sampler(params, 3).pick(std::vector<float>{1, 2, 3}, {history, 0});
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("turn the logit 2 of token 1 into inf"));
  }
}

TEST(Sampler_Bias, MinusInfinityBans) {
  SamplingParams params;
  params.logit_bias = {{1, -kInf}};
  Sampler sampler(params, 2);
  for (std::size_t position = 0; position < 50; ++position) {
    const std::vector<Token> tokens(position, 0);
    EXPECT_EQ(sampler.pick(std::vector<float>{0, 20}, {tokens, 0}), 0);
  }
  EXPECT_THAT(law(params, std::vector<float>{0, 20}), ElementsAre(1, 0));
}

TEST(Sampler_Filters, TopKKeepsTheBestAndTheLowestIdsAmongEquals) {
  SamplingParams params;
  params.top_k = 2;
  EXPECT_THAT(law(params, std::vector<float>{1, 5, 5, 5}), ElementsAre(0, 0.5f, 0.5f, 0));
  params.top_k = 1;
  EXPECT_THAT(law(params, std::vector<float>{1, 5, 5, 5}), ElementsAre(0, 1, 0, 0));
  params.top_k = 9;
  EXPECT_THAT(law(params, std::vector<float>{5, 5, 5, 5}), ElementsAre(0.25f, 0.25f, 0.25f, 0.25f));
}

TEST(Sampler_Filters, TopPKeepsTheFewestThatHoldTheMass) {
  // Probabilities 8/16, 4/16, 2/16, 1/16, 1/16.
  const float l = std::log(2.0f);
  const std::vector<float> logits = {0, 3 * l, l, 0, 2 * l};
  const auto n_kept = [&](float top_p) {
    SamplingParams params;
    params.top_p = top_p;
    const std::vector<float> p = law(params, logits);
    return std::count_if(p.begin(), p.end(), [](float x) { return x > 0; });
  };
  EXPECT_EQ(n_kept(1e-6f), 1);
  EXPECT_EQ(n_kept(0.49f), 1);
  EXPECT_EQ(n_kept(0.51f), 2);
  EXPECT_EQ(n_kept(0.76f), 3);
  EXPECT_EQ(n_kept(0.88f), 4);
  EXPECT_EQ(n_kept(0.99f), 5);
  SamplingParams params;
  params.top_p = 0.9f;
  EXPECT_EQ(law(params, logits)[3], 0) << "of two equal tokens the lower id stays";
}

TEST(Sampler_Filters, TopPLooksAtWhatTopKLeft) {
  const float l = std::log(2.0f);
  SamplingParams params;
  params.top_k = 2;
  params.top_p = 0.6f;  // of 2/3 and 1/3: the first alone
  EXPECT_THAT(law(params, std::vector<float>{2 * l, l, l, l, l, l}), ElementsAre(1, 0, 0, 0, 0, 0));
}

TEST(Sampler_Filters, MinPIsAShareOfTheBest) {
  const float l = std::log(2.0f);
  SamplingParams params;
  params.min_p = 0.24f;
  const std::vector<float> p = law(params, std::vector<float>{0, -l, -2 * l, -3 * l});
  EXPECT_GT(p[2], 0);
  EXPECT_EQ(p[3], 0);
  params.min_p = 1;
  EXPECT_THAT(law(params, std::vector<float>{2, 2, 1}), ElementsAre(0.5f, 0.5f, 0));
}

TEST(Sampler_Law, TinyTemperatureIsGreedyWithoutOverflow) {
  SamplingParams params;
  params.temperature = std::numeric_limits<float>::denorm_min();
  const std::vector<float> logits = {-1e30f, 3e38f, 2.9e38f};
  EXPECT_EQ(Sampler(params, 3).pick(logits, {}), 1);
  EXPECT_THAT(law(params, logits), ElementsAre(0, 1, 0));
}

struct LawCase {
  const char* name;
  float temperature;
  std::size_t top_k;
  float top_p;
  float min_p;
};

class SamplerLaw : public ::testing::TestWithParam<LawCase> {
 protected:
  SamplingParams params() const {
    SamplingParams params;
    params.temperature = GetParam().temperature;
    params.top_k = GetParam().top_k;
    params.top_p = GetParam().top_p;
    params.min_p = GetParam().min_p;
    params.seed = 7;
    return params;
  }
};

// Chi-square of 20,000 picks at as many positions against probabilities(). The bound is the mean
// plus six standard deviations of the statistic's law; the seeds are fixed.
TEST_P(SamplerLaw, PickFollowsProbabilities) {
  const std::vector<float> logits = some_logits(12, 3, 5);
  Sampler sampler(params(), logits.size());
  std::vector<float> p(logits.size());
  sampler.probabilities(logits, {}, p);
  EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-6);

  constexpr std::size_t kDraws = 20000;
  std::vector<std::size_t> counts(logits.size());
  const std::vector<Token> tokens(kDraws, 0);
  for (std::size_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(sampler.pick(logits, {TokenSpan(tokens).first(i), i}))];
  }
  double chi_square = 0;
  double n_cells = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0u) << "filtered token " << i;
      continue;
    }
    const double expected = static_cast<double>(p[i]) * kDraws;
    const double difference = static_cast<double>(counts[i]) - expected;
    chi_square += difference * difference / expected;
    ++n_cells;
  }
  const double degrees = std::max(n_cells - 1, 1.0);
  EXPECT_LT(chi_square, degrees + 6 * std::sqrt(2 * degrees));
}

// Sizes around a trained model's: the fast paths must choose what the plain algorithm chooses.
TEST_P(SamplerLaw, EqualsTheReferenceOnALargeVocabulary) {
  for (const double width : {0.0, 0.5, 4.0, 40.0}) {
    const std::vector<float> logits = some_logits(1500, width, 11);
    Sampler sampler(params(), logits.size());
    const Reference reference(params(), logits);
    const std::vector<float> p = law(params(), logits);
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const double score = reference.scores[id];
      if (score < -80 && std::isfinite(score)) continue;  // too small for a float
      ASSERT_EQ(p[id] > 0, std::isfinite(score)) << "id " << id << " width " << width;
    }
    const std::vector<Token> tokens(40, 0);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(sampler.pick(logits, {TokenSpan(tokens).first(i), i}),
                reference.draw(params().seed, i))
          << "position " << i << " width " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Filters,
                         SamplerLaw,
                         ::testing::Values(LawCase{"Plain", 1, 0, 1, 0},
                                           LawCase{"Cold", 0.5f, 0, 1, 0},
                                           LawCase{"Hot", 2, 0, 1, 0},
                                           LawCase{"TopK", 1, 4, 1, 0},
                                           LawCase{"TopP", 1, 0, 0.8f, 0},
                                           LawCase{"MinP", 1, 0, 1, 0.1f},
                                           LawCase{"TopKTopP", 1, 7, 0.9f, 0},
                                           LawCase{"All", 1.5f, 7, 0.95f, 0.05f}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(Sampler_Noise, DependsOnSeedPositionAndPurposeOnly) {
  const std::vector<float> logits(16, 0.0f);
  const std::vector<Token> zeros(200, 0);
  const std::vector<Token> ones(200, 1);
  const auto stream = [&](std::uint64_t seed, NoisePurpose purpose, TokenSpan tokens) {
    SamplingParams params;
    params.seed = seed;
    Sampler sampler(params, logits.size());
    std::vector<Token> picks;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      picks.push_back(sampler.pick(logits, {tokens.first(i), 0}, purpose));
    }
    return picks;
  };
  const auto n_equal = [](const std::vector<Token>& a, const std::vector<Token>& b) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < a.size(); ++i) n += a[i] == b[i] ? 1 : 0;
    return n;
  };
  const std::vector<Token> base = stream(1, NoisePurpose::kTarget, zeros);
  EXPECT_EQ(base, stream(1, NoisePurpose::kTarget, zeros));
  EXPECT_EQ(base, stream(1, NoisePurpose::kTarget, ones)) << "what the tokens are is no key";
  // Independent streams agree in 200 / 16 places, give or take 3.4.
  EXPECT_LT(n_equal(base, stream(2, NoisePurpose::kTarget, zeros)), 30u);
  EXPECT_LT(n_equal(base, stream(1, NoisePurpose::kDraft, zeros)), 30u);
  std::vector<Token> shifted(base.begin() + 1, base.end());
  shifted.push_back(0);
  EXPECT_LT(n_equal(base, shifted), 30u) << "position must be a key";
}

}  // namespace
}  // namespace ft::sampling
