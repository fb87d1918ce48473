// Sources that look things up: `ngram`, `suffix`, `prediction`.
#include "base/random.h"
#include "speculation/draft_source.h"
#include "speculation/prefill.h"
#include "speculation/round_planner.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"
#include "testing/scripted_model.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const testing::FakeModel& fake_model() {
  static const testing::FakeModel model(testing::FakeModelOptions{});
  return model;
}

std::unique_ptr<DraftSource> open(std::string_view name, TokenSpan prediction = {}) {
  return make_draft_provider(name, fake_model())
      ->open({.model = &fake_model(), .cache_options = {}, .prediction = prediction});
}

void show(DraftSource& source, TokenSpan tokens, std::size_t n_same = 0, std::size_t n_prompt = 1) {
  source.observe({.sequence = tokens, .n_prompt = n_prompt, .n_same = n_same, .taps = {}});
}

std::vector<Token> drafts(DraftSource& source, std::size_t n, TokenSpan ahead = {}) {
  return source.propose({.max_tokens = n, .ahead = ahead}, {}).tokens;
}

std::vector<Token> drafts_after(DraftSource& source,
                                const std::vector<Token>& tokens,
                                std::size_t n) {
  show(source, tokens);
  return drafts(source, n);
}

TEST(SuffixSource, ProposesWhatFollowedTheLongestRepeatedEnd) {
  const auto source = open("suffix");
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 4), ElementsAre(4, 5, 6));
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 4, 7, 9, 2, 3, 4, 8, 5, 1, 2, 3, 4}, 2),
              ElementsAre(7, 9));
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 1, 2, 1, 2, 1}, 5), ElementsAre(2, 1, 2, 1, 2));
}

TEST(SuffixSource, ProposesLittleAfterAShortMatch) {
  const auto source = open("suffix");
  EXPECT_THAT(drafts_after(*source, {1, 2, 3}, 5), IsEmpty());
  EXPECT_THAT(drafts_after(*source, {1, 5, 6, 1}, 5), IsEmpty());
  EXPECT_THAT(drafts_after(*source, {1, 2, 5, 6, 1, 2}, 5), ElementsAre(5, 6));
  EXPECT_THAT(drafts_after(*source, {1, 2, 5, 6, 1, 2}, 1), ElementsAre(5));
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 4, 8, 1, 2, 3, 4}, 6), ElementsAre(8, 1, 2, 3));
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 4, 5, 8, 1, 2, 3, 4, 5}, 6),
              ElementsAre(8, 1, 2, 3, 4, 5));
}

TEST(SuffixSource, AnOfferTellsHowLongTheMatchIs) {
  const auto source = open("suffix");
  std::vector<Token> text(12);
  std::iota(text.begin(), text.end(), 0);
  text.push_back(50);
  const std::vector<std::size_t> strengths = {0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 3, 3};
  for (std::size_t length = 1; length <= 11; ++length) {
    text.push_back(static_cast<Token>(length - 1));
    show(*source, text);
    EXPECT_EQ(source->offer(4)->strength, strengths.at(length));
    EXPECT_EQ(source->offer(4)->n_tokens, length < 2 ? 0u : std::min<std::size_t>(4, length));
  }
}

// The copy runs through the drafts ahead and into its own.
TEST(SuffixSource, GoesOnBehindDraftsOfAPeriodicText) {
  const auto source = open("suffix");
  EXPECT_EQ(source->offer(4)->n_tokens, 0u) << "nothing is known yet";
  show(*source, std::vector<Token>{9, 1, 2, 1, 2, 1, 2});
  EXPECT_THAT(drafts(*source, 5, std::vector<Token>{1, 2}), ElementsAre(1, 2, 1, 2, 1));
  EXPECT_THAT(drafts(*source, 5, std::vector<Token>{3}), IsEmpty());
}

TEST(SuffixSource, ForgetsWhatTheSessionTookBack) {
  const auto source = open("suffix");
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 4, 1, 2, 3}, 1), ElementsAre(4));
  EXPECT_THAT(drafts_after(*source, {1, 2, 3, 5, 1, 2, 3}, 1), ElementsAre(5));
  EXPECT_THAT(drafts_after(*source, {1, 2, 3}, 1), IsEmpty());
}

class EarlierSessions : public ::testing::Test {
 protected:
  std::unique_ptr<DraftSource> open(std::size_t history_tokens) const {
    return provider_->open(
        {.model = &fake_model(), .cache_options = {}, .history_tokens = history_tokens});
  }
  std::vector<Token> drafts_of_session(std::size_t history_tokens,
                                       const std::vector<Token>& tokens) const {
    return drafts_after(*open(history_tokens), tokens, 8);
  }

  std::unique_ptr<DraftProvider> provider_ = make_draft_provider("suffix", fake_model());
};

TEST_F(EarlierSessions, AreRememberedOnlyIfAsked) {
  drafts_of_session(0, {1, 2, 3, 4, 5});
  EXPECT_THAT(drafts_of_session(64, {9, 1, 2, 3}), IsEmpty()) << "was not to be remembered";
  drafts_of_session(64, {1, 2, 3, 4, 5});
  EXPECT_THAT(drafts_of_session(0, {7, 1, 2, 3}), IsEmpty()) << "is not to remember";
  const auto source = open(64);
  EXPECT_THAT(drafts_after(*source, {7, 1, 2, 3}, 8), ElementsAre(4, 5)) << "to the text's end";
  EXPECT_EQ(source->offer(8)->n_tokens, 2u);
  EXPECT_THAT(drafts_after(*source, {8, 2, 3, 4}, 8), ElementsAre(5));
  EXPECT_THAT(drafts_after(*source, {8, 1}, 8), IsEmpty());
  EXPECT_THAT(drafts(*source, 8, std::vector<Token>{2, 3}), ElementsAre(4, 5));
}

TEST_F(EarlierSessions, TheLatestStay) {
  for (Token i = 0; i < 20; ++i) {
    const Token first = 20 * i;
    drafts_of_session(60, {first + 1, first + 2, first + 3, first + 4, first + 5, first + 6});
  }
  EXPECT_THAT(drafts_of_session(60, {381, 382, 383}), ElementsAre(384, 385, 386));
  EXPECT_THAT(drafts_of_session(60, {1, 2, 3}), IsEmpty());
  for (const std::size_t n : {1u, 2u, 3u}) drafts_of_session(n, {1, 2, 3, 4, 5, 6, 7});
}

TEST_F(EarlierSessions, DoNotRunIntoEachOther) {
  drafts_of_session(64, {1, 2, 3, 4});
  drafts_of_session(64, {5, 6, 7, 8});
  EXPECT_THAT(drafts_of_session(64, {9, 1, 2, 3}), ElementsAre(4));
  EXPECT_THAT(drafts_of_session(64, {10, 1, 2, 3, 4}), IsEmpty());
}

// 14 tokens: two texts of six and what separates them.
TEST_F(EarlierSessions, KeepTheirLaterHalfWhenTheyAreFull) {
  drafts_of_session(14, {1, 2, 3, 4, 5, 6});
  drafts_of_session(14, {21, 22, 23, 24, 25, 26});
  const auto before = open(14);
  EXPECT_THAT(drafts_after(*before, {1, 2, 3}, 8), ElementsAre(4, 5, 6));
  drafts_of_session(14, {41, 42, 43, 44, 45, 46});
  EXPECT_EQ(before->offer(8)->n_tokens, 0u) << "no longer there";
  EXPECT_THAT(drafts_after(*before, {9, 21, 22}, 8), IsEmpty()) << "21 is gone";
  EXPECT_THAT(drafts_after(*before, {9, 22, 23, 24}, 8), ElementsAre(25, 26));
  EXPECT_THAT(drafts_after(*before, {9, 41, 42, 43}, 8), ElementsAre(44, 45, 46));
}

TEST_F(EarlierSessions, OfALongTextTheEndIsKept) {
  std::vector<Token> text(20);
  std::iota(text.begin(), text.end(), 1);
  drafts_of_session(8, text);
  const auto source = open(8);
  EXPECT_THAT(drafts_after(*source, {30, 1, 2, 3}, 8), IsEmpty());
  EXPECT_THAT(drafts_after(*source, {30, 15, 16, 17}, 8), IsEmpty());
  EXPECT_THAT(drafts_after(*source, {30, 17, 18}, 8), ElementsAre(19, 20));
}

TEST_F(EarlierSessions, TheLongerMatchWinsAndOfEqualOnesTheSessionsOwn) {
  drafts_of_session(64, {1, 2, 3, 4, 5, 30, 31, 32, 33, 34});
  const auto source = open(64);
  EXPECT_THAT(drafts_after(*source, {4, 5, 40, 1, 2, 3, 4, 5}, 2), ElementsAre(30, 31));
  EXPECT_THAT(drafts_after(*source, {7, 4, 5, 40, 7, 4, 5}, 2), ElementsAre(40, 7));
  EXPECT_THAT(drafts_after(*source, {4, 5, 40, 41, 4, 5}, 2), ElementsAre(40, 41));
}

// The session goes on before it is asked again; what it stood in is no place any more.
TEST_F(EarlierSessions, MayBeDroppedBetweenRounds) {
  std::vector<Token> text(40);
  std::iota(text.begin(), text.end(), 100);
  drafts_of_session(80, text);
  const auto source = open(80);
  show(*source, std::vector<Token>(text.begin(), text.begin() + 39));
  text.assign(40, 50);
  drafts_of_session(80, text);
  drafts_of_session(80, {1, 2, 3, 4, 5});
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 3}, 8), ElementsAre(4, 5));
}

// The place is looked for again with the session's own end, not from where it stood.
TEST_F(EarlierSessions, AreMatchedAsBeforeWhenMoreAreAdded) {
  drafts_of_session(64, {1, 2, 1, 2, 5, 6});
  const auto source = open(64);
  EXPECT_THAT(drafts_after(*source, {1, 2}, 8), ElementsAre(5, 6));
  EXPECT_EQ(source->offer(8)->strength, 0u);
  drafts_of_session(64, {7, 8});
  EXPECT_EQ(source->offer(8)->strength, 0u);
}

TEST_F(EarlierSessions, AMatchEndsWithWhatTheSessionTookBack) {
  drafts_of_session(64, {1, 2, 3, 4, 5, 6});
  const auto source = open(64);
  EXPECT_THAT(drafts_after(*source, {1, 2, 3}, 8), ElementsAre(4, 5, 6));
  EXPECT_THAT(drafts_after(*source, {4}, 8), IsEmpty());
}

// Sessions end while another one stands in the texts that make room for theirs.
TEST_F(EarlierSessions, MayBeDroppedWhileASessionFollowsThem) {
  drafts_of_session(60, {1, 2, 3, 4, 5, 6});
  const auto source = open(60);
  EXPECT_THAT(drafts_after(*source, {9, 2, 3, 4}, 8), ElementsAre(5, 6));
  for (Token i = 1; i < 9; ++i) {
    const Token first = 20 * i;
    drafts_of_session(60, {first + 1, first + 2, first + 3, first + 4, first + 5, first + 6});
  }
  EXPECT_THAT(drafts(*source, 8), IsEmpty()) << "what it stood in is gone";
  drafts_of_session(60, {7, 2, 3, 4, 8, 8});
  EXPECT_THAT(drafts_after(*source, {9, 2, 3, 4, 8}, 8), ElementsAre(8));
  EXPECT_EQ(source->offer(8)->strength, 1u) << "four tokens, those before the text came included";
}

TEST(PredictionSource, ProposesThePredictionFromWhereTheOutputStands) {
  const std::vector<Token> expected = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto source = open("prediction", expected);
  EXPECT_THAT(drafts_after(*source, {9}, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 3}, 9), ElementsAre(4, 5, 6, 7, 8));
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 15}, 3), IsEmpty());
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 15, 4}, 2), ElementsAre(5)) << "replaced";
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 14, 15, 3}, 2), ElementsAre(4)) << "inserted";
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 6}, 2), ElementsAre(7)) << "deleted";
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 3, 4, 5, 2, 3}, 2), ElementsAre(4, 5)) << "repeated";
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 15, 4, 5, 6}, 3), ElementsAre(7, 8));
  EXPECT_THAT(drafts_after(*source, {9, 1, 2}, 2), ElementsAre(3, 4)) << "taken back";
  EXPECT_THAT(drafts(*source, 2, std::vector<Token>{3, 4}), ElementsAre(5, 6));
  EXPECT_THAT(drafts(*source, 2), ElementsAre(3, 4));
}

TEST(PredictionSource, PicksThePlaceThatAgreesLongestThenTheNearestBehind) {
  const auto next = [](const std::vector<Token>& expected, std::vector<Token> output) {
    const auto source = open("prediction", expected);
    output.insert(output.begin(), 99);
    return drafts_after(*source, output, 1);
  };
  EXPECT_THAT(next({1, 5, 10, 4, 6, 11, 5, 6, 12}, {1, 5, 6}), ElementsAre(12)) << "two agree";
  EXPECT_THAT(next({1, 5, 7, 10, 4, 7, 6, 11, 5, 7, 6, 12}, {1, 5, 7, 6}), ElementsAre(12))
      << "three agree";
  EXPECT_THAT(next({1, 2, 3, 7, 4, 7, 5}, {1, 2, 50, 7}), ElementsAre(4)) << "the nearest";
  EXPECT_THAT(next({1, 2, 7, 3, 4, 5, 7, 6}, {1, 2, 7, 3, 4, 50, 51, 7}), ElementsAre(6))
      << "behind where it was lost";
  EXPECT_THAT(next({1, 7, 2, 7, 3, 4, 5}, {1, 7, 2, 7, 3, 50, 7}), ElementsAre(3))
      << "the nearest before";
  EXPECT_THAT(next({1, 2, 3}, {50, 1}), ElementsAre(2)) << "the first token";
  EXPECT_THAT(next({1, 2, 3}, {1, 2, 3}), IsEmpty()) << "the end";
  EXPECT_THAT(next({1, 2, 3}, {1, 2, 3, 1}), ElementsAre(2)) << "once more";
}

// After the two have parted: as many as agree since, until four do.
TEST(PredictionSource, TrustsAPlaceAsFarAsItAgrees) {
  std::vector<Token> expected(40);
  std::iota(expected.begin(), expected.end(), 1);
  const auto source = open("prediction", expected);
  std::vector<Token> output = {99};
  show(*source, output);
  EXPECT_EQ(drafts(*source, 9).size(), 9u) << "the start";
  output.push_back(60);
  const std::vector<std::size_t> sizes = {0, 1, 2, 3, 9, 9};
  const std::vector<std::size_t> strengths = {0, 0, 1, 1, 2, 2};
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    if (n > 0) output.push_back(static_cast<Token>(4 + n));
    show(*source, output);
    EXPECT_EQ(drafts(*source, 9).size(), sizes[n]) << n;
    EXPECT_EQ(source->offer(9)->n_tokens, sizes[n]) << n;
    EXPECT_EQ(source->offer(9)->strength, strengths[n]) << n;
  }
  for (Token token = 10; token < 20; ++token) output.push_back(token);
  show(*source, output);
  EXPECT_EQ(source->offer(9)->strength, 2u);
  output.push_back(20);
  show(*source, output);
  EXPECT_EQ(source->offer(9)->strength, 3u) << "16 agree";
}

TEST(PredictionSource, AnEmptyPredictionIsSilent) {
  const auto source = open("prediction");
  EXPECT_THAT(drafts_after(*source, {9, 1, 2, 3}, 3), IsEmpty());
  EXPECT_EQ(source->offer(3)->n_tokens, 0u);
}

class EachLookupSource : public ::testing::TestWithParam<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(Lookup,
                         EachLookupSource,
                         ::testing::Values("ngram", "suffix", "prediction"),
                         [](const auto& param) { return std::string(param.param); });

Token random_token(std::uint64_t seed, std::uint64_t step, std::uint64_t alphabet) {
  return static_cast<Token>(noise_bits(seed, NoisePurpose::kDraft, step, 0) % alphabet);
}

// A source that was told what stays the same, one that was told nothing, and one that was opened
// for this sequence alone say the same; an offer is what a proposal gives; drafts behind others are
// those of a sequence that ends with them, for as far as it was known; and looking changes nothing.
TEST_P(EachLookupSource, SaysTheSameHoweverItGotThere) {
  std::vector<Token> expected;
  for (std::uint64_t i = 0; i < 200; ++i) expected.push_back(random_token(1, i, 3));
  const auto told = open(GetParam(), expected);
  const auto untold = open(GetParam(), expected);
  std::vector<Token> sequence = {1};
  std::size_t n_offered = 0;
  std::size_t n_same = 0;
  for (std::uint64_t step = 0; step < 300; ++step) {
    const std::uint64_t bits = noise_bits(2, NoisePurpose::kAccept, step, 0);
    if (bits % 8 == 0) {
      sequence.resize(1 + (bits >> 8) % sequence.size());
      n_same = std::min(n_same, sequence.size());
    }
    for (std::uint64_t i = 0; i < bits % 3 + 1; ++i)
      sequence.push_back(random_token(3, 10 * step + i, 3));
    show(*told, sequence, n_same);
    show(*untold, sequence);
    const auto fresh = open(GetParam(), expected);
    show(*fresh, sequence);
    n_same = sequence.size();

    const std::size_t n = bits >> 16 & 7;
    const std::vector<Token> said = drafts(*told, n);
    ASSERT_EQ(said, drafts(*untold, n));
    ASSERT_EQ(said, drafts(*fresh, n));
    ASSERT_EQ(told->offer(n)->n_tokens, said.size());
    ASSERT_LT(told->offer(n)->strength, Offer::kStrengths);
    n_offered += said.size();

    const std::vector<Token> ahead = {random_token(4, step, 3), random_token(5, step, 3)};
    const std::vector<Token> behind = drafts(*told, n, ahead);
    ASSERT_LE(behind.size(), n);
    if (GetParam() != "suffix") {  // which does not learn from drafts
      std::vector<Token> longer = sequence;
      longer.insert(longer.end(), ahead.begin(), ahead.end());
      show(*fresh, longer);
      ASSERT_EQ(behind, drafts(*fresh, n));
    }
    ASSERT_EQ(said, drafts(*told, n));
  }
  EXPECT_GT(n_offered, 100u);
}

// A million tokens of text that repeats itself as prose does. Processor time, with room for a slow
// machine; bench/lookup_bench.cc measures.
TEST_P(EachLookupSource, CostsMicrosecondsPerTokenAtAnyLength) {
  constexpr std::size_t kTokens = 1'000'000;
  constexpr std::size_t kPerRound = 4;
  std::vector<Token> text;
  text.reserve(kTokens + kPerRound);
  for (std::uint64_t i = 0; text.size() < kTokens; ++i) {
    const std::uint64_t bits = noise_bits(7, NoisePurpose::kDraft, i, 0);
    const std::size_t n = 1 + (bits & 15);
    if (bits >> 8 & 1 && text.size() > 100) {
      const std::size_t from = (bits >> 16) % (text.size() - n);
      for (std::size_t j = 0; j < n; ++j) text.push_back(text[from + j]);
    } else {
      for (std::size_t j = 0; j < n; ++j) text.push_back(random_token(8, 16 * i + j, 20'000));
    }
  }
  const auto source = open(GetParam(), TokenSpan(text).first(kTokens / 4));
  const std::clock_t start = std::clock();
  std::size_t n_drafted = 0;
  for (std::size_t n = kPerRound; n <= kTokens; n += kPerRound) {
    show(*source, TokenSpan(text).first(n), n - kPerRound, 1);
    if (source->offer(8)->n_tokens > 0) n_drafted += drafts(*source, 8).size();
  }
  const double us = static_cast<double>(std::clock() - start) * 1e6 / CLOCKS_PER_SEC;
  RecordProperty("us_per_token", std::to_string(us / kTokens));
  EXPECT_GT(n_drafted, kTokens / 10);
#ifdef NDEBUG
  EXPECT_LT(us / kTokens, 4.0);
#endif
}

// A file of 200 lines, of words of one to three tokens, with indentation, ends of lines and names
// that come again and again.
std::vector<std::vector<Token>> source_file() {
  constexpr Token kNewline = 1;
  std::vector<std::vector<Token>> lines;
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::vector<Token> line = {
        static_cast<Token>(2 + noise_bits(1, NoisePurpose::kDraft, i, 0) % 3)};
    const std::uint64_t n = 3 + noise_bits(1, NoisePurpose::kDraft, i, 1) % 12;
    for (std::uint64_t j = 0; j < n; ++j) {
      const std::uint64_t bits = noise_bits(2, NoisePurpose::kDraft, 100 * i + j, 0);
      const bool is_frequent = bits % 2 == 0;
      line.push_back(
          static_cast<Token>(is_frequent ? 5 + (bits >> 8) % 15 : 20 + (bits >> 8) % 900));
    }
    line.push_back(kNewline);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Token> joined(const std::vector<std::vector<Token>>& lines) {
  std::vector<Token> out;
  for (const auto& line : lines) out.insert(out.end(), line.begin(), line.end());
  return out;
}

// Five lines changed: a word replaced, a line rewritten, one inserted, one deleted, one doubled.
std::vector<std::vector<Token>> edited(std::vector<std::vector<Token>> lines) {
  const auto at = [&](std::ptrdiff_t i) { return lines.begin() + i; };
  at(20)->at(2) = 950;
  *at(60) = {3, 951, 952, 953, 954, 5, 6, 1};
  lines.insert(at(100), {2, 955, 956, 5, 957, 1});
  lines.erase(at(140));
  lines.insert(at(180), std::vector<Token>(*at(179)));
  return lines;
}

struct Editing {
  std::vector<Token> text;
  std::size_t n_rounds = 0;
  std::size_t n_forwards() const { return n_rounds + 1; }
  double tokens_per_forward() const {
    return static_cast<double>(text.size()) / static_cast<double>(n_forwards());
  }
};

// As a session does it: offers, plan, round, record. Rounds take 10 ms and 0.5 ms per draft.
Editing edit(TokenSpan prediction,
             const std::vector<Token>& script,
             const std::vector<std::string_view>& names,
             std::optional<std::size_t> depth) {
  const testing::ScriptedModel model(1000, 3, script);
  const std::size_t n_context = model.config().max_context;
  sampling::SamplingParams greedy;
  greedy.temperature = 0;
  sampling::Sampler sampler(greedy, model.config().n_vocab);
  const auto cache = model.new_cache({.max_tokens = n_context});
  const auto workspace = model.new_workspace();
  std::vector<Token> tokens = {7, 8, 9};
  std::vector<std::unique_ptr<DraftSource>> owned;
  std::vector<DraftSource*> sources;
  for (const std::string_view name : names) {
    owned.push_back(make_draft_provider(name, model)
                        ->open({.model = &model,
                                .sampler = &sampler,
                                .cache_options = {},
                                .prediction = prediction}));
    sources.push_back(owned.back().get());
  }
  const testing::FakeClock clock{1};
  RoundState state{.model = &model,
                   .workspace = workspace.get(),
                   .cache = cache.get(),
                   .tokens = &tokens,
                   .n_prompt = 3,
                   .sampler = &sampler,
                   .sources = sources,
                   .stop_tokens = model.config().eos_tokens,
                   .clock = &clock};
  first_token(state, prefill_chunk(state, 3, {}).logits);
  RoundPlanner planner(sources.size(), {.fixed_depth = depth});
  Editing out;
  while (tokens.back() != testing::ScriptedModel::kStop) {
    const std::size_t max_drafts = n_context - cache->length() - 1;
    std::vector<std::optional<Offer>> offers;
    for (DraftSource* source : sources) offers.push_back(source->offer(max_drafts));
    const RoundPlan plan =
        planner.plan({.max_drafts = max_drafts, .context = cache->length(), .offers = offers});
    std::vector<Proposer> proposers;
    for (const RoundPlan::Part& part : plan.parts)
      proposers.push_back({sources[part.source], part.depth});
    const RoundResult result = decode_round(state, proposers, {});
    RoundOutcome outcome = outcome_of(result);
    outcome.draft_us = 1;
    outcome.rest_us = 10'000 + 500 * static_cast<std::int64_t>(result.drafts.size());
    planner.record(plan, outcome);
    ++out.n_rounds;
  }
  out.text.assign(tokens.begin() + 3, tokens.end() - 1);
  return out;
}

TEST(PredictionSource, AnEditedFileTakesFewForwards) {
  const std::vector<Token> before = joined(source_file());
  const std::vector<Token> after = joined(edited(source_file()));
  for (const std::optional<std::size_t> depth : {std::optional<std::size_t>(8),
                                                 std::optional<std::size_t>(16),
                                                 std::optional<std::size_t>()}) {
    const Editing alone = edit(before, after, {"prediction"}, depth);
    EXPECT_EQ(alone.text, after);
    EXPECT_GE(alone.tokens_per_forward(), 6.0) << "depth " << depth.value_or(99);
    const Editing all = edit(before, after, {"prediction", "suffix", "ngram"}, depth);
    EXPECT_EQ(all.text, after);
    EXPECT_GE(all.tokens_per_forward(), 6.0) << "depth " << depth.value_or(99);
    RecordProperty("tokens_per_forward_" + std::to_string(depth.value_or(99)),
                   std::to_string(alone.tokens_per_forward()));
  }
}

TEST(PredictionSource, ARandomPredictionChangesNothing) {
  const std::vector<Token> script = joined(source_file());
  std::vector<Token> nonsense;
  for (std::uint64_t i = 0; i < 3000; ++i) nonsense.push_back(random_token(6, i, 1000));
  for (const std::optional<std::size_t> depth :
       {std::optional<std::size_t>(5), std::optional<std::size_t>()}) {
    EXPECT_EQ(edit(nonsense, script, {"prediction", "suffix", "ngram"}, depth).text, script);
  }
}

}  // namespace
}  // namespace ft::speculation
