// Requests that have only so much time.
#include "base/error.h"
#include "engine/batch_test_fixture.h"
#include "engine/engine.h"
#include "testing/fake_clock.h"
#include "testing/fake_model.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

using std::chrono::milliseconds;

class TimeLimit : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> open(std::size_t max_sessions, std::shared_ptr<const Clock> clock) {
    ft::testing::FakeModelOptions fake;
    fake.max_context = 2000;
    EngineParts parts;
    parts.model = std::make_unique<ft::testing::FakeModel>(fake);
    parts.clock = std::move(clock);
    parts.draw_seed = [] { return std::uint64_t{1}; };
    parts.context = 2000;
    parts.prefill_chunk = 64;
    parts.max_sessions = max_sessions;
    return std::make_unique<Engine>(std::move(parts));
  }
  std::unique_ptr<Engine> open(std::size_t max_sessions) { return open(max_sessions, clock_); }

  static foretoken::GenerationRequest request(std::optional<milliseconds> limit) {
    foretoken::GenerationRequest out;
    out.prompt = {1, 2, 3};
    out.max_tokens = 1000;
    out.sampling.seed = 5;
    out.ignore_eos = true;
    out.speculate = {"none"};
    out.time_limit = limit;
    return out;
  }

  std::shared_ptr<ft::testing::FakeClock> clock_ = std::make_shared<ft::testing::FakeClock>(3);
};

TEST_F(TimeLimit, EndsARunningRequestWithWhatItHas) {
  const auto engine = open(1);
  const Reply whole = run_alone(*engine, request(std::nullopt));
  const auto channel = engine->submit(request(milliseconds(1000)));
  Reply reply;
  while (reply.ids.size() < 3) take(*channel->next(), reply);
  clock_->advance(1'000'000);
  while (const auto event = channel->next()) take(*event, reply);
  EXPECT_EQ(reply.completion.finish_reason, foretoken::FinishReason::kTimeout);
  EXPECT_GE(reply.ids.size(), 3U);
  ASSERT_LT(reply.ids.size(), whole.ids.size());
  EXPECT_TRUE(std::equal(reply.ids.begin(), reply.ids.end(), whole.ids.begin()));
}

TEST_F(TimeLimit, EndsALoneForwardBetweenTwoLayers) {
  constexpr std::size_t kLayers = 4;
  constexpr auto kForwardMs = static_cast<std::int64_t>(10 * kLayers);
  const auto slow = std::make_shared<ft::testing::FakeClock>();
  ft::testing::FakeModelOptions fake;
  fake.before_forward = [&slow](auto, const std::stop_token& stop, models::Workspace& workspace) {
    for (std::size_t layer = 1; layer <= kLayers; ++layer) {
      slow->advance(10'000);
      workspace.report(layer, kLayers);
      if (stop.stop_requested()) throw Cancelled();
    }
  };
  EngineParts parts;
  parts.model = std::make_unique<ft::testing::FakeModel>(fake);
  parts.clock = slow;
  parts.draw_seed = [] { return std::uint64_t{1}; };
  parts.context = 100;
  parts.prefill_chunk = 64;
  Engine engine(std::move(parts));
  // The prompt's forward and one more fit; of the next the first layer does.
  const Reply reply = run_alone(engine, request(milliseconds(2 * kForwardMs + 10)));
  EXPECT_EQ(reply.completion.finish_reason, foretoken::FinishReason::kTimeout);
  EXPECT_EQ(reply.ids.size(), 2U);
  EXPECT_EQ(slow->now_us(), 1000 * (2 * kForwardMs + 10));
}

TEST_F(TimeLimit, CountsFromSubmission) {
  const auto engine = open(1);
  const auto running = engine->submit(request(std::nullopt));  // stalls, for nobody reads
  const auto waiting = engine->submit(request(milliseconds(50)));
  clock_->advance(50'000);
  const Reply reply = collect(*waiting);
  EXPECT_EQ(reply.completion.finish_reason, foretoken::FinishReason::kTimeout);
  EXPECT_TRUE(reply.ids.empty());
}

// Neither the clock nor a bell moves while nothing can go on: the engine looks by itself.
TEST_F(TimeLimit, EndsARequestWhoseReaderStalls) {
  const auto engine = open(1, std::make_shared<const SteadyClock>());
  const auto stalled = engine->submit(request(milliseconds(20)));
  const auto waiting = engine->submit(request(milliseconds(60000)));
  Reply reply;
  while (reply.ids.size() < 10) take(*waiting->next(), reply);
  waiting->cancel();
  EXPECT_EQ(collect(*stalled).completion.finish_reason, foretoken::FinishReason::kTimeout);
}

TEST_F(TimeLimit, OthersGoOn) {
  const auto engine = open(3);
  const Reply expected = run_alone(*engine, request(std::nullopt));
  const auto first = engine->submit(request(std::nullopt));
  const auto limited = engine->submit(request(milliseconds(10)));
  clock_->advance(10'000);
  EXPECT_EQ(collect(*limited).completion.finish_reason, foretoken::FinishReason::kTimeout);
  EXPECT_EQ(collect(*first), expected);
}

TEST_F(TimeLimit, OneThatIsNotReachedChangesNothing) {
  const auto engine = open(1);
  EXPECT_EQ(run_alone(*engine, request(milliseconds(3'600'000))),
            run_alone(*engine, request(std::nullopt)));
}

TEST_F(TimeLimit, RefusesWhatIsNone) {
  const auto engine = open(1);
  for (const milliseconds limit : {milliseconds(0), milliseconds(-1), milliseconds::max()}) {
    EXPECT_THROW(engine->submit(request(limit)), ft::InvalidInput) << limit.count();
  }
}

}  // namespace
}  // namespace ft::engine
