// Requests that share forwards: each gets what it would get alone, and none can hurt another.
#include "engine/batch.h"

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "engine/batch_test_fixture.h"
#include "engine/engine.h"
#include "engine/open_engine.h"
#include "models/model.h"
#include "speculation/draft_limits.h"
#include "speculation/draft_model.h"
#include "speculation/head_history.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

constexpr std::size_t kVocab = 24;
constexpr Token kPoison = 23;  // a forward that is fed it fails
constexpr std::size_t kChunk = 64;
constexpr std::size_t kLogitRows = 70;

/// What forwards of several requests were made of.
struct Counts {
  std::atomic<std::size_t> n_shared = 0;
  std::atomic<std::size_t> n_mixed = 0;  // of these: prompts and drafts in one
  std::atomic<std::size_t> most_rows = 0;
  std::atomic<std::size_t> most_logits = 0;

  /// Throws IoError at kPoison.
  void add(std::span<const models::SequenceSlice> slices) {
    std::size_t n_rows = 0;
    std::size_t n_logits = 0;
    bool has_prompt = false;
    bool has_round = false;
    for (const models::SequenceSlice& slice : slices) {
      n_rows += slice.tokens.size();
      n_logits += slice.n_logits;
      (slice.n_logits == slice.tokens.size() ? has_round : has_prompt) = true;
      if (std::find(slice.tokens.begin(), slice.tokens.end(), kPoison) != slice.tokens.end())
        throw IoError("poisoned");
    }
    if (slices.size() < 2) return;
    ++n_shared;
    n_mixed += has_prompt && has_round ? 1 : 0;
    most_rows = std::max(most_rows.load(), n_rows);
    most_logits = std::max(most_logits.load(), n_logits);
  }
};

class BatchOnFakeModel : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> open(std::size_t max_sessions, std::size_t max_queued = 64) {
    ft::testing::FakeModelOptions fake;
    fake.n_vocab = kVocab;
    fake.head_quality = 70;
    fake.is_repetitive = true;
    fake.before_forward = [this](auto slices, const auto&, auto&) { counts_.add(slices); };
    auto model = std::make_unique<ft::testing::FakeModel>(fake);
    head_ = model->fake_head();
    EngineParts parts;
    parts.model = std::move(model);
    fake.before_forward = {};  // the draft model's do not count
    parts.clock = std::make_shared<const ft::testing::FakeClock>(3);
    parts.draw_seed = [] { return std::uint64_t{1}; };
    parts.context = 4096;
    parts.prefill_chunk = kChunk;
    parts.n_logit_rows = kLogitRows;
    parts.max_sessions = max_sessions;
    parts.max_queued = max_queued;
    parts.providers["draft"] = speculation::make_draft_model_provider(
        std::make_unique<ft::testing::FakeModel>(fake), {.chunk = 3});
    return std::make_unique<Engine>(std::move(parts));
  }

  static foretoken::GenerationRequest request(std::size_t max_tokens) {
    foretoken::GenerationRequest out;
    out.prompt = {1, 2, 3};
    out.max_tokens = max_tokens;
    out.sampling.seed = 5;
    out.sampling.logit_bias = {{kPoison, -1000.0F}};
    out.ignore_eos = true;
    out.speculate = {"none"};
    return out;
  }

  Counts counts_;
  const ft::testing::FakeDraftHead* head_ = nullptr;  // of the engine that was opened last
};

foretoken::GenerationRequest random_request(std::mt19937_64& random) {
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  foretoken::GenerationRequest out;
  out.prompt.resize(1 + (below(3) == 0 ? below(150) : below(20)));
  for (Token& token : out.prompt) token = static_cast<Token>(below(kPoison));
  out.max_tokens = 1 + below(60);
  out.sampling.seed = below(1000);
  out.sampling.temperature = below(3) == 0 ? 0.0F : 0.7F;
  out.sampling.logit_bias = {{kPoison, -1000.0F}};
  out.ignore_eos = below(2) == 0;
  out.logprobs = 0;
  const std::vector<std::vector<std::string>> sources = {
      {"none"}, {"mtp"}, {"ngram"}, {"suffix"}, {"draft"}, {"auto"}, {"mtp", "ngram"}};
  out.speculate = sources[below(sources.size())];
  if (below(2) == 0) out.draft_tokens = below(20);
  // Which of several sources drafts depends on measured times, and with it a text in ratio mode.
  const bool is_one = out.speculate.size() == 1 && out.speculate.front() != "auto";
  if (below(3) == 0 && out.draft_tokens && is_one) out.accept = "ratio";
  if (below(2) == 0) out.prefill_chunk = 1 + below(30);
  return out;
}

TEST_F(BatchOnFakeModel, EveryReplyIsThatOfItsRunAlone) {
  for (const std::size_t n_sessions : {1U, 4U, 16U}) {
    const auto engine = open(n_sessions);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      std::mt19937_64 random(1000 * n_sessions + seed);
      std::vector<foretoken::GenerationRequest> requests;
      std::vector<Reply> alone;
      for (std::size_t i = 0; i < n_sessions + 4; ++i) {
        requests.push_back(random_request(random));
        alone.push_back(run_alone(*engine, requests.back()));
      }
      std::vector<std::shared_ptr<EventChannel>> channels(requests.size());
      std::vector<Reply> together(requests.size());
      std::vector<bool> is_cancelled(requests.size());
      for (std::size_t i = 0; i < requests.size(); ++i) {
        channels[i] = engine->submit(requests[i]);
        // Later ones join while others are in the midst of things.
        const std::size_t watched = random() % (i + 1);
        for (std::size_t n = random() % 4; n > 0; --n) {
          if (const auto event = channels[watched]->next()) take(*event, together[watched]);
        }
        if (random() % 6 == 0) {
          channels[watched]->cancel();
          is_cancelled[watched] = true;
        }
      }
      for (std::size_t i = 0; i < requests.size(); ++i) {
        while (const auto event = channels[i]->next()) take(*event, together[i]);
        if (is_cancelled[i]) {
          ASSERT_LE(together[i].ids.size(), alone[i].ids.size());
          EXPECT_TRUE(
              std::equal(together[i].ids.begin(), together[i].ids.end(), alone[i].ids.begin()))
              << n_sessions << ' ' << seed << ' ' << i;
        } else {
          EXPECT_EQ(together[i], alone[i]) << n_sessions << ' ' << seed << ' ' << i;
        }
      }
    }
    EXPECT_EQ(counts_.n_shared > 0, n_sessions > 1);
    EXPECT_EQ(head_->n_shared() > 0, n_sessions > 1);
  }
  EXPECT_GT(counts_.n_mixed, 0U);
  EXPECT_LE(counts_.most_rows, std::max(kChunk, speculation::kMaxDraftTokens + 1));
  EXPECT_LE(counts_.most_logits, kLogitRows);
}

TEST_F(BatchOnFakeModel, APlannerStartsWithWhatTheLastOneLearned) {
  const auto engine = open(2);
  std::vector<std::size_t> n_baselines;
  for (int i = 0; i < 2; ++i) {
    foretoken::GenerationRequest wanted = request(100);
    wanted.speculate = {"mtp"};
    n_baselines.push_back(0);
    wanted.trace = [&n = n_baselines.back()](std::string_view line) {
      n += line.find(R"("reason":"baseline")") != std::string_view::npos ? 1 : 0;
    };
    run_alone(*engine, wanted);
  }
  EXPECT_GT(n_baselines[0], 0U);
  EXPECT_EQ(n_baselines[1], 0U);
}

TEST_F(BatchOnFakeModel, ARequestThatFailsTakesNobodyWithIt) {
  const auto engine = open(4);
  const Reply expected = run_alone(*engine, request(200));
  foretoken::GenerationRequest poisoned = request(200);
  poisoned.prompt.resize(400, 1);
  poisoned.prompt[300] = kPoison;  // seen when the others have long begun
  foretoken::GenerationRequest broken = request(200);
  broken.trace = [](std::string_view) { throw IoError("the disk is full"); };
  std::vector<std::shared_ptr<EventChannel>> channels;
  for (const auto& wanted : {request(200), poisoned, broken, request(200)})
    channels.push_back(engine->submit(wanted));
  EXPECT_EQ(collect(*channels[0]), expected);
  EXPECT_EQ(collect(*channels[3]), expected);
  EXPECT_THROW(collect(*channels[1]), foretoken::Error);
  EXPECT_THROW(collect(*channels[2]), foretoken::Error);
  EXPECT_GT(counts_.n_shared, 0U);
}

TEST_F(BatchOnFakeModel, AReaderThatStallsHoldsUpNobody) {
  const auto engine = open(2);
  const Reply expected = run_alone(*engine, request(2000));
  const auto stalled = engine->submit(request(2000));  // more events than its queue holds
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run_alone(*engine, request(300)).ids.size(), 300U);
  EXPECT_EQ(collect(*stalled), expected);
}

TEST_F(BatchOnFakeModel, RefusesWhatNeitherRunsNorWaits) {
  const auto engine = open(1, 1);
  const auto running = engine->submit(request(4000));  // stalls, for nobody reads
  const auto waiting = engine->submit(request(5));
  try {
    engine->submit(request(5));
    FAIL() << "accepted";
  } catch (const foretoken::Busy& error) {
    EXPECT_NE(std::string(error.what()).find("max_sessions 1, max_queued 1"), std::string::npos)
        << error.what();
  }
  // Who gives up waiting leaves at once, and his place is free.
  waiting->cancel();
  EXPECT_EQ(collect(*waiting).completion.finish_reason, foretoken::FinishReason::kCancelled);
  const auto next = engine->submit(request(5));
  running->abandon();
  EXPECT_EQ(collect(*next).ids.size(), 5U);
}

TEST_F(BatchOnFakeModel, AMeasuredRequestRunsAlone) {
  const auto engine = open(4);
  foretoken::GenerationRequest measured = request(100);
  measured.measure_work = true;
  std::vector<std::shared_ptr<EventChannel>> channels;
  for (int i = 0; i < 3; ++i) channels.push_back(engine->submit(measured));
  for (const auto& channel : channels) {
    EXPECT_TRUE(collect(*channel).completion.predicted_work.has_value());
  }
  EXPECT_EQ(counts_.n_shared, 0U);
}

TEST_F(BatchOnFakeModel, ClosesWithManyRequestsInAllStates) {
  auto engine = open(3);
  std::vector<std::shared_ptr<EventChannel>> channels;
  for (int i = 0; i < 6; ++i) channels.push_back(engine->submit(request(4000)));
  while (!std::holds_alternative<foretoken::CommittedTokens>(*channels[2]->next())) {
  }
  engine.reset();
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (i < 3) {
      EXPECT_EQ(collect(*channels[i]).completion.finish_reason,
                foretoken::FinishReason::kCancelled);
    } else {
      EXPECT_THROW(collect(*channels[i]), foretoken::Error);
    }
  }
}

TEST(BatchOnGlmMini, EveryReplyIsThatOfItsRunAlone) {
  foretoken::EngineOptions options;
  options.model_path = FT_SOURCE_DIR "/models/glm-mini";
  options.context = 256;
  options.max_sessions = 5;
  Engine engine(open_parts(options));
  std::vector<foretoken::GenerationRequest> requests;
  const std::vector<std::string> sources = {"none", "mtp", "ngram", "suffix", "auto"};
  for (std::size_t i = 0; i < sources.size(); ++i) {
    foretoken::GenerationRequest wanted;
    const std::string text = std::string(20 * i + 5, 'a') + " once upon a time, once upon a";
    wanted.prompt = engine.parts().text->tokenizer().encode(text);
    wanted.max_tokens = 24;
    wanted.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
    wanted.sampling.seed = i;
    wanted.ignore_eos = true;
    wanted.speculate = {sources[i]};
    wanted.logprobs = 0;
    wanted.prefill_chunk = 7;
    requests.push_back(wanted);
  }
  std::vector<Reply> alone;
  for (const auto& wanted : requests) alone.push_back(run_alone(engine, wanted));
  std::vector<std::shared_ptr<EventChannel>> channels;
  for (const auto& wanted : requests) channels.push_back(engine.submit(wanted));
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(collect(*channels[i]), alone[i]) << sources[i];
}

TEST(BatchOnGlmMini, TheDraftHeadsOfAllSessionsAreInThePlan) {
  const auto plan = [](std::size_t n_sessions, bool plans_drafts, std::size_t chunk = 512) {
    foretoken::EngineOptions options;
    options.model_path = FT_SOURCE_DIR "/models/glm-mini";
    options.prefill_chunk = chunk;
    options.max_sessions = n_sessions;
    options.plans_drafts = plans_drafts;
    return plan_model(options);
  };
  const auto workspaces = [](const ModelPlan& of) {
    return std::ranges::find(of.parts.memory.terms, "workspaces", &MemoryTerm::name)->bytes;
  };
  const std::uint64_t head = plan(1, true).needs.draft_workspace_bytes;
  const auto d_model =
      models::inspect_model(checkpoint::Checkpoint::open(FT_SOURCE_DIR "/models/glm-mini"))
          .config.d_model;
  EXPECT_GT(head, speculation::HeadHistory::kMaxRows * 5 * d_model * sizeof(float));
  EXPECT_EQ(head, plan(1, true, 2048).needs.draft_workspace_bytes);  // whatever the chunk is
  EXPECT_EQ(workspaces(plan(1, true)), workspaces(plan(1, false)) + head);
  EXPECT_EQ(workspaces(plan(3, true)), workspaces(plan(1, true)) + 5 * head);
  EXPECT_EQ(workspaces(plan(3, false)), workspaces(plan(1, false)));
}

}  // namespace
}  // namespace ft::engine
