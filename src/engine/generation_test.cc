// What a generation writes, counts and ends with, on a fake model: the same rounds as with a real
// one, in microseconds.
#include "engine/generation.h"

#include "engine/engine_test_fixture.h"
#include "sampling/sampler.h"
#include "testing/fake_model.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

TEST_F(EngineOnFakeModel, TellsWhichTokensWereDrafted_AndWhereTheTextOfEachEnds) {
  const auto engine = open();
  foretoken::GenerationRequest wanted = request(60);
  wanted.speculate = {"mtp"};
  wanted.draft_tokens = 3;
  const auto channel = engine->submit(wanted);
  std::vector<std::size_t> accepted;
  std::size_t n_all = 0;
  foretoken::Completion completion;
  while (auto event = channel->next()) {
    if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event)) {
      if (!accepted.empty()) {
        EXPECT_LE(tokens->ids.size(), tokens->n_accepted + 1);
      }
      accepted.push_back(tokens->n_accepted);
      n_all += tokens->n_accepted;
      ASSERT_EQ(tokens->text_ends.size(), tokens->ids.size());
      // Every token of this model is one character.
      for (std::size_t i = 0; i < tokens->ids.size(); ++i) EXPECT_EQ(tokens->text_ends[i], i + 1);
    } else if (const auto* last = std::get_if<foretoken::Completion>(&*event)) {
      completion = *last;
    }
  }
  EXPECT_EQ(accepted.at(0), 0U);  // the prefill's token
  accepted.erase(accepted.begin());
  EXPECT_EQ(accepted, completion.speculation.acceptance_lengths);
  EXPECT_GT(n_all, 0U);
  EXPECT_EQ(n_all, completion.speculation.accepted);
}

TEST_F(EngineOnFakeModel, WritesWhatTheModelAndTheSamplerSay) {
  const auto engine = open();
  const foretoken::GenerationRequest wanted = request();
  const Collected out = run(*engine, wanted);

  const auto& model = dynamic_cast<const ft::testing::FakeModel&>(*engine->parts().model);
  sampling::SamplingParams params;
  params.seed = 3;
  sampling::Sampler sampler(params, kVocab);
  std::vector<Token> tokens = wanted.prompt;
  for (std::size_t i = 0; i < wanted.max_tokens; ++i) {
    const std::vector<float> logits = model.logits_after(tokens);
    tokens.push_back(sampler.pick(logits, {tokens, wanted.prompt.size()}));
    EXPECT_EQ(out.logprobs.at(i).chosen.logprob, sampling::token_logprob(logits, tokens.back()));
  }
  EXPECT_EQ(out.ids, std::vector<Token>(tokens.begin() + 5, tokens.end()));
  EXPECT_EQ(out.text, string_of(out.ids));
  EXPECT_EQ(out.n_prefilled, 5U);
  EXPECT_EQ(out.completion.finish_reason, foretoken::FinishReason::kLength);
  EXPECT_EQ(out.completion.usage.prompt_tokens, 5U);
  EXPECT_EQ(out.completion.usage.completion_tokens, 40U);
  EXPECT_EQ(out.completion.seed, 3U);
  EXPECT_EQ(out.completion.speculation.forwards, 40U);
  EXPECT_GT(out.completion.memory.kv_bytes, 0U);
  EXPECT_GT(out.completion.memory.peak_anonymous_bytes, 0U);
}

TEST_F(EngineOnFakeModel, WritesTheSameWhateverDrafts) {
  const auto engine = open();
  const Collected base = run(*engine, request());
  for (const char* source : {"mtp", "ngram", "suffix", "auto"}) {
    for (std::size_t depth = 0; depth <= 9; ++depth) {
      for (const std::size_t chunk : {1U, 3U, 512U}) {
        foretoken::GenerationRequest wanted = request();
        wanted.speculate = {source};
        if (depth < 9) wanted.draft_tokens = depth;
        wanted.prefill_chunk = chunk;
        const Collected out = run(*engine, wanted);
        EXPECT_EQ(out.ids, base.ids) << source << ' ' << depth << ' ' << chunk;
        EXPECT_EQ(out.text, base.text);
        EXPECT_TRUE(same_logprobs(out, base));
        EXPECT_EQ(out.completion.usage.completion_tokens, 40U);
      }
    }
  }
}

TEST_F(EngineOnFakeModel, WritesTheSameWhateverIsPredicted) {
  const auto engine = open();
  const Collected base = run(*engine, request());
  std::vector<Token> huge;
  for (std::size_t i = 0; i < 512; ++i)  // as many as the context holds
    huge.push_back(static_cast<Token>(i * i % 8191 % kVocab));
  std::vector<Token> edited = base.ids;
  edited.at(20) = 95 - edited.at(20);
  const std::vector<std::vector<Token>> predictions = {base.ids, edited, huge, {kEos}};
  for (const std::vector<Token>& prediction : predictions) {
    for (const std::optional<std::size_t> depth :
         {std::optional<std::size_t>(4), std::optional<std::size_t>()}) {
      for (const char* source : {"prediction", "auto"}) {
        foretoken::GenerationRequest wanted = request();
        wanted.speculate = {source};
        wanted.draft_tokens = depth;
        wanted.prediction = prediction;
        const Collected out = run(*engine, wanted);
        EXPECT_EQ(out.ids, base.ids) << source << ' ' << prediction.size();
        EXPECT_TRUE(same_logprobs(out, base));
        EXPECT_EQ(out.completion.speculation.by_source.count("prediction"), 1U);
      }
    }
  }
  foretoken::GenerationRequest wanted = request();
  wanted.speculate = {"prediction"};
  wanted.draft_tokens = 4;
  wanted.prediction = base.ids;
  const auto right = run(*engine, wanted).completion.speculation.by_source.at("prediction");
  EXPECT_GE(right.accepted, 30U);
  EXPECT_EQ(right.accepted, right.drafted);
  wanted.prediction.clear();
  wanted.speculate = {"auto"};
  EXPECT_EQ(run(*engine, wanted).completion.speculation.by_source.count("prediction"), 0U)
      << "nothing is predicted, so nothing can be right";
}

TEST_F(EngineOnFakeModel, CountsForwardsAndAcceptedDrafts) {
  const auto engine = open();
  foretoken::GenerationRequest wanted = request(64);
  wanted.speculate = {"mtp"};
  wanted.draft_tokens = 3;
  const foretoken::SpeculationStatistics out = run(*engine, wanted).completion.speculation;
  EXPECT_EQ(out.sources, std::vector<std::string>{"mtp"});
  EXPECT_EQ(out.acceptance_lengths.size(), out.rounds);
  EXPECT_EQ(out.forwards, out.rounds + 1);
  EXPECT_GT(out.accepted, 0U);
  EXPECT_EQ(1 + out.rounds + out.accepted, 64U);  // no round may commit more than what is left
  EXPECT_EQ(out.forwards_saved, 64 - out.forwards);
  EXPECT_EQ(out.by_source.at("mtp").drafted, out.drafted);
}

TEST_F(EngineOnFakeModel, RatioModeIsReproducedAndTellsItsMode) {
  const auto engine = open();
  foretoken::GenerationRequest wanted = request(64);
  wanted.speculate = {"mtp", "ngram"};
  wanted.draft_tokens = 3;
  wanted.sampling.temperature = 1.0F;
  wanted.logprobs = 2;
  EXPECT_EQ(run(*engine, wanted).completion.speculation.accept, "match");
  wanted.accept = "ratio";
  const Collected out = run(*engine, wanted);
  EXPECT_EQ(run(*engine, wanted).ids, out.ids);
  EXPECT_EQ(out.completion.speculation.accept, "ratio");
  EXPECT_GT(out.completion.speculation.accepted, 0U);
  EXPECT_EQ(out.ids.size(), 64U);
  // Log-probabilities are those of the rows that chose the tokens.
  const auto& model = dynamic_cast<const ft::testing::FakeModel&>(*engine->parts().model);
  std::vector<Token> tokens = wanted.prompt;
  for (std::size_t i = 0; i < out.ids.size(); ++i) {
    const float expected = sampling::token_logprob(model.logits_after(tokens), out.ids[i]);
    EXPECT_EQ(out.logprobs[i].chosen.logprob, expected);
    tokens.push_back(out.ids[i]);
  }
}

TEST_F(EngineOnFakeModel, RatioModeWithoutDraftsOrGreedyIsMatchMode) {
  const auto engine = open();
  foretoken::GenerationRequest wanted = request(40);
  wanted.sampling.temperature = 1.0F;
  wanted.speculate = {"none"};
  const Collected plain = run(*engine, wanted);
  wanted.accept = "ratio";
  EXPECT_EQ(run(*engine, wanted).ids, plain.ids);
  wanted.sampling.temperature = 0.0F;
  wanted.speculate = {"mtp"};
  wanted.draft_tokens = 3;
  const Collected greedy = run(*engine, wanted);
  wanted.accept = "match";
  EXPECT_EQ(run(*engine, wanted).ids, greedy.ids);
}

TEST_F(EngineOnFakeModel, MeasuresWhereTheTimeGoesWithoutChangingAnything) {
  const auto engine = open();
  foretoken::GenerationRequest wanted = request();
  wanted.speculate = {"mtp"};
  const Collected plain = run(*engine, wanted);
  EXPECT_FALSE(plain.completion.prompt_work.has_value());
  EXPECT_FALSE(plain.completion.predicted_work.has_value());

  wanted.measure_work = true;
  const Collected measured = run(*engine, wanted);
  EXPECT_EQ(measured.ids, plain.ids);
  ASSERT_TRUE(measured.completion.prompt_work && measured.completion.predicted_work);
  const foretoken::StageTimes& times = measured.completion.predicted_work->stages_ms;
  const double sum = times.attention + times.indexer + times.experts + times.dense + times.head +
                     times.sampling + times.draft + times.other;
  // The two ends of the phase are read apart, 3 us per reading of the clock.
  EXPECT_NEAR(sum, measured.completion.timings.predicted_ms, 0.02);
  EXPECT_GT(times.draft, 0);
  EXPECT_GT(times.sampling, 0);
  EXPECT_GT(times.other, 0);  // the fake model's forward claims no stage
}

TEST_F(EngineOnFakeModel, TimesThePromptFromWhereItIsTold) {
  const auto engine = open(512, 70, 2);
  foretoken::GenerationRequest wanted = request();
  const Collected whole = run(*engine, wanted);
  EXPECT_EQ(whole.completion.timings.prompt_n, 5U);
  wanted.n_untimed = 3;
  const Collected rest = run(*engine, wanted);
  EXPECT_EQ(rest.ids, whole.ids);
  EXPECT_EQ(rest.completion.timings.prompt_n, 2U);
  EXPECT_EQ(rest.completion.usage.prompt_tokens, 5U);
  EXPECT_LT(rest.completion.timings.prompt_ms, whole.completion.timings.prompt_ms);
}

TEST_F(EngineOnFakeModel, EndsAtEndOfText) {
  const auto engine = open();
  foretoken::GenerationRequest wanted = request(500);
  wanted.sampling.logit_bias = {{kEos, 3.0F}};
  const Collected endless = run(*engine, wanted);
  const auto eos = std::find(endless.ids.begin(), endless.ids.end(), kEos);
  ASSERT_NE(eos, endless.ids.end());
  const std::vector<Token> expected(endless.ids.begin(), eos + 1);
  for (const std::size_t depth : {0U, 1U, 4U, 8U}) {
    wanted.ignore_eos = false;
    wanted.speculate = {"mtp"};
    wanted.draft_tokens = depth;
    const Collected out = run(*engine, wanted);
    EXPECT_EQ(out.ids, expected) << depth;
    EXPECT_EQ(out.text, string_of({expected.begin(), expected.end() - 1}));
    EXPECT_EQ(out.completion.finish_reason, foretoken::FinishReason::kStop);
    EXPECT_FALSE(out.completion.stop.has_value());
  }
}

TEST_F(EngineOnFakeModel, CutsEverythingBehindAStopString) {
  const auto engine = open();
  const Collected base = run(*engine, request());
  for (std::size_t at = 1; at + 2 <= 12; ++at) {
    const std::string stop = base.text.substr(at, 2);
    const std::size_t first = base.text.find(stop);
    for (const std::size_t depth : {0U, 1U, 3U, 8U}) {
      foretoken::GenerationRequest wanted = request();
      wanted.stop = {"never written", stop};
      wanted.speculate = {"mtp"};
      wanted.draft_tokens = depth;
      const Collected out = run(*engine, wanted);
      EXPECT_EQ(out.text, base.text.substr(0, first));
      EXPECT_EQ(out.ids,
                std::vector<Token>(base.ids.begin(),
                                   base.ids.begin() + static_cast<std::ptrdiff_t>(first + 2)));
      EXPECT_EQ(out.logprobs.size(), out.ids.size());
      EXPECT_EQ(out.completion.usage.completion_tokens, out.ids.size());
      EXPECT_EQ(out.completion.finish_reason, foretoken::FinishReason::kStop);
      EXPECT_EQ(out.completion.stop, stop);
    }
  }
}

TEST_F(EngineOnFakeModel, NeverWritesMoreThanItMay) {
  const auto engine = open();
  const Collected base = run(*engine, request());
  for (std::size_t n = 1; n <= 12; ++n) {
    foretoken::GenerationRequest wanted = request(n);
    wanted.speculate = {"mtp"};
    wanted.draft_tokens = 8;
    const Collected out = run(*engine, wanted);
    EXPECT_EQ(
        out.ids,
        std::vector<Token>(base.ids.begin(), base.ids.begin() + static_cast<std::ptrdiff_t>(n)));
    EXPECT_EQ(out.completion.finish_reason, foretoken::FinishReason::kLength);
  }
}

TEST_F(EngineOnFakeModel, EndsWhereTheContextEnds) {
  const auto engine = open(20);
  const Collected base = run(*open(), request());
  for (const std::size_t depth : {0U, 1U, 5U, 8U}) {
    foretoken::GenerationRequest wanted = request();
    wanted.speculate = {"mtp"};
    wanted.draft_tokens = depth;
    const Collected out = run(*engine, wanted);
    // The last token is sampled from position 20 and needs none itself.
    EXPECT_EQ(out.ids, std::vector<Token>(base.ids.begin(), base.ids.begin() + 16)) << depth;
    EXPECT_EQ(out.completion.finish_reason, foretoken::FinishReason::kLength);
  }
}

}  // namespace
}  // namespace ft::engine
