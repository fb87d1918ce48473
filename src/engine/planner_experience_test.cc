#include "engine/planner_experience.h"

#include <string>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

TEST(PlannerExperience, IsThatOfTheSameSourcesInTheSameCompany) {
  PlannerExperience experience;
  experience.keep({"mtp"}, Company::kShared, speculation::Experience());
  EXPECT_NE(experience.find({"mtp"}, Company::kShared), nullptr);
  EXPECT_EQ(experience.find({"mtp"}, Company::kAlone), nullptr);
  EXPECT_EQ(experience.find({"mtp", "ngram"}, Company::kShared), nullptr);
}

TEST(PlannerExperience, IsBoundedWhateverClientsName) {
  PlannerExperience experience;
  std::size_t n_kept = 0;
  for (int i = 0; i < 200; ++i)
    experience.keep({std::to_string(i)}, Company::kAlone, speculation::Experience());
  for (int i = 0; i < 200; ++i)
    n_kept += experience.find({std::to_string(i)}, Company::kAlone) != nullptr ? 1 : 0;
  EXPECT_GT(n_kept, 0U);
  EXPECT_LE(n_kept, 32U);
  EXPECT_NE(experience.find({"199"}, Company::kAlone), nullptr);
}

}  // namespace
}  // namespace ft::engine
