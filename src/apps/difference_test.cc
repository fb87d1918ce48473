#include "apps/difference.h"

#include <cmath>

#include <gtest/gtest.h>

namespace ft::apps {
namespace {

Outcome sample() {
  Outcome out;
  out.text = "abc";
  out.token_ids = {5, 6, 7};
  for (const foretoken::Token id : out.token_ids) {
    out.logprobs.push_back({{id, -0.5F}, {{id, -0.5F}, {9, -1.0F}}});
  }
  out.completion.finish_reason = foretoken::FinishReason::kLength;
  return out;
}

TEST(Difference, IsNothingForEqualOutcomes) {
  EXPECT_FALSE(first_difference(sample(), sample()).has_value());
}

TEST(Difference, NamesTheFirstTokenWhoseIdDiffers) {
  Outcome variant = sample();
  variant.token_ids = {5, 8};
  const auto found = first_difference(sample(), variant);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->index, 1U);
  EXPECT_EQ(found->what, Difference::What::kId);
  EXPECT_EQ(std::get<foretoken::Token>(found->base), 6);
  EXPECT_EQ(std::get<foretoken::Token>(found->variant), 8);
}

TEST(Difference, SeesAnEarlyEnd) {
  Outcome variant = sample();
  variant.token_ids.pop_back();
  const auto found = first_difference(sample(), variant);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->index, 2U);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(found->variant));
}

TEST(Difference, ComparesLogprobsBitForBit) {
  Outcome variant = sample();
  variant.logprobs[1].chosen.logprob = std::nextafter(-0.5F, 0.0F);
  auto found = first_difference(sample(), variant);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->index, 1U);
  EXPECT_EQ(found->what, Difference::What::kLogprob);

  variant = sample();
  variant.logprobs[2].top[1].id = 10;
  found = first_difference(sample(), variant);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->index, 2U);
}

TEST(Difference, SeesTextAndTheReasonOfTheEnd) {
  Outcome variant = sample();
  variant.text = "abd";
  auto found = first_difference(sample(), variant);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->what, Difference::What::kText);
  EXPECT_EQ(found->index, 2U);

  variant = sample();
  variant.completion.finish_reason = foretoken::FinishReason::kStop;
  found = first_difference(sample(), variant);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->what, Difference::What::kFinishReason);
}

TEST(Difference, IsWrittenWithItsTypes) {
  Outcome variant = sample();
  variant.token_ids[0] = 4;
  json::Writer out;
  write_difference(out, first_difference(sample(), variant));
  EXPECT_EQ(out.text(), R"({"index":0,"what":"id","base":5,"variant":4})");
}

}  // namespace
}  // namespace ft::apps
