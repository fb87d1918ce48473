#include "engine/event_channel.h"

#include "testing/fake_clock.h"

#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

foretoken::Event progress(std::size_t n) {
  return foretoken::PrefillProgress{n, 1000};
}

std::size_t progress_of(const std::optional<foretoken::Event>& event) {
  return std::get<foretoken::PrefillProgress>(*event).n_done;
}

TEST(WakePace, WakesAtMostOncePerPaceUnlessTheQueueIsFull) {
  const auto clock = std::make_shared<ft::testing::FakeClock>();
  WakePace pace(clock);
  EXPECT_TRUE(pace.wakes_now(WakePace::Need::kCanWait)) << "the first event";
  EXPECT_FALSE(pace.wakes_now(WakePace::Need::kCanWait));
  clock->advance(3999);
  EXPECT_FALSE(pace.wakes_now(WakePace::Need::kCanWait));
  clock->advance(1);
  EXPECT_TRUE(pace.wakes_now(WakePace::Need::kCanWait));
  EXPECT_TRUE(pace.wakes_now(WakePace::Need::kMustWake));
  clock->advance(3999);
  EXPECT_FALSE(pace.wakes_now(WakePace::Need::kCanWait))
      << "the pace counts from the latest wake-up";
}

TEST(WakePace, TheConsumerLooksItselfWhileItMayNotBeWoken) {
  const auto clock = std::make_shared<ft::testing::FakeClock>();
  WakePace pace(clock);
  EXPECT_FALSE(pace.looks_itself()) << "nothing read yet";
  clock->advance(10);
  pace.on_read();
  EXPECT_TRUE(pace.looks_itself());
  clock->advance(3999);
  EXPECT_TRUE(pace.looks_itself());
  clock->advance(1);
  EXPECT_FALSE(pace.looks_itself());
}

// On a clock that stands still the producer wakes once; every later event is found all the same.
TEST(TokenStreamChannel, DeliversWhatItDoesNotWakeFor) {
  EventChannel channel(1000, std::make_shared<const ft::testing::FakeClock>());
  std::jthread producer([&channel] {
    for (std::size_t i = 0; i < 100; ++i) channel.push(progress(i));
    channel.finish({});
  });
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(progress_of(channel.next()), i);
  EXPECT_TRUE(std::holds_alternative<foretoken::Completion>(*channel.next()));
}

// The suite's name puts it among the tests that run under ThreadSanitizer.
TEST(TokenStreamChannel, DeliversInOrderAndEndsWithTheCompletion) {
  EventChannel channel(4, std::make_shared<const SteadyClock>());
  channel.push(progress(1));
  channel.push(progress(2));
  foretoken::Completion completion;
  completion.seed = 7;
  channel.finish(completion);
  EXPECT_EQ(progress_of(channel.next()), 1U);
  EXPECT_EQ(progress_of(channel.next()), 2U);
  EXPECT_EQ(std::get<foretoken::Completion>(*channel.next()).seed, 7U);
  EXPECT_FALSE(channel.next().has_value());
  EXPECT_FALSE(channel.next().has_value());
}

TEST(TokenStreamChannel, ThrowsTheErrorAfterTheEventsBeforeIt) {
  EventChannel channel(4, std::make_shared<const SteadyClock>());
  channel.push(progress(1));
  channel.fail({foretoken::ErrorCode::kIo, "gone"});
  EXPECT_EQ(progress_of(channel.next()), 1U);
  for (int i = 0; i < 2; ++i) {
    try {
      channel.next();
      FAIL();
    } catch (const foretoken::Error& error) {
      EXPECT_EQ(error.code(), foretoken::ErrorCode::kIo);
      EXPECT_STREQ(error.what(), "gone");
    }
  }
}

TEST(TokenStreamChannel, HoldsTheProducerBackWhenFull) {
  constexpr std::size_t kEvents = 10000;
  EventChannel channel(3, std::make_shared<const SteadyClock>());
  std::jthread producer([&channel] {
    for (std::size_t i = 0; i < kEvents; ++i) channel.push(progress(i));
    channel.finish({});
  });
  for (std::size_t i = 0; i < kEvents; ++i) ASSERT_EQ(progress_of(channel.next()), i);
  EXPECT_TRUE(std::holds_alternative<foretoken::Completion>(*channel.next()));
}

TEST(TokenStreamChannel, LetsACancelledProducerPass) {
  EventChannel channel(1, std::make_shared<const SteadyClock>());
  channel.push(progress(0));
  std::jthread producer([&channel] {
    channel.push(progress(1));  // full: waits for the cancellation
    channel.push(progress(2));
    foretoken::Completion completion;
    completion.finish_reason = foretoken::FinishReason::kCancelled;
    channel.finish(completion);
  });
  channel.cancel();
  EXPECT_TRUE(channel.stop_token().stop_requested());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(progress_of(channel.next()), i);
  EXPECT_EQ(std::get<foretoken::Completion>(*channel.next()).finish_reason,
            foretoken::FinishReason::kCancelled);
}

TEST(TokenStreamChannel, DropsEventsOnceAbandoned) {
  EventChannel channel(1, std::make_shared<const SteadyClock>());
  channel.push(progress(0));
  channel.abandon();
  for (std::size_t i = 0; i < 100; ++i) channel.push(progress(i));
  channel.finish({});
  EXPECT_TRUE(channel.stop_token().stop_requested());
  EXPECT_FALSE(channel.next().has_value());
}

}  // namespace
}  // namespace ft::engine
