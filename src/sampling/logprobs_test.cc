#include "base/error.h"
#include "base/random.h"
#include "sampling/sampler.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace ft::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> some_logits(std::size_t n) {
  std::vector<float> logits(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = noise_uniform(3, NoisePurpose::kDraft, 0, static_cast<std::uint32_t>(i));
    logits[i] = static_cast<float>(20 * u - 5);
  }
  return logits;
}

long double exact_logprob(std::span<const float> logits, std::size_t id) {
  long double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<long double>(logit) - 15);
  return static_cast<long double>(logits[id]) - 15 - std::log(total);
}

TEST(Logprobs, AreTheCorrectlyRoundedSoftmax) {
  const std::vector<float> logits = some_logits(2000);
  for (std::size_t id = 0; id < logits.size(); id += 37) {
    EXPECT_EQ(token_logprob(logits, static_cast<Token>(id)),
              static_cast<float>(exact_logprob(logits, id)))
        << "id " << id;
  }
}

TEST(Logprobs, TopIsSortedAndAgreesWithTheSingleValue) {
  const std::vector<float> logits = some_logits(500);
  const std::vector<TokenLogprob> top = top_logprobs(logits, 20);
  ASSERT_EQ(top.size(), 20u);
  for (std::size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(top[i].logprob, token_logprob(logits, top[i].id));
    std::size_t n_higher = 0;
    for (const float logit : logits)
      n_higher += logit > logits[static_cast<std::size_t>(top[i].id)] ? 1 : 0;
    EXPECT_EQ(n_higher, i);
  }
}

TEST(Logprobs, TiesGoToTheLowestId) {
  const std::vector<float> logits = {1, 2, 2, 0, 2};
  const std::vector<TokenLogprob> top = top_logprobs(logits, 2);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].id, 1);
  EXPECT_EQ(top[1].id, 2);
}

TEST(Logprobs, OrderIsThatOfTheLogitsWhereTheDifferenceRoundsAway) {
  // Both differences to the norm round to the same float; the higher logit has the higher id.
  const std::vector<float> logits = {1.0f, std::nextafter(1.0f, 2.0f), 60.0f};
  const std::vector<TokenLogprob> top = top_logprobs(logits, 3);
  EXPECT_EQ(top[1].id, 1);
  EXPECT_EQ(top[2].id, 0);
  EXPECT_EQ(top[1].logprob, top[2].logprob);
}

TEST(Logprobs, AskingForMoreThanThereIsGivesAll) {
  EXPECT_EQ(top_logprobs(std::vector<float>{1, 2}, 9).size(), 2u);
  EXPECT_TRUE(top_logprobs(std::vector<float>{1, 2}, 0).empty());
}

TEST(Logprobs, ImpossibleTokensAreMinusInfinity) {
  const std::vector<float> logits = {0, -kInf};
  EXPECT_EQ(token_logprob(logits, 0), 0);
  EXPECT_EQ(token_logprob(logits, 1), -kInf);
}

TEST(Logprobs, NanIsAnError) {
  const std::vector<float> logits = {0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(token_logprob(logits, 0), Error);
  EXPECT_THROW(top_logprobs(logits, 1), Error);
}

}  // namespace
}  // namespace ft::sampling
