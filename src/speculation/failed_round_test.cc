// Rounds that fail leave nothing behind.
#include "base/error.h"
#include "speculation/decode_round.h"
#include "speculation/decode_round_test_fixture.h"
#include "speculation/prefill.h"
#include "testing/adversary_source.h"
#include "testing/generation.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::AdversarySource;
using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;
using ::testing::HasSubstr;
using testing::Malice;

// A round that fails leaves everything as it was: the next one, undisturbed, gives what would have
// come anyway.
class FailedRound : public ::testing::Test {
 protected:
  FailedRound() {
    FakeModelOptions options;
    options.head_quality = 80;
    model_ = std::make_unique<FakeModel>(options);
    options_ = options_for(8, 1);
    generation_ = std::make_unique<Generation>(*model_, options_);
    mtp_ = &generation_->add_source("mtp");
    generation_->prefill();
    generation_->round(mtp_, 3);
  }
  void expect_undisturbed() {
    while (!generation_->is_done()) {
      const std::size_t n_left =
          options_.prompt.size() + options_.max_tokens - generation_->tokens().size();
      generation_->round(mtp_, std::min<std::size_t>(3, n_left - 1));
    }
    EXPECT_EQ(generation_->tokens(), generate_plainly(*model_, options_));
    expect_true_rows(*mtp_->cache(), generation_->tokens(), 0);
    EXPECT_GT(generation_->n_accepted(), 5u);
  }
  template <typename Exception>
  void expect_failure(DraftSource* proposer) {
    const std::vector<Token> tokens = generation_->tokens();
    EXPECT_THROW(generation_->round(proposer, 3), Exception);
    EXPECT_EQ(generation_->tokens(), tokens);
    EXPECT_EQ(generation_->cache().length() + 1, tokens.size());
  }

  std::unique_ptr<FakeModel> model_;
  GenerationOptions options_;
  std::unique_ptr<Generation> generation_;
  DraftSource* mtp_ = nullptr;
};

TEST_F(FailedRound, ForwardThrows) {
  generation_->workspace().fails_in = 0;
  expect_failure<IoError>(mtp_);
  expect_undisturbed();
}

TEST_F(FailedRound, FirstDraftStepThrows) {
  model_->fake_head()->fail_in(0);
  expect_failure<IoError>(mtp_);
  expect_undisturbed();
}

TEST_F(FailedRound, LaterDraftStepThrows) {
  model_->fake_head()->fail_in(2);
  expect_failure<IoError>(mtp_);
  expect_undisturbed();
}

TEST_F(FailedRound, ADraftStepOverAnothersDraftsThrows) {
  AdversarySource ahead(Malice::kRepeatsPending, 16, 0, 1);
  const std::vector<Token> tokens = generation_->tokens();
  model_->fake_head()->fail_in(2);
  EXPECT_THROW(generation_->round(std::vector<Proposer>{{&ahead, 3}, {mtp_, 2}}), IoError);
  EXPECT_EQ(generation_->tokens(), tokens);
  expect_true_rows(*mtp_->cache(), tokens, 0);
  expect_undisturbed();
}

TEST_F(FailedRound, ALogitIsNan) {
  generation_->workspace().nan_row = 0;
  expect_failure<Error>(mtp_);
  expect_undisturbed();
}

TEST_F(FailedRound, Cancelled) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(decode_round(generation_->state(), {{{mtp_, 3}}}, stop.get_token()), Cancelled);
  AdversarySource source(Malice::kThrows, 16, 0, 1);
  EXPECT_THROW(decode_round(generation_->state(), {{{&source, 3}}}, stop.get_token()), Cancelled)
      << "no source is asked";
  expect_undisturbed();
}

TEST_F(FailedRound, SourceThrowsOrBreaksItsContract) {
  for (const Malice malice : {Malice::kTooMany, Malice::kOutsideVocabulary, Malice::kNegative}) {
    AdversarySource source(malice, 16, 0, 1);
    expect_failure<LogicError>(&source);
  }
  AdversarySource source(Malice::kThrows, 16, 0, 1);
  expect_failure<IoError>(&source);
  expect_undisturbed();
}

TEST_F(FailedRound, MessageNamesTheSourceAndTheValues) {
  AdversarySource source(Malice::kTooMany, 16, 0, 1);
  try {
    generation_->round(&source, 3);
    FAIL();
  } catch (const LogicError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'adversary' returned 4 tokens, asked for at most 3"));
  }
}

TEST(FailedObserve, TheRoundStandsAndAllOthersHaveSeenIt) {
  FakeModelOptions model_options;
  model_options.head_quality = 100;
  const FakeModel model(model_options);
  const GenerationOptions options = options_for(3, 1);
  Generation generation(model, options);
  AdversarySource bad(Malice::kThrowsInObserve, 16, 0, 1);
  AdversarySource good(Malice::kRandomTokens, 16, 0, 1);
  generation.add_source(bad);
  generation.add_source(good);
  EXPECT_THROW(generation.prefill(), IoError);
  EXPECT_EQ(good.n_observed(), 1u);
  EXPECT_EQ(generation.cache().length(), options.prompt.size());
  const std::vector<float> logits = model.logits_after(options.prompt);
  EXPECT_THROW(first_token(generation.state(), {logits.data(), 1, 16, 16}), IoError);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_THROW(generation.round(&good, 2), IoError);
    EXPECT_EQ(generation.tokens().size(), generation.cache().length() + 1);
  }
  const std::vector<Token> expected = generate_plainly(model, options);
  const std::size_t n = std::min(expected.size(), generation.tokens().size());
  EXPECT_TRUE(std::equal(expected.begin(),
                         expected.begin() + static_cast<std::ptrdiff_t>(n),
                         generation.tokens().begin()));
}

}  // namespace
}  // namespace ft::speculation
