#include "engine/speculation_recorder.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

using Counts = std::vector<std::size_t>;

TEST(SpeculationRecorder, CountsAsTheContractSays) {
  SpeculationRecorder recorder;
  recorder.add_source("mtp");
  recorder.add_source("ngram");
  using Part = SpeculationRecorder::Part;
  recorder.add_round(std::array{Part{"mtp", 3}}, 2);    // commits 3
  recorder.add_round(std::array{Part{"mtp", 3}}, 0);    // commits 1
  recorder.add_round({}, 0);                            // commits 1
  recorder.add_round(std::array{Part{"ngram", 1}}, 1);  // commits 2
  const foretoken::SpeculationStatistics out = recorder.summary(1 + 3 + 1 + 1 + 2);
  EXPECT_EQ(out.sources, (std::vector<std::string>{"mtp", "ngram"}));
  EXPECT_EQ(out.rounds, 4U);
  EXPECT_EQ(out.forwards, 5U);
  EXPECT_EQ(out.drafted, 7U);
  EXPECT_EQ(out.accepted, 3U);
  EXPECT_EQ(out.acceptance_lengths, (Counts{2, 0, 0, 1}));
  EXPECT_EQ(out.drafted_per_position, (Counts{3, 2, 2}));
  EXPECT_EQ(out.accepted_per_position, (Counts{2, 1, 0}));
  EXPECT_DOUBLE_EQ(out.tokens_per_forward, 8.0 / 5);
  EXPECT_EQ(out.forwards_saved, 3U);
  EXPECT_EQ(out.by_source.at("mtp").drafted, 6U);
  EXPECT_EQ(out.by_source.at("mtp").accepted, 2U);
  EXPECT_EQ(out.by_source.at("ngram").accepted, 1U);
}

TEST(SpeculationRecorder, CountsEachDrafterOfAWindow) {
  SpeculationRecorder recorder;
  using Part = SpeculationRecorder::Part;
  recorder.add_round(std::array{Part{"ngram", 3}, Part{"mtp", 2}}, 4);
  recorder.add_round(std::array{Part{"ngram", 3}, Part{"mtp", 2}}, 1);
  const foretoken::SpeculationStatistics out = recorder.summary(1 + 5 + 2);
  EXPECT_EQ(out.by_source.at("ngram").drafted, 6U);
  EXPECT_EQ(out.by_source.at("ngram").accepted, 4U);
  EXPECT_EQ(out.by_source.at("mtp").drafted, 4U);
  EXPECT_EQ(out.by_source.at("mtp").accepted, 1U);
  EXPECT_EQ(out.drafted_per_position, (Counts{2, 2, 2, 2, 2}));
  EXPECT_EQ(out.accepted_per_position, (Counts{2, 1, 1, 1, 0}));
}

TEST(SpeculationRecorder, HasNoForwardBeforeTheFirstToken) {
  const foretoken::SpeculationStatistics out = SpeculationRecorder().summary(0);
  EXPECT_EQ(out.forwards, 0U);
  EXPECT_EQ(out.tokens_per_forward, 0);
}

}  // namespace
}  // namespace ft::engine
