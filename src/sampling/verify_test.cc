#include "sampling/verify.h"

#include "base/error.h"
#include "base/random.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace ft::sampling {
namespace {

constexpr std::size_t kVocab = 6;

// A target: the logits after a sequence are a fixed function of all of it.
std::vector<float> target_logits(TokenSpan tokens) {
  std::uint64_t hash = 17;
  for (const Token token : tokens) {
    hash = noise_bits(hash, NoisePurpose::kDraft, 0, static_cast<std::uint32_t>(token));
  }
  std::vector<float> logits(kVocab);
  for (std::size_t i = 0; i < kVocab; ++i) {
    const double u = noise_uniform(hash, NoisePurpose::kDraft, 1, static_cast<std::uint32_t>(i));
    logits[i] = static_cast<float>(4 * u - 2);
  }
  return logits;
}

struct Rows {
  std::vector<float> data;
  std::size_t n_rows = 0;
  ConstMatrix view() const { return {data.data(), n_rows, kVocab, kVocab}; }
};

Rows rows_of(std::vector<Token> committed, TokenSpan drafts) {
  Rows rows;
  for (std::size_t i = 0; i <= drafts.size(); ++i) {
    const std::vector<float> row = target_logits(committed);
    rows.data.insert(rows.data.end(), row.begin(), row.end());
    ++rows.n_rows;
    if (i < drafts.size()) committed.push_back(drafts[i]);
  }
  return rows;
}

std::vector<Token> decode_plainly(const std::vector<Token>& prompt,
                                  std::size_t n,
                                  Sampler& sampler) {
  std::vector<Token> tokens = prompt;
  while (tokens.size() < prompt.size() + n) {
    tokens.push_back(sampler.pick(target_logits(tokens), {tokens, prompt.size()}));
  }
  return tokens;
}

class VerifyExact : public ::testing::TestWithParam<SamplingParams> {};

// Drafts that are right up to a random place, or random altogether.
TEST_P(VerifyExact, EmitsWhatPlainDecodingEmits) {
  Sampler sampler(GetParam(), kVocab);
  const std::vector<Token> prompt = {2, 5, 1};
  const std::vector<Token> expected = decode_plainly(prompt, 300, sampler);

  std::vector<Token> tokens = prompt;
  std::size_t n_accepted = 0;
  for (std::uint64_t round = 0; tokens.size() + 9 < expected.size(); ++round) {
    const auto random = [&](std::uint32_t index, std::uint64_t bound) {
      return static_cast<std::size_t>(noise_bits(4, NoisePurpose::kAccept, round, index) % bound);
    };
    const std::size_t n_drafts = random(0, 8);
    const std::size_t n_right = random(1, 8);
    std::vector<Token> drafts;
    for (std::size_t i = 0; i < n_drafts; ++i) {
      drafts.push_back(i < n_right
                           ? expected[tokens.size() + i]
                           : static_cast<Token>(random(static_cast<std::uint32_t>(2 + i), kVocab)));
    }
    const Rows rows = rows_of(tokens, drafts);
    const Verdict verdict = verify_exact({tokens, prompt.size()}, drafts, rows.view(), {}, sampler);
    ASSERT_GE(verdict.n_accepted, std::min(n_drafts, n_right));
    ASSERT_LE(verdict.n_accepted, n_drafts);
    tokens.insert(tokens.end(),
                  drafts.begin(),
                  drafts.begin() + static_cast<std::ptrdiff_t>(verdict.n_accepted));
    tokens.push_back(verdict.next);
    n_accepted += verdict.n_accepted;
    ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin())) << "round " << round;
  }
  EXPECT_GT(n_accepted, 50u);
}

SamplingParams with(float temperature, float repetition, float presence, float frequency) {
  SamplingParams params;
  params.temperature = temperature;
  params.repetition_penalty = repetition;
  params.presence_penalty = presence;
  params.frequency_penalty = frequency;
  params.top_p = 0.9f;
  params.seed = 42;
  return params;
}

INSTANTIATE_TEST_SUITE_P(Laws,
                         VerifyExact,
                         ::testing::Values(with(0, 1, 0, 0),
                                           with(1, 1, 0, 0),
                                           with(0, 1.3f, 0.2f, 0.1f),
                                           with(1, 1.3f, 0.2f, 0.1f)));

TEST(VerifyExactPenalties, SeeTokensAcceptedEarlierInTheWindow) {
  SamplingParams params;
  params.temperature = 0;
  params.frequency_penalty = 1;
  Sampler sampler(params, 2);
  // Every row prefers token 0 by 1.5: after two of them token 1 is ahead.
  const std::vector<float> data = {1.5f, 0, 1.5f, 0, 1.5f, 0, 1.5f, 0};
  const std::vector<Token> committed = {1};
  const std::vector<Token> drafts = {0, 0, 0};
  const Verdict verdict = verify_exact({committed, 1}, drafts, {data.data(), 4, 2, 2}, {}, sampler);
  EXPECT_EQ(verdict.n_accepted, 2u);
  EXPECT_EQ(verdict.next, 1);
}

class VerifyExactStops : public ::testing::Test {
 protected:
  VerifyExactStops() {
    SamplingParams params;
    params.temperature = 0;
    sampler_ = std::make_unique<Sampler>(params, 4);
  }
  // Row i's greedy token is wanted[i].
  Verdict verify(const std::vector<Token>& wanted, const std::vector<Token>& drafts) {
    std::vector<float> data(wanted.size() * 4, 0.0f);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      data[i * 4 + static_cast<std::size_t>(wanted[i])] = 1;
    const std::vector<Token> committed = {1};
    const std::vector<Token> stops = {3, 0};
    return verify_exact(
        {committed, 1}, drafts, {data.data(), wanted.size(), 4, 4}, stops, *sampler_);
  }
  std::unique_ptr<Sampler> sampler_;
};

TEST_F(VerifyExactStops, AnAcceptedStopTokenEndsTheWalk) {
  const Verdict verdict = verify({1, 3, 2, 2}, {1, 3, 2});
  EXPECT_EQ(verdict.n_accepted, 1u);
  EXPECT_EQ(verdict.next, 3);
}

TEST_F(VerifyExactStops, ARejectedStopTokenHasNoEffect) {
  const Verdict verdict = verify({1, 2, 2, 2}, {1, 3, 2});
  EXPECT_EQ(verdict.n_accepted, 1u);
  EXPECT_EQ(verdict.next, 2);
}

TEST_F(VerifyExactStops, AStopTokenAsBonusFollowsFullAcceptance) {
  const Verdict verdict = verify({1, 2, 0}, {1, 2});
  EXPECT_EQ(verdict.n_accepted, 2u);
  EXPECT_EQ(verdict.next, 0);
}

TEST(VerifyExactErrors, NanInAReachedRowIsAnErrorAndInALaterOneIsNot) {
  SamplingParams params;
  params.temperature = 0;
  Sampler sampler(params, 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> data = {1, 0, nan, 0};
  const std::vector<Token> committed = {1};
  const std::vector<Token> right = {0};
  const std::vector<Token> wrong = {1};
  EXPECT_THROW(verify_exact({committed, 1}, right, {data.data(), 2, 2, 2}, {}, sampler), Error);
  EXPECT_EQ(verify_exact({committed, 1}, wrong, {data.data(), 2, 2, 2}, {}, sampler).next, 0);
}

TEST(VerifyExactErrors, RowCountMustFitTheDrafts) {
  Sampler sampler(SamplingParams{}, 2);
  const std::vector<float> data = {1, 0};
  EXPECT_THROW(verify_exact({}, std::vector<Token>{1}, {data.data(), 1, 2, 2}, {}, sampler),
               LogicError);
}

}  // namespace
}  // namespace ft::sampling
