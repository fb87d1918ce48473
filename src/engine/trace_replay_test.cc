// Traces of requests that follow others in one engine: their planners' choices can be computed
// again, to the last bit.
#include "engine/batch_test_fixture.h"
#include "engine/engine.h"
#include "engine/open_engine.h"
#include "engine/trace_reader.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

EngineParts fake_parts(std::size_t max_sessions) {
  ft::testing::FakeModelOptions fake;
  fake.n_vocab = 24;
  fake.head_quality = 70;
  fake.is_repetitive = true;
  EngineParts parts;
  parts.model = std::make_unique<ft::testing::FakeModel>(fake);
  parts.clock = std::make_shared<const ft::testing::FakeClock>(3);
  parts.draw_seed = [] { return std::uint64_t{1}; };
  parts.context = 2000;
  parts.prefill_chunk = 64;
  parts.max_sessions = max_sessions;
  return parts;
}

EngineParts glm_mini_parts() {
  foretoken::EngineOptions options;
  options.model_path = FT_SOURCE_DIR "/models/glm-mini";
  options.context = 700;  // of two octaves, whose costs differ
  return open_parts(options);
}

foretoken::GenerationRequest request(std::uint64_t seed, std::string& trace) {
  foretoken::GenerationRequest out;
  out.prompt = {1, 2, 3, 4, 5};
  out.max_tokens = 600;
  out.sampling.seed = seed;
  out.ignore_eos = true;
  out.trace = [&trace](std::string_view line) { trace.append(line).append("\n"); };
  return out;
}

void expect_replayable(const std::string& text) {
  const speculation::RecordedTrace trace = parse_trace(text, "trace");
  EXPECT_FALSE(trace.rounds.empty());
  speculation::RoundPlanner planner = trace.planner();
  for (std::size_t i = 0; i < trace.rounds.size(); ++i) {
    const speculation::RecordedRound& round = trace.rounds[i];
    const speculation::RoundPlan plan = planner.plan(round.inputs());
    ASSERT_EQ(plan.parts, round.plan.parts) << i;
    ASSERT_EQ(plan.reason, round.plan.reason) << i;
    ASSERT_EQ(plan.expected_tokens, round.plan.expected_tokens) << i;
    ASSERT_EQ(plan.predicted_us, round.plan.predicted_us) << i;
    planner.record(plan, round.outcome);
  }
  EXPECT_FALSE(speculation::find_difference(trace));
}

TEST(TraceReplay, LaterRequestsOfAnEngineReplayExactly) {
  Engine fake(fake_parts(1));
  Engine glm_mini(glm_mini_parts());
  for (Engine* engine : {&fake, &glm_mini}) {
    for (const std::string source : {"auto", "mtp"}) {
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        std::string trace;
        foretoken::GenerationRequest wanted = request(seed, trace);
        wanted.speculate = {source};
        run_alone(*engine, wanted);
        EXPECT_EQ(parse_trace(trace, "trace").inherited.has_value(), seed > 1);
        expect_replayable(trace);
      }
    }
  }
}

TEST(TraceReplay, SoDoThoseInCompany) {
  Engine engine(fake_parts(3));
  std::vector<std::string> traces(9);
  for (std::size_t begin = 0; begin < traces.size(); begin += 3) {
    std::vector<std::shared_ptr<EventChannel>> channels;
    for (std::size_t i = begin; i < begin + 3; ++i) {
      foretoken::GenerationRequest wanted = request(i, traces[i]);
      wanted.max_tokens = 200;  // none waits for its reader, so that they stay together
      channels.push_back(engine.submit(wanted));
    }
    for (const auto& channel : channels) collect(*channel);
  }
  std::size_t n_heirs = 0;
  for (const std::string& trace : traces) {
    expect_replayable(trace);
    n_heirs += parse_trace(trace, "trace").inherited ? 1 : 0;
  }
  EXPECT_GT(n_heirs, 0U);
}

TEST(TraceReplay, ARequestWithoutARoundHasAHeader) {
  Engine engine(fake_parts(1));
  std::string trace;
  foretoken::GenerationRequest wanted = request(1, trace);
  wanted.max_tokens = 1;
  run_alone(engine, wanted);
  EXPECT_TRUE(parse_trace(trace, "trace").rounds.empty());
}

TEST(TraceReplay, AGivenDepthInheritsNothing) {
  Engine engine(fake_parts(1));
  for (const bool is_fixed : {false, true}) {
    std::string trace;
    foretoken::GenerationRequest wanted = request(1, trace);
    if (is_fixed) wanted.draft_tokens = 3;
    run_alone(engine, wanted);
    EXPECT_FALSE(parse_trace(trace, "trace").inherited);
    expect_replayable(trace);
  }
}

}  // namespace
}  // namespace ft::engine
