// Rounds that draft together: each gets the drafts of its run alone, and none can hurt another.
#include "speculation/round_draft.h"

#include "base/error.h"
#include "speculation/prefill.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

constexpr std::size_t kAnyRows = 1000;

testing::FakeModelOptions with_head() {
  testing::FakeModelOptions options;
  options.n_vocab = 12;
  options.head_quality = 80;
  return options;
}

sampling::SamplingParams warm() {
  sampling::SamplingParams params;
  params.temperature = 0.8F;
  return params;
}

/// One session between two rounds.
class Sequence {
 public:
  Sequence(const testing::FakeModel& model,
           const Clock& clock,
           std::vector<Token> prompt,
           std::vector<std::string_view> sources)
      : tokens_(std::move(prompt)), sampler_(warm(), 12) {
    for (const std::string_view name : sources) {
      providers_.push_back(make_draft_provider(name, model));
      sources_.push_back(providers_.back()->open(
          {.model = &model, .sampler = &sampler_, .cache_options = {.max_tokens = 200}}));
      views_.push_back(sources_.back().get());
    }
    cache_ = model.new_cache({.max_tokens = 200});
    workspace_ = model.new_workspace();
    state_ = {.model = &model,
              .workspace = workspace_.get(),
              .cache = cache_.get(),
              .tokens = &tokens_,
              .n_prompt = tokens_.size(),
              .sampler = &sampler_,
              .sources = views_,
              .stop_tokens = {},
              .clock = &clock};
    first_token(state_, prefill_chunk(state_, tokens_.size(), {}).logits);
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  Sequence(Sequence&&) = delete;
  Sequence& operator=(Sequence&&) = delete;
  ~Sequence() = default;

  /// Each source is asked for n drafts.
  RoundDraft draft(std::size_t n, std::stop_token stop = {}) const {
    std::vector<Proposer> proposers;
    for (DraftSource* source : views_) proposers.push_back({source, n});
    return {state_, proposers, std::move(stop)};
  }
  std::vector<Token> drafts_alone(std::size_t n) const {
    RoundDraft round = draft(n);
    round.finish_alone();
    return round.result().result.drafts;
  }
  /// Goes on without drafts.
  void round() { decode_round(state_, {}, {}); }

 private:
  std::vector<Token> tokens_;
  sampling::Sampler sampler_;
  std::vector<std::unique_ptr<DraftProvider>> providers_;
  std::vector<std::unique_ptr<DraftSource>> sources_;
  std::vector<DraftSource*> views_;
  std::unique_ptr<cache::KvCache> cache_;
  std::unique_ptr<models::Workspace> workspace_;
  RoundState state_;
};

class RoundDraftTest : public ::testing::Test {
 protected:
  RoundDraftTest() : model_(with_head()), workspace_(model_.draft_head()->new_workspace()) {
    const std::vector<Token> text{1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3};
    add(text, {"mtp"});
    add({7, 8}, {"mtp"});
    add(text, {"ngram", "mtp"});
    add(text, {"ngram"});
    add({3, 4, 5}, {"mtp", "suffix"});
    for (int i = 0; i < 3; ++i) sequences_[1]->round();  // has a longer backlog
  }

  void add(std::vector<Token> prompt, std::vector<std::string_view> sources) {
    sequences_.push_back(
        std::make_unique<Sequence>(model_, clock_, std::move(prompt), std::move(sources)));
  }
  std::vector<RoundDraft> begin(std::size_t n) const {
    std::vector<RoundDraft> rounds;
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      rounds.push_back(sequences_[i]->draft(n + i % 2));
    return rounds;
  }
  void run(std::vector<RoundDraft>& rounds, std::size_t max_rows = kAnyRows) {
    std::vector<RoundDraft*> views;
    for (RoundDraft& round : rounds) views.push_back(&round);
    draft_together({.head = model_.draft_head(),
                    .workspace = workspace_.get(),
                    .clock = clock_,
                    .max_rows = max_rows},
                   views,
                   {});
  }
  void expect_alone(std::vector<RoundDraft>& rounds, std::size_t n) const {
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      EXPECT_EQ(rounds[i].result().result.drafts, sequences_[i]->drafts_alone(n + i % 2)) << i;
    }
  }

  testing::FakeClock clock_{1};
  testing::FakeModel model_;
  std::unique_ptr<models::Workspace> workspace_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

TEST_F(RoundDraftTest, EveryRoundGetsTheDraftsOfItsRunAlone) {
  for (const std::size_t n : {0U, 1U, 2U, 5U}) {
    std::vector<RoundDraft> rounds = begin(n);
    run(rounds);
    expect_alone(rounds, n);
  }
}

TEST_F(RoundDraftTest, AStepOfManyIsOnePass) {
  std::vector<RoundDraft> rounds = begin(4);
  run(rounds);
  EXPECT_EQ(model_.fake_head()->n_shared(), 4U);  // only one chain has a fifth step
}

TEST_F(RoundDraftTest, PassesHaveNoMoreRowsThanTheyMay) {
  std::vector<RoundDraft> rounds = begin(3);
  run(rounds, 1);
  EXPECT_EQ(model_.fake_head()->n_shared(), 0U);
  expect_alone(rounds, 3);
}

TEST_F(RoundDraftTest, AStepThatFailsIsRepeatedByEachForItself) {
  for (const std::size_t at : {0U, 1U, 3U}) {
    std::vector<RoundDraft> rounds = begin(3);
    model_.fake_head()->fail_in(at);
    run(rounds);
    expect_alone(rounds, 3);
  }
}

TEST_F(RoundDraftTest, AChainThatIsNoLongerFiniteEndsAloneInItsRound) {
  std::vector<RoundDraft> rounds = begin(3);
  model_.fake_head()->spoil_in(5, 1);  // the second step of the second chain
  run(rounds);
  EXPECT_EQ(rounds[1].result().result.drafts.size(), 1U);
  EXPECT_EQ(rounds[0].result().result.drafts, sequences_[0]->drafts_alone(3));
  EXPECT_EQ(rounds[4].result().result.drafts, sequences_[4]->drafts_alone(3));
}

TEST_F(RoundDraftTest, WhoIsCancelledLeavesTheOthersTheirDrafts) {
  std::stop_source stop;
  std::vector<RoundDraft> rounds;
  rounds.push_back(sequences_[0]->draft(3, stop.get_token()));
  rounds.push_back(sequences_[1]->draft(3));
  stop.request_stop();
  run(rounds);
  EXPECT_THROW(rounds[0].result(), Cancelled);
  EXPECT_EQ(rounds[1].result().result.drafts, sequences_[1]->drafts_alone(3));
  EXPECT_EQ(sequences_[0]->drafts_alone(3).size(), 3U) << "it can go on";
}

TEST_F(RoundDraftTest, TheSharersPayForAStepOnce) {
  std::vector<RoundDraft> rounds = begin(2);
  const std::int64_t start_us = clock_.now_us();
  run(rounds);
  const std::int64_t end_us = clock_.now_us();
  std::int64_t paid_us = 0;
  for (RoundDraft& round : rounds) paid_us += round.result().result.draft_us;
  EXPECT_GT(paid_us, 0);
  EXPECT_LE(paid_us, end_us - start_us);
}

}  // namespace
}  // namespace ft::speculation
