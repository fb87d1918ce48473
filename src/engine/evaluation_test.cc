#include "engine/evaluation.h"

#include "base/error.h"
#include "engine/engine_test_fixture.h"
#include "sampling/sampler.h"
#include "testing/fake_model.h"

#include <cstddef>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

TEST_F(EngineOnFakeModel, EvaluatesPromptsInChunks) {
  const auto engine = open(512, 70, 2);
  const auto& model = dynamic_cast<const ft::testing::FakeModel&>(*engine->parts().model);
  foretoken::EvaluationRequest wanted{
      .tokens = {11, 22, 33, 44, 55}, .all_positions = true, .n_drafts = 2};
  const foretoken::Evaluation out = engine->evaluate(wanted);
  EXPECT_EQ(out.positions, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(out.logits[i], model.logits_after(TokenSpan(wanted.tokens).first(i + 1)));
  }
  EXPECT_EQ(out.drafts.size(), 2U);
  EXPECT_EQ(out.draft_logits.size(), 2U);
  wanted.all_positions = false;
  const foretoken::Evaluation last = engine->evaluate(wanted);
  EXPECT_EQ(last.positions, std::vector<std::size_t>{4});
  EXPECT_EQ(last.logits.front(), out.logits.back());
  EXPECT_EQ(last.drafts, out.drafts);
  EXPECT_EQ(open()->evaluate(wanted).drafts, out.drafts);
}

TEST_F(EngineOnFakeModel, ScoresAPromptsOwnTokens) {
  const auto engine = open(512, 70, 2);
  const foretoken::EvaluationRequest wanted{
      .tokens = {11, 22, 33, 44, 55}, .all_positions = true, .logprobs = true};
  const foretoken::Evaluation out = engine->evaluate(wanted);
  ASSERT_EQ(out.logprobs.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(out.logprobs[i], sampling::token_logprob(out.logits[i], wanted.tokens[i + 1]));
  }
}

TEST_F(EngineOnFakeModel, RefusesDraftsOfAModelWithoutAHead) {
  const auto engine = open(512, std::nullopt);
  EXPECT_THROW(engine->evaluate({.tokens = {1, 2}, .n_drafts = 1}), foretoken::Error);
  EXPECT_THROW(engine->evaluate({.tokens = {}}), InvalidInput);
}

}  // namespace
}  // namespace ft::engine
