// A session that is taken up again goes on as if it had never been put down.
#include "engine/session_state.h"

#include "base/error.h"
#include "engine/open_engine.h"
#include "engine/session.h"
#include "speculation/draft_model.h"
#include "testing/block_drafter.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::engine {
namespace {

using ::testing::HasSubstr;

EngineParts fake_parts(std::size_t context = 256, std::string weights_hash = "fake") {
  ft::testing::FakeModelOptions fake;
  fake.head_quality = 70;
  fake.is_repetitive = true;
  fake.weights_hash = std::move(weights_hash);
  EngineParts parts;
  parts.model = std::make_unique<ft::testing::FakeModel>(fake);
  parts.clock = std::make_shared<const ft::testing::FakeClock>(3);
  parts.draw_seed = [] { return std::uint64_t{1}; };
  parts.context = context;
  parts.prefill_chunk = 512;
  parts.providers["block"] = std::make_unique<ft::testing::BlockDraftProvider>(
      ft::testing::BlockDrafterOptions{.check = ft::testing::fake_feature_check({1, 3})});
  ft::testing::FakeModelOptions draft;
  draft.is_repetitive = true;
  parts.providers["draft"] = speculation::make_draft_model_provider(
      std::make_unique<ft::testing::FakeModel>(draft), {.chunk = 3});
  return parts;
}

const std::vector<Token> kPrompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};

SessionOptions options_for(std::string source,
                           sampling::AcceptMode accept = sampling::AcceptMode::kMatch) {
  SessionOptions options;
  options.sampling.seed = 7;
  options.sampling.temperature = 0.8f;
  options.sampling.frequency_penalty = 0.1f;
  options.sources = {std::move(source)};
  options.draft_tokens = 3;
  options.accept = accept;
  options.ignore_eos = true;
  return options;
}

/// All that a caller can see of a round.
struct Seen {
  std::vector<Token> drafts;
  std::size_t n_accepted = 0;
  bool operator==(const Seen&) const = default;
};

Seen one_round(Session& session) {
  const RoundReport report = session.round(50, {});
  return {report.result.drafts, report.result.n_accepted};
}

std::vector<Seen> rounds(Session& session, std::size_t n) {
  std::vector<Seen> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(one_round(session));
  return out;
}

void start(Session& session, const std::vector<Token>& prompt) {
  session.begin(prompt);
  while (session.n_unfed() > 4) session.prefill(4, {});
  session.first_token(session.prefill(4, {}));
}

std::vector<Token> text_of(const Session& session) {
  return {session.tokens().begin(), session.tokens().end()};
}

std::size_t n_accepted(const std::vector<Seen>& seen) {
  std::size_t n = 0;
  for (const Seen& round : seen) n += round.n_accepted;
  return n;
}

/// Saved after each of 0 ... n_points rounds, restored in a new session and in one that has a text
/// of its own.
void expect_taken_up(EngineCore& core,
                     const SessionOptions& options,
                     const std::vector<Token>& prompt,
                     std::size_t n_points) {
  std::size_t n_all = 0;
  for (std::size_t point = 0; point <= n_points; ++point) {
    SCOPED_TRACE(options.sources[0] + " after " + std::to_string(point) + " rounds");
    std::unique_ptr<SessionState> saved;
    std::vector<Seen> expected;
    std::vector<Token> text;
    {
      Session session(core, options);
      start(session, prompt);
      rounds(session, point);
      saved = std::make_unique<SessionState>(session.save());
      expected = rounds(session, 8);
      text = text_of(session);
    }
    for (const bool is_used : {false, true}) {
      Session session(core, options);
      if (is_used) {
        start(session, {prompt.rbegin(), prompt.rend()});
        rounds(session, 3);
      }
      session.restore(*saved);
      EXPECT_EQ(rounds(session, 8), expected);
      EXPECT_EQ(text_of(session), text);
    }
    n_all += n_accepted(expected);
  }
  // The fake model's text hardly repeats itself: lookups draft, and are wrong.
  const bool is_lookup = options.sources[0] == "ngram" || options.sources[0] == "suffix";
  EXPECT_TRUE(is_lookup || n_all > 0) << options.sources[0];
}

TEST(SessionState, IsTakenUpAtEveryPointByEverySource) {
  EngineCore core(fake_parts());
  for (const char* source : {"mtp", "ngram", "suffix", "block", "draft"}) {
    expect_taken_up(core, options_for(source), kPrompt, 9);
    expect_taken_up(core, options_for(source, sampling::AcceptMode::kRatio), kPrompt, 3);
  }
}

TEST(SessionState, IsTakenUpInARealModel) {
  foretoken::EngineOptions options;
  options.model_path = FT_SOURCE_DIR "/models/glm-mini";
  options.n_threads = 2;
  options.context = 256;
  EngineCore core(open_parts(options));
  std::vector<Token> prompt;
  for (Token i = 0; i < 30; ++i) prompt.push_back(40 + i % 7);
  expect_taken_up(core, options_for("mtp"), prompt, 4);
}

TEST(SessionState, IsTakenUpWithinThePrompt) {
  EngineCore core(fake_parts());
  Session session(core, options_for("mtp"));
  session.begin(kPrompt);
  session.prefill(4, {});
  const SessionState saved = session.save();
  EXPECT_EQ(saved.n_fed, 4U);
  session.prefill(7, {});
  EXPECT_THROW(session.save(), LogicError) << "the logits of the last position are not kept";

  Session whole(core, options_for("mtp"));
  start(whole, kPrompt);
  const std::vector<Seen> expected = rounds(whole, 6);
  session.restore(saved);
  EXPECT_EQ(session.n_unfed(), 7U);
  session.first_token(session.prefill(7, {}));
  EXPECT_EQ(rounds(session, 6), expected);
  EXPECT_EQ(text_of(session), text_of(whole));
}

/// A session whose prompt begins with what another one had.
struct Continued {
  std::vector<Token> prompt;
  std::size_t n_fed = 0;  // of it, by the other one
};

/// The prompts of later requests, from the text of an earlier one: all of it and more, all of it,
/// some of it, and another text from there on.
std::vector<Continued> continuations(const std::vector<Token>& text, std::size_t n_fed) {
  const auto front = [&text](std::size_t n) {
    return std::vector<Token>(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
  };
  std::vector<Continued> out = {{text, n_fed}, {front(9), 8}, {text, n_fed}, {front(14), 13}};
  out[0].prompt.insert(out[0].prompt.end(), {7, 8, 7, 8});
  out[3].prompt.insert(out[3].prompt.end(), {(text[14] + 1) % 16, 2, 3});
  return out;
}

void expect_like_new(EngineCore& core,
                     Session& session,
                     const SessionOptions& options,
                     const Continued& continued) {
  EXPECT_EQ(session.n_unfed(), continued.prompt.size() - continued.n_fed);
  session.first_token(session.prefill(100, {}));
  Session whole(core, options);
  start(whole, continued.prompt);
  // A ring of rows cannot be rewound as far as a text: until it is full again it drafts less.
  const bool is_ring = options.sources[0] == "block";
  const std::vector<Seen> seen = rounds(session, 6);
  const std::vector<Seen> of_whole = rounds(whole, 6);
  EXPECT_TRUE(is_ring || seen == of_whole);
  while (whole.tokens().size() < session.tokens().size()) one_round(whole);
  const std::vector<Token> expected = text_of(whole);
  EXPECT_TRUE(std::equal(session.tokens().begin(), session.tokens().end(), expected.begin()));
}

TEST(SessionState, ALaterPromptGoesOnFromItWithEverySource) {
  EngineCore core(fake_parts());
  for (const char* source : {"mtp", "ngram", "suffix", "block", "draft", "none"}) {
    const SessionOptions options = options_for(source);
    for (std::size_t i = 0; i < 4; ++i) {
      SCOPED_TRACE(std::string(source) + ' ' + std::to_string(i));
      Session first(core, options);
      start(first, kPrompt);
      rounds(first, 5);
      const std::vector<Token> text = text_of(first);
      const Continued next = continuations(text, first.cache().length())[i];
      {
        Session copied(core, options);
        copied.begin(next.prompt, first.save_front(next.n_fed));
        expect_like_new(core, copied, options, next);
      }
      const std::vector<Seen> expected = rounds(first, 3);  // the copy has taken nothing from it
      Session same(core, options);
      start(same, kPrompt);
      rounds(same, 5);
      EXPECT_EQ(rounds(same, 3), expected);

      Session rested(core, options);
      start(rested, kPrompt);
      rounds(rested, 5);
      SessionState state = rested.put_down();
      {
        Session forked(core, options);
        forked.begin(next.prompt, std::as_const(state));
        expect_like_new(core, forked, options, next);
      }
      Session moved(core, options);
      moved.begin(next.prompt, std::move(state));
      expect_like_new(core, moved, options, next);
    }
  }
}

TEST(SessionState, ALaterPromptGoesOnFromOneThatWasBeingFed) {
  EngineCore core(fake_parts());
  Session first(core, options_for("mtp"));
  first.begin(kPrompt);
  first.prefill(6, {});
  Session second(core, options_for("mtp"));
  second.begin(kPrompt, first.put_down());
  expect_like_new(core, second, options_for("mtp"), {kPrompt, 6});
}

TEST(SessionState, WhatCannotBeRewoundIsNotReused) {
  const ft::testing::FakeCache unlimited(64, std::nullopt);
  ft::testing::FakeCache limited(64, 3);
  for (Token i = 0; i < 10; ++i) limited.push_back(i);
  const std::vector<Token> sequence = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::vector<Token> branch = {0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3};
  EXPECT_EQ(n_reusable(sequence, limited, sequence), 10U);
  EXPECT_EQ(n_reusable(sequence, limited, branch), 0U);
  EXPECT_EQ(n_reusable(sequence, unlimited, sequence), 0U) << "nothing was fed";
  EXPECT_EQ(n_reusable({}, limited, branch), 0U);
}

TEST(SessionState, SourcesItDoesNotHoldStartWithAGap) {
  EngineCore core(fake_parts());
  Session plain(core, options_for("none"));
  start(plain, kPrompt);
  rounds(plain, 4);
  SessionState saved = plain.save();
  EXPECT_TRUE(saved.sources.empty());
  const std::vector<Seen> nothing = rounds(plain, 30);
  const std::vector<Token> text = text_of(plain);
  for (const char* source : {"mtp", "block", "ngram"}) {
    Session session(core, options_for(source));
    session.restore(saved);
    const Seen first = one_round(session);
    const std::size_t n_later = n_accepted(rounds(session, 10));
    if (std::string(source) != "ngram") {
      EXPECT_TRUE(first.drafts.empty());
      EXPECT_GT(n_later, 0U);
    }
    const std::size_t n = std::min(text.size(), session.tokens().size());
    EXPECT_TRUE(std::equal(
        text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n), session.tokens().begin()));
  }
}

TEST(SessionState, AnotherVersionOrKindOfStateIsNotUsed) {
  EngineCore core(fake_parts());
  Session from(core, options_for("mtp"));
  start(from, kPrompt);
  rounds(from, 2);
  SessionState saved = from.save();
  ASSERT_EQ(saved.sources.size(), 1U);
  ++saved.sources[0].version;
  {
    Session session(core, options_for("mtp"));
    session.restore(saved);
    EXPECT_TRUE(one_round(session).drafts.empty());
  }
  --saved.sources[0].version;
  saved.sources[0].name = "block";
  Session session(core, options_for("block"));
  session.restore(saved);
  EXPECT_TRUE(one_round(session).drafts.empty());
}

void expect_refused(EngineCore& core, const SessionState& saved, const std::string& part) {
  Session session(core, options_for("mtp"));
  start(session, {5, 5, 6});
  rounds(session, 2);
  const SessionState before = session.save();
  const std::vector<Seen> expected = rounds(session, 5);
  session.restore(before);
  try {
    session.restore(saved);
    FAIL() << part;
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
  EXPECT_EQ(rounds(session, 5), expected);
}

TEST(SessionState, OneThatDoesNotFitLeavesTheSessionAsItWas) {
  EngineCore core(fake_parts());
  Session from(core, options_for("mtp"));
  start(from, kPrompt);
  rounds(from, 2);
  const auto broken = [&from](auto change) {
    SessionState saved = from.save();
    change(saved);
    return saved;
  };
  expect_refused(core, broken([](auto& s) { s.weights_hash = "other"; }), "weights 'other'");
  expect_refused(core, broken([](auto& s) { s.kv_type = DType::kBF16; }), "its cache holds");
  expect_refused(core, broken([](auto& s) { s.context = 99; }), "context of 99");
  expect_refused(core, broken([](auto& s) { s.tokens.pop_back(); }), "do not fit");
  expect_refused(core, broken([](auto& s) { s.tokens.push_back(1); }), "do not fit");
  expect_refused(core, broken([](auto& s) { ++s.n_fed; }), "do not fit");
  expect_refused(core, broken([](auto& s) { s.n_prompt = 0; }), "do not fit");
  expect_refused(core, broken([](auto& s) { s.n_prompt = 999; }), "do not fit");
  expect_refused(core, broken([](auto& s) { s.cache = nullptr; }), "do not fit");
  expect_refused(core, broken([](auto& s) { s.tokens[2] = 16; }), "token 16, expected 0 to 15");
  expect_refused(core, broken([](auto& s) { s.tokens[2] = -1; }), "token -1");
  EngineCore wider(fake_parts(300));
  expect_refused(wider, from.save(), "context of 256 tokens, this engine has 300");
  EngineCore other(fake_parts(256, "b"));
  expect_refused(other, from.save(), "weights 'fake'");
}

}  // namespace
}  // namespace ft::engine
