#include "experts/lookahead_gate.h"

#include <gtest/gtest.h>

namespace ft::experts {
namespace {

class LookaheadGateTest : public ::testing::Test {
 protected:
  /// A pass of 10 experts that takes `without_us` or `with_us` per expert, by what the gate says.
  bool pass(std::int64_t without_us, std::int64_t with_us, std::size_t n_rows = 1) {
    const bool is_ahead = gate_.begin_pass(n_rows, now_us_);
    now_us_ += 10 * (is_ahead ? with_us : without_us);
    gate_.end_pass(10, now_us_);
    now_us_ += 5;  // between passes: nobody's time
    return is_ahead;
  }
  void finish_trial(std::int64_t without_us, std::int64_t with_us) {
    while (!gate_.is_trying()) pass(without_us, with_us);
    while (gate_.is_trying()) pass(without_us, with_us);
  }

  LookaheadGate gate_;
  std::int64_t now_us_ = 0;
};

TEST_F(LookaheadGateTest, TriesBothInTurn) {
  for (const bool expected : {false, true, true, false}) {
    for (std::size_t i = 0; i < LookaheadGate::kWindowPasses; ++i) {
      EXPECT_EQ(pass(100, 100), expected);
    }
  }
  EXPECT_FALSE(gate_.is_trying());
}

TEST_F(LookaheadGateTest, KeepsWhatIsClearlyFaster) {
  finish_trial(100, 90);
  EXPECT_TRUE(gate_.is_on());
  EXPECT_TRUE(pass(100, 90));
  finish_trial(100, 110);
  EXPECT_FALSE(gate_.is_on());
  EXPECT_FALSE(pass(100, 110));
}

TEST_F(LookaheadGateTest, WhatIsFarSlowerIsTriedNoLonger) {
  std::size_t n_with = 0;
  while (gate_.is_trying()) n_with += pass(100, 130) ? 1 : 0;
  EXPECT_EQ(n_with, LookaheadGate::kSettlingPasses + LookaheadGate::kLeastMeasured);
  finish_trial(100, 90);  // the next is a whole one
  EXPECT_TRUE(gate_.is_on());
  while (!gate_.is_trying()) pass(100, 90);
  n_with = 0;
  while (gate_.is_trying()) n_with += pass(100, 130) ? 1 : 0;
  EXPECT_EQ(n_with, 2 * LookaheadGate::kWindowPasses);  // in force: left for the whole trial's word
}

TEST_F(LookaheadGateTest, AlmostAsFastIsNoReasonToChange) {
  finish_trial(100, 98);
  EXPECT_FALSE(gate_.is_on());
  finish_trial(100, 90);
  EXPECT_TRUE(gate_.is_on());
  finish_trial(98, 100);
  EXPECT_TRUE(gate_.is_on());
}

TEST_F(LookaheadGateTest, ADriftOfTheMachineIsNotTakenForAGain) {
  std::int64_t cost_us = 1000;
  while (gate_.is_trying()) {
    cost_us -= 10;  // half as slow at the end as at the start
    pass(cost_us, cost_us);
  }
  EXPECT_FALSE(gate_.is_on());
}

TEST_F(LookaheadGateTest, TriesAgainRarelyAndEvenMoreRarelyWhenNothingChanges) {
  finish_trial(100, 90);
  std::size_t n = 0;
  for (; !gate_.is_trying(); ++n) pass(100, 90);
  EXPECT_EQ(n, LookaheadGate::kPassesBetweenTrials);
  for (std::size_t expected = 2 * n; expected < 40000; expected *= 2) {
    while (gate_.is_trying()) pass(100, 90);
    for (n = 0; !gate_.is_trying(); ++n) pass(100, 90);
    EXPECT_EQ(n, std::min(expected, LookaheadGate::kMaxPassesBetweenTrials));
  }
}

TEST_F(LookaheadGateTest, PassesOfManyRowsAreNeitherMeasuredNorReadAheadFor) {
  finish_trial(100, 90);
  EXPECT_FALSE(pass(100, 90, LookaheadGate::kMaxRows + 1));
  while (!gate_.is_trying()) pass(100, 90);
  for (int i = 0; i < 1000; ++i) pass(1, 1, 256);
  EXPECT_TRUE(gate_.is_trying());
  finish_trial(100, 90);
  EXPECT_TRUE(gate_.is_on());
}

TEST_F(LookaheadGateTest, APassThatAsksForNothingOrDoesNotEndCountsNothing) {
  for (int i = 0; i < 100; ++i) {
    gate_.begin_pass(1, now_us_);
    gate_.end_pass(0, now_us_);
    gate_.begin_pass(1, now_us_);
  }
  EXPECT_TRUE(gate_.is_trying());
  EXPECT_FALSE(pass(100, 100));
}

}  // namespace
}  // namespace ft::experts
