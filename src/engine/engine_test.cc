// The engine on a fake model: the same rounds as with a real one, in microseconds.
#include "engine/engine.h"

#include "base/error.h"
#include "io/file.h"
#include "json/json.h"
#include "sampling/sampler.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"
#include "text/tokenizer_test_data.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

constexpr Token kEos = 0;
constexpr std::size_t kVocab =
    96;  // ids are bytes, all of them below 128: every token is one character

struct Collected {
  std::vector<Token> ids;
  std::string text;
  std::vector<foretoken::TokenLogprobs> logprobs;
  std::size_t n_prefilled = 0;
  foretoken::Completion completion;
};

Collected collect(EventChannel& channel) {
  Collected out;
  while (auto event = channel.next()) {
    if (auto* progress = std::get_if<foretoken::PrefillProgress>(&*event)) {
      out.n_prefilled = progress->n_done;
    } else if (auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event)) {
      out.ids.insert(out.ids.end(), tokens->ids.begin(), tokens->ids.end());
      out.text += tokens->text;
      out.logprobs.insert(out.logprobs.end(), tokens->logprobs.begin(), tokens->logprobs.end());
    } else {
      out.completion = std::get<foretoken::Completion>(*event);
    }
  }
  return out;
}

std::string string_of(const std::vector<Token>& ids) {
  return {ids.begin(), ids.end()};
}

bool same_logprobs(const Collected& a, const Collected& b) {
  return std::equal(a.logprobs.begin(),
                    a.logprobs.end(),
                    b.logprobs.begin(),
                    b.logprobs.end(),
                    [](const auto& x, const auto& y) {
                      return x.chosen.id == y.chosen.id && x.chosen.logprob == y.chosen.logprob;
                    });
}

class EngineOnFakeModel : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("engine_test_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
               std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    io::LineWriter(folder_ / "tokenizer.json").write(text::TokenizerFile{}.text());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Engine> open(std::size_t context = 512,
                               std::optional<unsigned> head_quality = 70,
                               std::size_t prefill_chunk = 512,
                               std::optional<std::size_t> max_prediction = std::nullopt) {
    EngineParts parts;
    parts.max_prediction = max_prediction;
    ft::testing::FakeModelOptions fake;
    fake.n_vocab = kVocab;
    fake.eos_token = kEos;
    fake.head_quality = head_quality;
    parts.model = std::make_unique<ft::testing::FakeModel>(fake);
    parts.clock = std::make_shared<const ft::testing::FakeClock>(3);
    parts.text = std::make_shared<const ModelText>(ModelText::open(folder_, parts.clock));
    parts.draw_seed = [] { return std::uint64_t{1234}; };
    parts.context = context;
    parts.prefill_chunk = prefill_chunk;
    return std::make_unique<Engine>(std::move(parts));
  }

  static foretoken::GenerationRequest request(std::size_t max_tokens = 40) {
    foretoken::GenerationRequest out;
    out.prompt = {11, 22, 33, 44, 55};
    out.max_tokens = max_tokens;
    out.sampling.temperature = 1.0F;
    out.sampling.seed = 3;
    out.ignore_eos = true;
    out.speculate = {"none"};
    out.logprobs = 0;
    return out;
  }

  static Collected run(Engine& engine, foretoken::GenerationRequest wanted) {
    return collect(*engine.submit(std::move(wanted)));
  }

  std::filesystem::path folder_;
};

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

TEST_F(EngineOnFakeModel, RefusesALongerPredictionThanMemoryWasPlannedFor) {
  const auto engine = open(512, 70, 512, 8);
  const Collected base = run(*engine, request());
  foretoken::GenerationRequest wanted = request();
  wanted.prediction.assign(base.ids.begin(), base.ids.begin() + 8);
  EXPECT_EQ(run(*engine, wanted).ids, base.ids);
  wanted.prediction.push_back(1);
  try {
    run(*engine, wanted);
    FAIL() << "accepted";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("has 9 tokens, max_prediction is 8"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(EngineOnFakeModel, RefusesWhatCannotBe) {
  const auto engine = open(20);
  const auto refused = [&](const auto& change) {
    foretoken::GenerationRequest wanted = request();
    change(wanted);
    try {
      run(*engine, wanted);
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    } catch (const foretoken::Error& error) {
      EXPECT_EQ(error.code(), foretoken::ErrorCode::kInvalidInput);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refused([](auto& r) { r.prompt.clear(); }).find("no tokens"), std::string::npos);
  const std::string too_long = refused([](auto& r) { r.prompt.assign(21, 1); });
  EXPECT_NE(too_long.find("21 tokens"), std::string::npos) << too_long;
  EXPECT_NE(too_long.find("20"), std::string::npos) << too_long;
  const std::string outside = refused([](auto& r) { r.prompt[2] = 96; });
  EXPECT_NE(outside.find("token 2 of the prompt is 96, expected 0 to 95"), std::string::npos)
      << outside;
  const std::string predicted = refused([](auto& r) { r.prediction = {1, 2, 96}; });
  EXPECT_NE(predicted.find("token 2 of the prediction is 96, expected 0 to 95"), std::string::npos)
      << predicted;
  EXPECT_NE(refused([](auto& r) { r.prediction = {-1}; }).find("-1"), std::string::npos);
  const std::string longer = refused([](auto& r) { r.prediction.assign(21, 1); });
  EXPECT_NE(longer.find("the prediction has 21 tokens, the context holds 20"), std::string::npos)
      << longer;
  EXPECT_NE(refused([](auto& r) { r.speculate = {"prediction"}; }).find("needs a prediction"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.prompt[0] = -1; }).find("-1"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.max_tokens = 0; }).find("max_tokens"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.sampling.temperature = -1.0F; }).find("-1"), std::string::npos);
  const std::string mode = refused([](auto& r) { r.accept = "lenient"; });
  EXPECT_NE(mode.find("accept is 'lenient', expected 'match'"), std::string::npos) << mode;
  EXPECT_NE(refused([](auto& r) { r.speculate = {"oracle"}; }).find("oracle"), std::string::npos);
  EXPECT_NE(refused([](auto& r) {
              r.speculate = {"auto", "mtp"};
            }).find("auto"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) {
              r.speculate = {"mtp", "mtp"};
            }).find("twice"),
            std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.draft_tokens = 65; }).find("65"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.stop = {""}; }).find("stop"), std::string::npos);
  EXPECT_NE(refused([](auto& r) { r.logprobs = 97; }).find("97"), std::string::npos);
  EXPECT_EQ(run(*engine, request(3)).ids.size(), 3U) << "a refused request leaves the engine whole";
}

TEST_F(EngineOnFakeModel, StopsWhenCancelledAndKeepsWhatWasCommitted) {
  const auto engine = open(4096);
  const auto channel = engine->submit(request(4000));
  std::vector<Token> ids;
  while (ids.size() < 5) {
    const auto event = channel->next();
    if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event)) {
      ids.insert(ids.end(), tokens->ids.begin(), tokens->ids.end());
    }
  }
  channel->cancel();
  const Collected rest = collect(*channel);
  ids.insert(ids.end(), rest.ids.begin(), rest.ids.end());
  EXPECT_EQ(rest.completion.finish_reason, foretoken::FinishReason::kCancelled);
  EXPECT_EQ(rest.completion.usage.completion_tokens, ids.size());
  EXPECT_LT(ids.size(), 4000U);
  const Collected whole = run(*engine, request(ids.size()));
  EXPECT_EQ(ids, whole.ids);
}

TEST_F(EngineOnFakeModel, ServesTheNextRequestWhenAStreamIsDropped) {
  const auto engine = open(4096);
  engine->submit(request(4000))->abandon();
  EXPECT_EQ(run(*engine, request(3)).ids.size(), 3U);
}

TEST_F(EngineOnFakeModel, ServesRequestsInOrder) {
  const auto engine = open();
  const auto first = engine->submit(request(20));
  const auto second = engine->submit(request(10));
  EXPECT_EQ(collect(*second).ids.size(), 10U);
  EXPECT_EQ(collect(*first).ids.size(), 20U);
}

TEST_F(EngineOnFakeModel, CancelsTheRunningRequestAndFailsWaitingOnesWhenItCloses) {
  auto engine = open(4096);
  const auto running = engine->submit(request(4000));
  const auto waiting = engine->submit(request());
  while (!std::holds_alternative<foretoken::CommittedTokens>(*running->next())) {
  }
  engine.reset();
  EXPECT_EQ(collect(*running).completion.finish_reason, foretoken::FinishReason::kCancelled);
  try {
    collect(*waiting);
    FAIL();
  } catch (const foretoken::Error& error) {
    EXPECT_EQ(error.code(), foretoken::ErrorCode::kCancelled);
  }
}

TEST_F(EngineOnFakeModel, ReportsAFailureInTheStreamAndLivesOn) {
  const auto engine = open();
  foretoken::GenerationRequest wanted = request();
  wanted.trace = [](std::string_view) { throw IoError("the disk is full"); };
  try {
    run(*engine, wanted);
    FAIL();
  } catch (const foretoken::Error& error) {
    EXPECT_EQ(error.code(), foretoken::ErrorCode::kIo);
    EXPECT_STREQ(error.what(), "the disk is full");
  }
  EXPECT_EQ(run(*engine, request(3)).ids.size(), 3U);
}

TEST_F(EngineOnFakeModel, TracesEveryRound) {
  const auto engine = open();
  std::vector<json::Value> lines;
  foretoken::GenerationRequest wanted = request();
  wanted.speculate = {"mtp"};
  wanted.draft_tokens = 3;
  wanted.trace = [&lines](std::string_view line) { lines.push_back(json::parse(line, "trace")); };
  const Collected out = run(*engine, wanted);
  const foretoken::SpeculationStatistics& counts = out.completion.speculation;
  ASSERT_EQ(lines.size(), counts.rounds + 1);
  EXPECT_NE(lines.front().find("plan"), nullptr);
  lines.erase(lines.begin());
  std::int64_t position = 5;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto integer = [&](const char* name) { return lines[i].find(name)->as_integer(name); };
    EXPECT_EQ(integer("round"), static_cast<std::int64_t>(i));
    EXPECT_EQ(integer("position"), position);
    EXPECT_EQ(integer("accepted"), static_cast<std::int64_t>(counts.acceptance_lengths[i]));
    EXPECT_LE(integer("accepted"), integer("depth"));
    EXPECT_EQ(integer("missing_experts"), 0);
    EXPECT_EQ(
        integer("actual_us"),
        integer("draft_us") + integer("forward_us") + integer("verify_us") + integer("observe_us"));
    EXPECT_EQ(lines[i].find("drafts")->as_array("drafts").size(),
              static_cast<std::size_t>(integer("depth")));
    // The last round may have room for its own token only; then no source is asked.
    EXPECT_EQ(lines[i].find("source")->is_null(), integer("depth") == 0);
    EXPECT_TRUE(lines[i].find("reason")->is_string());
    const json::Value& memory = *lines[i].find("memory");
    EXPECT_GT(memory.find("anonymous_bytes")->as_integer(""), 0);
    EXPECT_GE(memory.find("kv_bytes")->as_integer(""), 0);
    position += integer("accepted") + 1;
    EXPECT_EQ(integer("token"), out.ids[static_cast<std::size_t>(position - 5)]);
  }
}

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
