#include "server/round_feed.h"

#include "server/fake_backend_test_data.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace ft::server {
namespace {

std::string token_text(foretoken::Token id) {
  return "<" + std::to_string(id) + ">";
}

TEST(RoundFeed, WritesWhatAPersonMayLookAt) {
  const std::vector<std::string> lines = {std::string(kTraceHeader), std::string(kTraceLine)};
  json::Writer out;
  write_rounds(out, lines, token_text);
  EXPECT_EQ(out.text(),
            R"([{"round":4,"position":20,"accepted":1,"reason":"best",)"
            R"("sources":[{"name":"mtp","drafted":2},{"name":"ngram","drafted":1}],)"
            R"("drafts":[{"id":0,"text":"<0>"},{"id":1,"text":"<1>"},{"id":2,"text":"<2>"}],)"
            R"("token":{"id":2,"text":"<2>"},"actual_us":10,"draft_us":1,"forward_us":6,)"
            R"("verify_us":2,"observe_us":1,"stall_us":5,"memory":{"anonymous_bytes":9,)"
            R"("budget_bytes":0,"kv_bytes":2,"expert_cache_bytes":3},)"
            R"("experts":{"mode":"stream","hits":7,"misses":3,"bytes_read":4096,)"
            R"("stall_ms":0.005}}])");
}

TEST(RoundFeed, GivesLinesNowAndThen) {
  RoundFeed feed;
  feed.add("a");
  EXPECT_EQ(feed.take(0), std::vector<std::string>{"a"});
  feed.add("b");
  EXPECT_TRUE(feed.take(49'999).empty());
  feed.add("c");
  EXPECT_EQ(feed.take(50'000), (std::vector<std::string>{"b", "c"}));
  feed.add("d");
  EXPECT_EQ(feed.take_rest(), std::vector<std::string>{"d"});
}

TEST(RoundFeed, KeepsNoMoreThanItMay) {
  RoundFeed feed;
  for (int i = 0; i < 1000; ++i) feed.add(std::to_string(i));
  const std::vector<std::string> lines = feed.take_rest();
  EXPECT_EQ(lines.size(), 256U);
  EXPECT_EQ(lines.back(), "255");
}

}  // namespace
}  // namespace ft::server
