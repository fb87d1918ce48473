// Prompts that share a beginning with earlier or running requests: it is fed once, and every reply
// is that of a run that feeds all.
#include "engine/prefix_pool.h"

#include "base/error.h"
#include "engine/batch_test_fixture.h"
#include "engine/engine.h"
#include "engine/open_engine.h"
#include "engine/session.h"
#include "speculation/draft_model.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

constexpr std::size_t kVocab = 24;
constexpr std::size_t kContext = 400;
constexpr std::size_t kChunk = 64;

EngineParts fake_parts(std::size_t max_sessions,
                       bool reuses_prefixes,
                       std::optional<std::size_t> rollback_window = std::nullopt) {
  ft::testing::FakeModelOptions fake;
  fake.n_vocab = kVocab;
  fake.head_quality = 70;
  fake.is_repetitive = true;
  fake.rollback_window = rollback_window;
  EngineParts parts;
  parts.model = std::make_unique<ft::testing::FakeModel>(fake);
  parts.clock = std::make_shared<const ft::testing::FakeClock>(3);
  parts.draw_seed = [] { return std::uint64_t{1}; };
  parts.context = kContext;
  parts.prefill_chunk = kChunk;
  parts.max_sessions = max_sessions;
  parts.max_queued = 64;
  parts.history_tokens = 1000;
  parts.reuses_prefixes = reuses_prefixes;
  parts.providers["draft"] = speculation::make_draft_model_provider(
      std::make_unique<ft::testing::FakeModel>(fake), {.chunk = 3});
  return parts;
}

std::unique_ptr<Engine> open_fake(std::size_t max_sessions,
                                  bool reuses_prefixes,
                                  std::optional<std::size_t> rollback_window = std::nullopt) {
  return std::make_unique<Engine>(fake_parts(max_sessions, reuses_prefixes, rollback_window));
}

std::vector<Token> text(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Token> out(n);
  for (Token& token : out) token = static_cast<Token>(random() % kVocab);
  return out;
}

std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

foretoken::GenerationRequest request(std::vector<Token> prompt, std::size_t max_tokens = 20) {
  foretoken::GenerationRequest out;
  out.prompt = std::move(prompt);
  out.max_tokens = max_tokens;
  out.sampling.seed = 5;
  out.sampling.temperature = 0.7F;
  out.ignore_eos = true;
  out.speculate = {"mtp"};
  out.logprobs = 0;
  return out;
}

std::size_t n_cached(const Reply& reply) {
  return reply.completion.usage.cached_tokens;
}

/// Each request has the reply of a run that feeds all, and needs no forward for so many tokens.
class Expectation {
 public:
  explicit Expectation(Engine& engine) : engine_(engine) {}
  Reply run(const foretoken::GenerationRequest& wanted, std::size_t cached) {
    const Reply reply = run_alone(engine_, wanted);
    EXPECT_EQ(reply, run_alone(*plain_, wanted));
    EXPECT_EQ(n_cached(reply), cached);
    EXPECT_EQ(reply.completion.timings.prompt_n, wanted.prompt.size() - cached);
    return reply;
  }

 private:
  Engine& engine_;
  std::unique_ptr<Engine> plain_ = open_fake(1, false);
};

TEST(PrefixPool, ARequestGoesOnFromTheOneBefore) {
  for (const std::size_t n_sessions : {1U, 2U}) {
    const auto engine = open_fake(n_sessions, true);
    Expectation expect(*engine);
    const std::vector<Token> first = text(100, 1);
    const Reply reply = expect.run(request(first), 0);
    // The last token that was committed is not fed, and is fed now.
    const std::vector<Token> both = joined(first, reply.ids);
    expect.run(request(joined(both, text(30, 2))), both.size() - 1);
    expect.run(request(first), 99);
    expect.run(request(text(100, 3)), 0);
  }
}

TEST(PrefixPool, TheLastTokenOfAPromptIsAlwaysFed) {
  const auto engine = open_fake(1, true);
  Expectation expect(*engine);
  const std::vector<Token> first = text(100, 1);
  expect.run(request(first, 1), 0);
  expect.run(request(first, 1), 99);
  expect.run(request({first.begin(), first.begin() + 50}), 49);
}

TEST(PrefixPool, ABranchTakesACopyWhileThereIsAPlace) {
  const auto engine = open_fake(3, true);
  Expectation expect(*engine);
  const std::vector<Token> system = text(100, 1);
  const std::vector<Token> a = joined(system, text(100, 2));
  const std::vector<Token> b = joined(system, text(100, 3));
  const std::vector<Token> c = joined(system, text(100, 4));
  expect.run(request(a), 0);
  expect.run(request(b), 99);
  expect.run(request(c), 99);
  expect.run(request(a), 199);
  expect.run(request(b), 199);
  // No place is free now, and the longest rested dies: c, whose caches serve its branch.
  expect.run(request(joined(system, text(100, 5))), 99);
  expect.run(request(a), 199);
  expect.run(request(b), 199);
  expect.run(request(c), 99);
}

// Its branches carry it, so it is there as long as one of them is.
TEST(PrefixPool, ASharedBeginningStaysAsLongAsItIsUsed) {
  for (const std::size_t n_sessions : {2U, 3U}) {
    const auto engine = open_fake(n_sessions, true);
    Expectation expect(*engine);
    const std::vector<Token> system = text(100, 1);
    expect.run(request(system), 0);
    for (std::uint64_t i = 0; i < 8; ++i) {
      expect.run(request(joined(system, {static_cast<Token>(i), 1, 2})), 99);
      for (std::uint64_t j = 1; j < n_sessions; ++j)
        expect.run(request(text(100, 100 * (i + 1) + j)), 0);
    }
  }
}

// As many conversations go on as there are places, though all branch from the same session.
TEST(PrefixPool, ASharedBeginningTakesNoPlaceFromWhatBranchesFromIt) {
  const auto engine = open_fake(4, true);
  Expectation expect(*engine);
  const std::vector<Token> system = text(100, 1);
  expect.run(request(system), 0);
  std::vector<std::vector<Token>> conversations;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::vector<Token> prompt = joined(system, text(50, 10 + i));
    conversations.push_back(joined(prompt, expect.run(request(prompt), 99).ids));
  }
  for (const std::vector<Token>& conversation : conversations)
    expect.run(request(joined(conversation, {1, 2, 3})), conversation.size() - 1);
}

TEST(PrefixPool, WithOnePlaceABranchTakesIt) {
  const auto engine = open_fake(1, true);
  Expectation expect(*engine);
  const std::vector<Token> system = text(100, 1);
  expect.run(request(joined(system, text(100, 2))), 0);
  expect.run(request(joined(system, text(100, 3))), 99);
  expect.run(request(joined(system, text(100, 2))), 99);
}

TEST(PrefixPool, WhatIsTooShortIsFedAgain) {
  const auto engine = open_fake(2, true);
  Expectation expect(*engine);
  const std::vector<Token> first = text(26, 1);
  expect.run(request(first), 0);
  // The last common token is always fed.
  for (const std::size_t n : {PrefixPool::kLeastPrefix, PrefixPool::kLeastPrefix + 1}) {
    const std::vector<Token> common(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(n));
    expect.run(request(joined(common, {(first[n] + 1) % 24, 1, 2, 3})),
               n > PrefixPool::kLeastPrefix ? n - 1 : 0);
  }
}

// One that rests would cost another its place.
TEST(PrefixPool, ASessionOfAFewTokensDoesNotRest) {
  EngineCore core(fake_parts(2, true));
  for (const std::size_t n : {PrefixPool::kFewTokens - 1, PrefixPool::kFewTokens}) {
    Session session(core, {});
    core.prefixes().begin(session, text(n, n));
    session.prefill(n, {});
    core.prefixes().rest(session);
    EXPECT_EQ(core.prefixes().n_resting(), n < PrefixPool::kFewTokens ? 0U : 1U);
  }
}

TEST(PrefixPool, ACancelledPromptKeepsWhatWasFed) {
  const auto engine = open_fake(1, true);
  Expectation expect(*engine);
  foretoken::GenerationRequest wanted = request(text(350, 1));
  wanted.prefill_chunk = 1;  // its queue of events is full before the prompt is fed
  const auto channel = engine->submit(wanted);
  while (std::get<foretoken::PrefillProgress>(*channel->next()).n_done < 100) {
  }
  channel->cancel();
  const Reply cancelled = collect(*channel);
  EXPECT_EQ(cancelled.completion.finish_reason, foretoken::FinishReason::kCancelled);
  const Reply reply = run_alone(*engine, request(text(350, 1)));
  EXPECT_GE(n_cached(reply), 100U);
  EXPECT_LT(n_cached(reply), 350U);
  EXPECT_EQ(reply, run_alone(*open_fake(1, false), request(text(350, 1))));
}

TEST(PrefixPool, APromptThatManyBringIsFedOnce) {
  const auto engine = open_fake(4, true);
  const std::vector<Token> prompt = text(300, 1);
  std::vector<std::shared_ptr<EventChannel>> channels;
  std::vector<foretoken::GenerationRequest> requests;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    requests.push_back(request(prompt));
    requests.back().sampling.seed = seed;
  }
  for (const auto& wanted : requests) channels.push_back(engine->submit(wanted));
  std::size_t n_fed = 0;
  const auto plain = open_fake(1, false);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const Reply reply = collect(*channels[i]);
    EXPECT_EQ(reply, run_alone(*plain, requests[i]));
    n_fed += reply.completion.timings.prompt_n;
  }
  EXPECT_EQ(n_fed, 303U);
}

TEST(PrefixPool, WhoWaitsForABeginningOutlivesWhoFeedsIt) {
  const std::vector<Token> prompt = text(350, 1);
  foretoken::GenerationRequest slow = request(prompt);
  slow.prefill_chunk = 1;
  const Reply expected = run_alone(*open_fake(1, false), request(prompt));
  for (const bool is_cancelled : {false, true}) {
    const auto engine = open_fake(3, true);
    const auto feeding = engine->submit(slow);  // its queue of events fills, for nobody reads
    const auto second = engine->submit(request(prompt));
    const auto third = engine->submit(request(prompt));
    if (is_cancelled) feeding->cancel();
    EXPECT_EQ(collect(*second), expected);
    EXPECT_EQ(collect(*third), expected);
    if (is_cancelled) continue;
    EXPECT_EQ(collect(*feeding), expected);
  }
}

TEST(PrefixPool, SomeRequestsFeedAllOfTheirPrompt) {
  const auto engine = open_fake(2, true);
  Expectation expect(*engine);
  const foretoken::GenerationRequest first = request(text(100, 1));
  expect.run(first, 0);
  foretoken::GenerationRequest ratio = first;
  ratio.accept = "ratio";
  ratio.draft_tokens = 3;
  expect.run(ratio, 0);
  foretoken::GenerationRequest measured = first;
  measured.measure_work = true;
  expect.run(measured, 0);
  foretoken::GenerationRequest partly_timed = first;
  partly_timed.n_untimed = 50;
  EXPECT_EQ(n_cached(run_alone(*engine, partly_timed)), 0U);
  expect.run(first, 99);
}

TEST(PrefixPool, AnEvaluationTakesThePlaceOfTheLongestRested) {
  const auto engine = open_fake(2, true);
  Expectation expect(*engine);
  expect.run(request(text(100, 1)), 0);
  expect.run(request(text(100, 2)), 0);
  foretoken::EvaluationRequest evaluation;
  evaluation.tokens = text(100, 1);
  engine->evaluate(evaluation);
  expect.run(request(text(100, 2)), 99);
  expect.run(request(text(100, 1)), 0);
}

TEST(PrefixPool, ContextsThatEndAreReusedUpToTheirLastPosition) {
  const auto engine = open_fake(1, true);
  Expectation expect(*engine);
  const std::vector<Token> first = text(kContext - 10, 1);
  const Reply full = expect.run(request(first, 100), 0);
  EXPECT_EQ(full.ids.size(), 11U);  // the last one needs no position
  std::vector<Token> longest = joined(first, full.ids);
  longest.resize(kContext);
  EXPECT_EQ(expect.run(request(longest, 100), kContext - 1).ids.size(), 1U);
  EXPECT_THROW(engine->submit(request(text(kContext + 1, 1))), InvalidInput);
}

/// Places are for sessions at work and at rest alike.
TEST(PrefixPool, KeepsNoMoreSessionsThanThereArePlaces) {
  EngineCore core(fake_parts(3, true));
  PrefixPool& pool = core.prefixes();
  const auto rest_one = [&core, &pool](std::uint64_t seed) {
    Session session(core, {});
    pool.begin(session, text(40, seed));
    session.prefill(40, {});
    pool.rest(session);
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    rest_one(seed);
    EXPECT_EQ(pool.n_resting(), std::min<std::size_t>(seed + 1, 3));
  }
  class Owner final : public PrefixOwner {
   public:
    explicit Owner(EngineCore& of) : session_(of, {}) {}
    const Session& session() const noexcept override { return session_; }
    bool is_feeding() override { return false; }
    Session& mine() noexcept { return session_; }

   private:
    Session session_;
  };
  Owner first(core);
  pool.begin(first.mine(), text(40, 10));
  pool.add(first);
  EXPECT_EQ(pool.n_resting(), 2U);
  Owner second(core);
  pool.begin(second.mine(), joined(text(20, 3), text(20, 11)));
  EXPECT_EQ(second.mine().n_unfed(), 21U);
  pool.add(second);
  EXPECT_EQ(pool.n_resting(), 1U);
  rest_one(12);
  EXPECT_EQ(pool.n_resting(), 1U);
  pool.remove(first);
  pool.remove(second);
}

TEST(PrefixPool, OfEqualsTheOneThatDiesIsTakenAndNothingIsCopied) {
  EngineCore core(fake_parts(2, true));
  PrefixPool& pool = core.prefixes();
  const std::vector<Token> system = text(40, 1);
  std::vector<const cache::KvCache*> caches;
  for (const std::size_t n_more : {60U, 30U}) {
    Session session(core, {});
    pool.begin_empty(session, joined(system, text(n_more, n_more)));
    session.prefill(system.size() + n_more, {});
    caches.push_back(&session.cache());
    pool.rest(session);
  }
  Session branch(core, {});
  pool.begin(branch, joined(system, text(30, 3)));
  EXPECT_EQ(&branch.cache(), caches.front());
  EXPECT_EQ(branch.n_unfed(), 31U);
  EXPECT_EQ(pool.n_resting(), 1U);
}

foretoken::GenerationRequest random_request(std::mt19937_64& random,
                                            const std::vector<std::vector<Token>>& texts) {
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<Token> prompt = texts[below(texts.size())];
  prompt.resize(1 + below(prompt.size()));
  if (below(2) == 0) prompt = joined(prompt, text(below(60), random()));
  prompt.resize(std::min(prompt.size(), kContext));
  foretoken::GenerationRequest out = request(std::move(prompt), 1 + below(40));
  out.sampling.seed = below(4);
  out.sampling.temperature = below(3) == 0 ? 0.0F : 0.7F;
  out.ignore_eos = below(2) == 0;
  const std::vector<std::vector<std::string>> sources = {
      {"none"}, {"mtp"}, {"ngram"}, {"suffix"}, {"draft"}, {"auto"}, {"auto"}, {"mtp", "ngram"}};
  out.speculate = sources[below(sources.size())];
  if (below(2) == 0) out.draft_tokens = below(20);
  if (below(2) == 0) out.prefill_chunk = 1 + below(30);
  return out;
}

void expect_prefix(const Reply& reply, const Reply& whole) {
  ASSERT_LE(reply.ids.size(), whole.ids.size());
  EXPECT_TRUE(std::equal(reply.ids.begin(), reply.ids.end(), whole.ids.begin()));
}

/// Conversations that join, are cancelled and go on from each other's texts.
void run_conversations(Engine& engine, Engine& plain, std::uint64_t seed, std::size_t& n_reused) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<Token>> texts = {text(200, seed), text(40, seed + 1)};
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<foretoken::GenerationRequest> requests;
    std::vector<std::shared_ptr<EventChannel>> channels;
    std::vector<Reply> replies(6);
    std::vector<bool> is_cancelled(replies.size());
    for (std::size_t i = 0; i < replies.size(); ++i) {
      requests.push_back(random_request(random, texts));
      channels.push_back(engine.submit(requests.back()));
      const std::size_t watched = random() % (i + 1);
      for (std::size_t n = random() % 4; n > 0; --n) {
        if (const auto event = channels[watched]->next()) take(*event, replies[watched]);
      }
      if (random() % 5 == 0) {
        channels[watched]->cancel();
        is_cancelled[watched] = true;
      }
    }
    for (std::size_t i = 0; i < replies.size(); ++i) {
      SCOPED_TRACE(std::to_string(seed) + ' ' + std::to_string(turn) + ' ' + std::to_string(i));
      while (const auto event = channels[i]->next()) take(*event, replies[i]);
      const Reply expected = run_alone(plain, requests[i]);
      if (is_cancelled[i]) {
        expect_prefix(replies[i], expected);
      } else {
        EXPECT_EQ(replies[i], expected);
      }
      n_reused += n_cached(replies[i]) > 0 ? 1 : 0;
      texts.push_back(joined(requests[i].prompt, replies[i].ids));
    }
  }
}

TEST(PrefixPool, EveryReplyIsThatOfARunThatFeedsAll) {
  for (const std::optional<std::size_t> rollback_window :
       {std::optional<std::size_t>(), std::optional<std::size_t>(30)}) {
    const auto plain = open_fake(1, false);
    for (const std::size_t n_sessions : {1U, 3U, 8U}) {
      const auto engine = open_fake(n_sessions, true, rollback_window);
      std::size_t n_reused = 0;
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        run_conversations(*engine, *plain, 100 * n_sessions + seed, n_reused);
      }
      EXPECT_GT(n_reused, 0U);
    }
  }
}

TEST(PrefixPoolOnGlmMini, ConversationsAreThoseOfRunsThatFeedAll) {
  foretoken::EngineOptions options;
  options.model_path = FT_SOURCE_DIR "/models/glm-mini";
  options.context = 256;
  options.max_sessions = 3;
  Engine plain(open_parts(options));
  options.reuses_prefixes = true;
  Engine engine(open_parts(options));
  const text::Tokenizer& tokenizer = plain.parts().text->tokenizer();
  const std::vector<Token> system = tokenizer.encode("Once upon a time there was a little girl.");
  std::vector<std::vector<Token>> texts(3, system);
  const std::vector<std::string> sources = {"auto", "mtp", "none"};
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<foretoken::GenerationRequest> requests;
    std::vector<std::shared_ptr<EventChannel>> channels;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string more(i + 1, static_cast<char>('a' + turn));
      foretoken::GenerationRequest wanted =
          request(joined(texts[i], tokenizer.encode(" One day, " + more)), 16);
      wanted.speculate = {sources[i]};
      requests.push_back(wanted);
      channels.push_back(engine.submit(wanted));
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const Reply reply = collect(*channels[i]);
      EXPECT_EQ(reply, run_alone(plain, requests[i])) << turn << ' ' << sources[i];
      EXPECT_GE(n_cached(reply), turn > 0 ? texts[i].size() - 1 : 0);
      texts[i] = joined(requests[i].prompt, reply.ids);
    }
  }
}

}  // namespace
}  // namespace ft::engine
