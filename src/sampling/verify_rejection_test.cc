#include "base/error.h"
#include "base/random.h"
#include "sampling/verify.h"
#include "testing/chain_trials.h"
#include "testing/law_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::sampling {
namespace {

using testing::ChainLaws;
using testing::ChainTrials;
using testing::ChainWindow;
using testing::Drafting;
using ::testing::HasSubstr;
using testing::LawCheck;

// Standard deviations: what a right law stays below, what a wrong one must exceed.
constexpr double kRight = 4;
constexpr double kWrong = 8;

std::vector<float> logits_of(std::span<const double> law) {
  std::vector<float> out(law.size());
  std::transform(law.begin(), law.end(), out.begin(), [](double p) {
    return static_cast<float>(std::log(p));
  });
  return out;
}

SamplingParams seeded(std::uint64_t seed) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

// What recovers a token from (p - q)+ by the race that draws drafts: with the drafts' own noise,
// some positions further on.
Token race_for_residual(std::span<const float> p,
                        std::span<const float> q,
                        std::uint64_t seed,
                        std::uint64_t position) {
  Token best = 0;
  double best_score = -std::numeric_limits<double>::infinity();
  for (std::size_t id = 0; id < p.size(); ++id) {
    const double residual =
        static_cast<double>(p[id]) - (q.empty() ? 0 : static_cast<double>(q[id]));
    if (residual <= 0) continue;
    const double u =
        noise_uniform(seed, NoisePurpose::kDraft, position, static_cast<std::uint32_t>(id));
    const double score = std::log(residual) - std::log(-std::log(u));
    if (score <= best_score) continue;
    best_score = score;
    best = static_cast<Token>(id);
  }
  return best;
}

struct Bug {
  bool shares_accept = false;  // the accept test uses the noise that drew the draft
  std::size_t ahead = 0;       // the residual is drawn with the drafts' noise of a later position
};

// Ratio mode for sampled drafts with a planted bug: keys that are not disjoint.
Verdict verify_with(const Bug& bug, const ChainWindow& window, Sampler& sampler) {
  std::vector<Token> tokens(window.committed.tokens.begin(), window.committed.tokens.end());
  std::vector<float> p(window.target_logits.n_cols);
  const std::uint64_t seed = sampler.params().seed;
  const DrawnDrafts& drafts = window.drafts;
  for (std::size_t i = 0; i < drafts.tokens.size(); ++i) {
    const History history{tokens, window.committed.n_prompt};
    sampler.probabilities(window.target_logits.row(i), history, p);
    const auto x = static_cast<std::size_t>(drafts.tokens[i]);
    const NoisePurpose purpose = bug.shares_accept ? NoisePurpose::kDraft : NoisePurpose::kAccept;
    const double u = noise_uniform(seed,
                                   purpose,
                                   noise_position(purpose, tokens.size(), drafts.attempt),
                                   bug.shares_accept ? static_cast<std::uint32_t>(x) : 0);
    if (u * static_cast<double>(drafts.laws[i][x]) >= static_cast<double>(p[x])) {
      const std::uint64_t key =
          noise_position(NoisePurpose::kDraft, tokens.size() + bug.ahead, drafts.attempt);
      return {i, race_for_residual(p, drafts.laws[i], seed, key)};
    }
    tokens.push_back(drafts.tokens[i]);
  }
  return {drafts.tokens.size(),
          sampler.pick(window.target_logits.row(drafts.tokens.size()),
                       {tokens, window.committed.n_prompt})};
}

// --- The published case: p = (.1, .5, .4), q = (.5, .4, .1), one draft. Noise shared by draft and
// residual gives (.100, .447, .453).

constexpr std::array<double, 3> kP = {0.1, 0.5, 0.4};
constexpr std::array<double, 3> kQ = {0.5, 0.4, 0.1};

struct OneDraft {
  std::array<std::uint64_t, 3> counts{};
  std::uint64_t n_accepted = 0;
  double share(std::size_t id, std::size_t n) const {
    return static_cast<double>(counts.at(id)) / static_cast<double>(n);
  }
  double sigmas() const {
    LawCheck check;
    check.add(counts, kP);
    return check.sigmas();
  }
};

OneDraft draw_one_draft(std::size_t n, const testing::Judge& judge) {
  std::vector<float> rows = logits_of(kP);
  rows.insert(rows.end(), 3, 0.0F);  // of the bonus
  const std::vector<float> drafter = logits_of(kQ);
  const std::vector<Token> committed = {1};
  OneDraft out;
  for (std::size_t i = 0; i < n; ++i) {
    Sampler sampler(seeded(i), 3);
    std::vector<float> law(3);
    sampler.probabilities(drafter, {committed, 1}, law);
    const std::vector<Token> draft = {
        sampler.pick(drafter, {committed, 1}, NoisePurpose::kDraft, 0)};
    const std::array<std::span<const float>, 1> laws = {law};
    const Verdict verdict =
        judge({{committed, 1}, {.tokens = draft, .laws = laws}, {rows.data(), 2, 3, 3}}, sampler);
    out.n_accepted += verdict.n_accepted;
    ++out.counts.at(static_cast<std::size_t>(verdict.n_accepted == 1 ? draft[0] : verdict.next));
  }
  return out;
}

Verdict verify_rightly(const ChainWindow& window, Sampler& sampler) {
  return verify_rejection(window.committed, window.drafts, window.target_logits, {}, sampler);
}

TEST(VerifyRejection, EmitsTheLawOfThePublishedCase) {
  constexpr std::size_t kDraws = 1'000'000;
  const OneDraft out = draw_one_draft(kDraws, verify_rightly);
  EXPECT_LT(out.sigmas(), kRight);
  for (std::size_t id = 0; id < 3; ++id) EXPECT_NEAR(out.share(id, kDraws), kP.at(id), 0.002);
  // 1 - TV = .1 + .4 + .1, within four standard deviations.
  EXPECT_NEAR(static_cast<double>(out.n_accepted) / kDraws, 0.6, 0.002);
}

TEST(VerifyRejection, ThePublishedBugIsCaught) {
  constexpr std::size_t kDraws = 200'000;
  const OneDraft out = draw_one_draft(kDraws, [](const ChainWindow& window, Sampler& sampler) {
    return verify_with({}, window, sampler);
  });
  EXPECT_GT(out.sigmas(), kWrong);
  EXPECT_NEAR(out.share(0, kDraws), 0.100, 0.005);
  EXPECT_NEAR(out.share(1, kDraws), 0.447, 0.005);
  EXPECT_NEAR(out.share(2, kDraws), 0.453, 0.005);
}

// --- Chains: one and two rounds, every kind of drafts, all filters. More texts in the full set.

constexpr std::size_t kTexts = 40'000;

class VerifyRejectionTrials : public ::testing::TestWithParam<ChainTrials> {};

TEST_P(VerifyRejectionTrials, EmitTheTargetsLaw) {
  const ChainLaws laws = run(GetParam());
  EXPECT_LT(laws.first.sigmas(), kRight);
  EXPECT_LT(laws.text.sigmas(), kRight);
  EXPECT_LT(laws.second_round.sigmas(), kRight);
  EXPECT_NEAR(static_cast<double>(laws.n_first_accepted) / kTexts,
              laws.first_acceptance,
              kRight * std::sqrt(0.25 / kTexts));
}

INSTANTIATE_TEST_SUITE_P(Trials,
                         VerifyRejectionTrials,
                         ::testing::ValuesIn(testing::right_chain_trials(kTexts)),
                         [](const auto& trials) { return trials.param.name; });

ChainTrials planted(std::size_t n_drafts) {
  return {.sampling = seeded(7'000'000), .n_drafts = n_drafts, .n_texts = kTexts};
}

ChainLaws run_with(const Bug& bug, ChainTrials wanted) {
  wanted.judge = [&bug](const ChainWindow& window, Sampler& sampler) {
    return verify_with(bug, window, sampler);
  };
  return run(wanted);
}

TEST(VerifyRejectionBugs, NoiseOfTheDraftInTheResidualIsCaught) {
  EXPECT_GT(run_with({}, planted(1)).first.sigmas(), kWrong);
  EXPECT_GT(run_with({}, planted(3)).text.sigmas(), kWrong);
}

TEST(VerifyRejectionBugs, NoiseOfTheDraftEverywhereIsCaught) {
  EXPECT_GT(run_with({.shares_accept = true}, planted(1)).first.sigmas(), kWrong);
  EXPECT_GT(run_with({.shares_accept = true}, planted(3)).text.sigmas(), kWrong);
}

// The residual of round 1 meets the noise of the drafts of round 2: the first token is right, the
// second depends on where round 1 ended.
TEST(VerifyRejectionBugs, NoiseThatComesAgainInTheNextRoundIsCaughtThere) {
  ChainTrials wanted = planted(2);
  wanted.forgets_attempt = true;
  const ChainLaws laws = run_with({.ahead = 1}, wanted);
  EXPECT_LT(laws.first.sigmas(), kRight);
  EXPECT_GT(laws.second_round.sigmas(), kWrong);
  // With the attempt in the keys the same mistake does no harm.
  wanted.forgets_attempt = false;
  EXPECT_LT(run_with({.ahead = 1}, wanted).second_round.sigmas(), kRight);
}

TEST(VerifyRejectionBugs, LawsFromBeforeTheFiltersAreCaught) {
  ChainTrials wanted = planted(2);
  wanted.sampling.top_k = 3;
  EXPECT_LT(run(wanted).first.sigmas(), kRight);
  wanted.has_raw_laws = true;
  EXPECT_GT(run(wanted).first.sigmas(), kWrong);
  EXPECT_GT(run(wanted).text.sigmas(), kWrong);
}

// --- Single windows.

struct Window {
  std::vector<Token> committed = {1};
  std::vector<Token> drafts;
  std::vector<std::vector<float>> laws;
  std::vector<float> rows;
  std::size_t n_vocab = 4;

  Verdict verify(const SamplingParams& params,
                 std::uint64_t attempt = 0,
                 TokenSpan stops = {}) const {
    Sampler sampler(params, n_vocab);
    const std::vector<std::span<const float>> views(laws.begin(), laws.end());
    return verify_rejection({committed, 1},
                            {.tokens = drafts, .laws = views, .attempt = attempt},
                            {rows.data(), rows.size() / n_vocab, n_vocab, n_vocab},
                            stops,
                            sampler);
  }
};

// Drafts 1, 2 of flat laws under flat rows: what is accepted is certain.
Window certain_window() {
  Window window;
  window.drafts = {1, 2};
  window.laws.assign(2, std::vector<float>(4, 0.25F));
  window.rows.assign(12, 0.0F);
  return window;
}

TEST(VerifyRejection, AcceptsAllOfADrafterThatIsTheTarget) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    EXPECT_EQ(certain_window().verify(seeded(seed)).n_accepted, 2u);
  }
}

TEST(VerifyRejection, SameKeySameResultOtherAttemptOtherDraws) {
  Window window = certain_window();
  window.laws.clear();  // each draft stands with probability 1/4
  std::size_t n_other = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Verdict once = window.verify(seeded(seed), 3);
    const Verdict again = window.verify(seeded(seed), 3);
    EXPECT_EQ(once.n_accepted, again.n_accepted);
    EXPECT_EQ(once.next, again.next);
    const Verdict other = window.verify(seeded(seed), 4);
    n_other += once.n_accepted != other.n_accepted || once.next != other.next ? 1u : 0u;
  }
  EXPECT_GT(n_other, 500u);
}

TEST(VerifyRejection, BonusAndPlainRoundsAreThoseOfPlainDecoding) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Window window = certain_window();
    Sampler sampler(seeded(seed), 4);
    const std::vector<Token> tokens = {1, 1, 2};
    EXPECT_EQ(window.verify(seeded(seed), 9).next,
              sampler.pick(std::span(window.rows).last(4), {tokens, 1}));
    window.drafts.clear();
    window.laws.clear();
    window.rows = {1, 0, 2, 1};
    EXPECT_EQ(window.verify(seeded(seed), 9).next,
              sampler.pick(window.rows, {window.committed, 1}));
  }
}

TEST(VerifyRejection, GreedyIsMatchModeExactly) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SamplingParams params = seeded(seed);
    params.temperature = 0;
    params.frequency_penalty = 0.5F;
    Window window;
    const auto random = [&](std::uint32_t i) {
      return noise_uniform(seed, NoisePurpose::kDraft, 5, i);
    };
    for (std::uint32_t i = 0; i < 16; ++i) window.rows.push_back(static_cast<float>(random(i)));
    for (std::uint32_t i = 0; i < 3; ++i) {
      const auto row = window.rows.begin() + 4 * i;
      const bool is_best = random(20 + i) < 0.7;
      window.drafts.push_back(is_best ? static_cast<Token>(std::max_element(row, row + 4) - row)
                                      : 2);
    }
    Sampler sampler(params, 4);
    const Verdict match = verify_exact(
        {window.committed, 1}, window.drafts, {window.rows.data(), 4, 4, 4}, {}, sampler);
    const Verdict ratio = window.verify(params, seed);
    EXPECT_EQ(ratio.n_accepted, match.n_accepted);
    EXPECT_EQ(ratio.next, match.next);
  }
}

// Nothing is drawn: what a draft was drawn from is not looked at.
TEST(VerifyRejection, GreedyReadsNoLaw) {
  SamplingParams params = seeded(3);
  params.temperature = 0;
  Window window = certain_window();
  window.rows = {0, 2, 1, 0, 0, 1, 2, 0, 3, 0, 0, 1};
  window.laws.assign(2, std::vector<float>(4, 0));
  const Verdict verdict = window.verify(params);
  EXPECT_EQ(verdict.n_accepted, 2u);
  EXPECT_EQ(verdict.next, 0);
}

TEST(VerifyRejection, AnAcceptedStopTokenEndsTheWalkAndARejectedOneDoesNot) {
  const std::vector<Token> stops = {3, 1};
  Window window = certain_window();
  const Verdict accepted = window.verify(seeded(1), 0, stops);
  EXPECT_EQ(accepted.n_accepted, 0u);
  EXPECT_EQ(accepted.next, 1);

  window.rows[1] = -std::numeric_limits<float>::infinity();  // the target cannot say 1
  window.rows[3] = -std::numeric_limits<float>::infinity();
  const Verdict rejected = window.verify(seeded(1), 0, stops);
  EXPECT_EQ(rejected.n_accepted, 0u);
  EXPECT_TRUE(rejected.next == 0 || rejected.next == 2);
}

TEST(VerifyRejection, ADraftTheTargetCannotSayIsNeverAccepted) {
  Window window = certain_window();
  window.rows[1] = -std::numeric_limits<float>::infinity();
  for (const bool has_law : {true, false}) {
    if (!has_law) window.laws.clear();
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const Verdict verdict = window.verify(seeded(seed));
      EXPECT_EQ(verdict.n_accepted, 0u);
      EXPECT_NE(verdict.next, 1);
    }
  }
}

// p lies nowhere above q, as rounding can have it: a rejected draft is replaced by a draw from p.
TEST(VerifyRejection, NoResidualDrawsFromTheTarget) {
  Window window;
  window.drafts = {0};
  window.rows.assign(8, 0.0F);
  window.laws = {{0.25009F, 0.25F, 0.25F, 0.25F}};
  std::array<std::size_t, 4> counts{};
  for (std::uint64_t seed = 0; seed < 30'000; ++seed) {
    const Verdict verdict = window.verify(seeded(seed));
    if (verdict.n_accepted == 0) ++counts.at(static_cast<std::size_t>(verdict.next));
  }
  // About eleven rejections, of flat law.
  EXPECT_GT(counts[0] + counts[1] + counts[2] + counts[3], 2u);
  EXPECT_LT(counts[0], counts[1] + counts[2] + counts[3]);
}

std::string error_of(const std::vector<float>& law) {
  Window window;
  window.drafts = {0};
  window.rows.assign(8, 0.0F);
  window.laws = {law};
  try {
    window.verify(seeded(1));
  } catch (const LogicError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(VerifyRejectionErrors, ALawThatIsNoneIsRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(error_of({0, 0.5F, 0.25F, 0.25F}), HasSubstr("token 0 was drafted"));
  EXPECT_THAT(error_of({0.5F, 0.5F, 0.5F, 0.5F}), HasSubstr("sums to 2"));
  EXPECT_THAT(error_of({0.25F, 0.25F, 0.25F, 0.251F}), HasSubstr("sums to 1.00"));
  EXPECT_EQ(error_of({0.25F, 0.25F, 0.25F, 0.25001F}), "accepted") << "rounding";
  EXPECT_THAT(error_of({0.5F, nan, 0.25F, 0.25F}), HasSubstr("token 1 probability nan"));
  EXPECT_THAT(error_of({0.75F, 0.5F, -0.25F, 0}), HasSubstr("token 2 probability -0.25"));
  EXPECT_THAT(error_of({0.5F, 0.5F}), HasSubstr("n_vocab"));
  EXPECT_EQ(error_of({0.25F, 0.25F, 0.25F, 0.25F}), "accepted");
}

TEST(VerifyRejectionErrors, CountsMustFit) {
  Window window = certain_window();
  window.laws.pop_back();
  EXPECT_THROW(window.verify(seeded(1)), LogicError);
  window = certain_window();
  window.rows.resize(8);
  EXPECT_THROW(window.verify(seeded(1)), LogicError);
}

TEST(VerifyRejectionErrors, NanInAReachedRowIsAnErrorAndInALaterOneIsNot) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Window window = certain_window();
  window.rows[1] = -std::numeric_limits<float>::infinity();
  window.rows[5] = nan;
  EXPECT_EQ(window.verify(seeded(1)).n_accepted, 0u);
  window.rows[1] = 0;
  EXPECT_THROW(window.verify(seeded(1)), Error);
}

TEST(NoisePosition, KeysOfPositionsAndAttemptsAreDisjoint) {
  EXPECT_EQ(noise_position(NoisePurpose::kTarget, 7, 3), 7u);
  EXPECT_EQ(noise_position(NoisePurpose::kDraft, 7, 0), 7u);
  EXPECT_EQ(noise_position(NoisePurpose::kDraft, 7, 3), (std::uint64_t{3} << 32) + 7);
  EXPECT_NE(noise_position(NoisePurpose::kAccept, 0xFFFFFFFF, 0),
            noise_position(NoisePurpose::kAccept, 0, 1));
  EXPECT_THROW(noise_position(NoisePurpose::kDraft, std::size_t{1} << 32, 0), LogicError);
  EXPECT_THROW(noise_position(NoisePurpose::kDraft, 0, std::uint64_t{1} << 32), LogicError);
}

}  // namespace
}  // namespace ft::sampling
