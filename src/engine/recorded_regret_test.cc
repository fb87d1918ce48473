// What the planner loses against the best choice kept for ever, in worlds recorded on a machine:
// tests/data/traces.
#include "engine/trace_reader.h"
#include "speculation/recorded_world.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

using speculation::PlayedChoice;
using speculation::RecordedWorld;

// The same text with other times, see RecordedWorld::play(): those of rounds a few positions on.
constexpr std::size_t kReplies = 16;
constexpr std::size_t kShift = 5;

RecordedWorld recorded(const std::string& name) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(FT_SOURCE_DIR) / "tests/data/traces" / name))
    files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<speculation::RecordedTrace> traces;
  for (const auto& file : files) traces.push_back(read_trace(file));
  return RecordedWorld(traces);
}

class RecordedRegret : public ::testing::TestWithParam<std::string> {};

TEST_P(RecordedRegret, IsAtMostTwoPercentOverAThousandTokens) {
  const RecordedWorld world = recorded(GetParam());
  constexpr std::array<std::string_view, 5> kFixed = {"none", "mtp 1", "mtp 2", "mtp 3", "mtp 5"};
  std::array<double, kFixed.size()> fixed_us{};
  double auto_us = 0;
  for (std::size_t reply = 0; reply < kReplies; ++reply) {
    for (const PlayedChoice& choice : world.play(kShift * reply)) {
      if (choice.name == "auto") auto_us += choice.us_per_1000_tokens;
      const auto* const found = std::ranges::find(kFixed, choice.name);
      if (found != kFixed.end())
        fixed_us.at(static_cast<std::size_t>(found - kFixed.begin())) += choice.us_per_1000_tokens;
    }
  }
  const double best_us = *std::ranges::min_element(fixed_us);
  ASSERT_GT(best_us, 0);
  EXPECT_LT(auto_us, 1.02 * best_us);
}

std::string name_of(const ::testing::TestParamInfo<std::string>& world) {
  return world.param;
}

INSTANTIATE_TEST_SUITE_P(Worlds,
                         RecordedRegret,
                         ::testing::Values("story", "certain", "random", "flat", "skewed"),
                         name_of);

}  // namespace
}  // namespace ft::engine
