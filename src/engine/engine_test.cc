// Requests on their way through an engine: what is refused, cancelled, dropped, fails and is
// traced.
#include "engine/engine.h"

#include "base/error.h"
#include "engine/engine_test_fixture.h"
#include "json/json.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

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

}  // namespace
}  // namespace ft::engine
