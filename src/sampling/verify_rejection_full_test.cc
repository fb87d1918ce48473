// Ratio mode's law with a million texts for each way of drafting.
#include "testing/chain_trials.h"

#include <cmath>

#include <gtest/gtest.h>

namespace ft::sampling {
namespace {

constexpr std::size_t kTexts = 1'000'000;

class VerifyRejectionMillions : public ::testing::TestWithParam<testing::ChainTrials> {};

TEST_P(VerifyRejectionMillions, EmitTheTargetsLaw) {
  const testing::ChainLaws laws = run(GetParam());
  EXPECT_LT(laws.first.sigmas(), 4);
  EXPECT_LT(laws.text.sigmas(), 4);
  EXPECT_LT(laws.second_round.sigmas(), 4);
  EXPECT_NEAR(static_cast<double>(laws.n_first_accepted) / kTexts,
              laws.first_acceptance,
              4 * std::sqrt(0.25 / kTexts));
  RecordProperty("first_sigmas", std::to_string(laws.first.sigmas()));
  RecordProperty("text_sigmas", std::to_string(laws.text.sigmas()));
  RecordProperty("second_round_sigmas", std::to_string(laws.second_round.sigmas()));
}

INSTANTIATE_TEST_SUITE_P(Trials,
                         VerifyRejectionMillions,
                         ::testing::ValuesIn(testing::right_chain_trials(kTexts)),
                         [](const auto& trials) { return trials.param.name; });

}  // namespace
}  // namespace ft::sampling
