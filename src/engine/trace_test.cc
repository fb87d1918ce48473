#include "base/error.h"
#include "engine/trace_reader.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::engine {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader =
    R"({"plan":{"sources":["mtp","ngram"],"draft_tokens":null,"max_depth":16}})";
constexpr const char* kRound =
    R"({"position":15,"accepted":2,"reason":"best","draft_us":80,"forward_us":900,"verify_us":10,)"
    R"("observe_us":5,"inputs":{"max_drafts":9,"context":15,"offers":[null,{"n_tokens":1,)"
    R"("strength":3}],"missing_bytes":[1.5,2]},"chosen":{"parts":[{"source":1,"depth":1,)"
    R"("strength":3},{"source":0,"depth":3}],"expected_tokens":2.5,"predicted_us":1000.25},)"
    R"("asked":[[1,1],[3,2]],"stall_us":7,"missing_bytes":4096})";

std::string text_of(const std::string& round) {
  return std::string(kHeader) + "\n" + round + "\n";
}

std::string replaced(const std::string& what, const std::string& by) {
  std::string out = kRound;
  const std::size_t at = out.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return out.replace(at, what.size(), by);
}

std::string error_of(const std::string& text) {
  try {
    parse_trace(text, "t");
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(TraceReader, ReadsAllThatThePlannerWasTold) {
  const speculation::RecordedTrace trace = parse_trace(text_of(kRound), "t");
  EXPECT_EQ(trace.sources, (std::vector<std::string>{"mtp", "ngram"}));
  EXPECT_FALSE(trace.options.fixed_depth);
  ASSERT_EQ(trace.rounds.size(), 1U);
  const speculation::RecordedRound& round = trace.rounds.front();
  EXPECT_EQ(round.position, 15U);
  EXPECT_EQ(round.max_drafts, 9U);
  ASSERT_EQ(round.offers.size(), 2U);
  EXPECT_FALSE(round.offers[0]);
  EXPECT_EQ(round.offers[1]->n_tokens, 1U);
  EXPECT_EQ(round.offers[1]->strength, 3U);
  EXPECT_EQ(round.missing_bytes, (std::vector<double>{1.5, 2}));
  const std::vector<speculation::RoundPlan::Part> parts = {{.source = 1, .depth = 1, .strength = 3},
                                                           {.source = 0, .depth = 3}};
  EXPECT_EQ(round.plan.parts, parts);
  EXPECT_EQ(round.plan.reason, speculation::PlanReason::kBest);
  EXPECT_EQ(round.plan.predicted_us, 1000.25);
  ASSERT_EQ(round.outcome.parts.size(), 2U);
  EXPECT_EQ(round.outcome.parts[1].n_asked, 3U);
  EXPECT_EQ(round.outcome.parts[1].n_drafted, 2U);
  EXPECT_EQ(round.outcome.n_accepted, 2U);
  EXPECT_EQ(round.outcome.rest_us, 915);
  EXPECT_EQ(round.outcome.stall_us, 7);
  EXPECT_EQ(round.outcome.missing_bytes, 4096);
}

/// A header with what a planner of one source inherited.
const std::string kLearned = R"({"sources":[{"alone":[0,0,4,3.25,4,4],"offered":[[],[],[],[]],)"
                             R"("as_tail":[],"draft_cost":[2,0,25.5,100,0,36,0,0,0,2,1.99],)"
                             R"("n_asked":9,"n_as_tail":1}],"rest_cost":[[],[1,80,20,5,-1,4]],)"
                             R"("latest_rest_cost":1,"read_cost":[3,-0.5,2,4096,4096,70],)"
                             R"("deepest":6})";

std::string header_with(const std::string& inherited) {
  return R"({"plan":{"sources":["mtp"],"draft_tokens":null,"max_depth":16,"inherited":)" +
         inherited + "}}\n";
}

TEST(TraceReader, ReadsWhatThePlannerInherited) {
  EXPECT_FALSE(parse_trace(kHeader, "t").inherited);
  const auto trace = parse_trace(header_with(kLearned), "t");
  ASSERT_TRUE(trace.inherited);
  const speculation::Experience& learned = *trace.inherited;
  ASSERT_EQ(learned.sources.size(), 1U);
  EXPECT_EQ(learned.sources[0].alone.numbers(), (std::vector<double>{0, 0, 4, 3.25, 4, 4}));
  EXPECT_EQ(learned.sources[0].n_asked, 9U);
  EXPECT_EQ(learned.sources[0].n_as_tail, 1U);
  EXPECT_EQ(learned.sources[0].draft_cost.n_observed(), 2U);
  EXPECT_EQ(learned.rest_cost.numbers().curves.size(), 2U);
  EXPECT_EQ(learned.rest_cost.latest().predict(2), 120);
  EXPECT_EQ(learned.read_cost.numbers(), (std::vector<double>{3, -0.5, 2, 4096, 4096, 70}));
  EXPECT_EQ(learned.deepest, 6U);
}

TEST(TraceReader, RefusesWhatNoPlannerCanHaveLearned) {
  std::string list;
  for (std::size_t i = 0; i < 400; ++i) list += "1,";
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"4,3.25,", "4,4.25,"},  // more hits than trials
      {"4,4],", "4,5],"},      // more offers than calls
      {"3.25", "-3.25"},
      {"3.25", "1e31"},
      {"3.25", "null"},
      {"3.25", "\"3\""},
      {"[0,0,4", "[0,0," + list + "4"},  // more positions than there are
      {"[[],[],[],[]]", "[[],[],[]]"},
      {"[[],[],[],[]]", "[[],[],[],[-1]]"},
      {"[[],[],[],[]]", "[[],[],[],1]"},
      {"[2,0,25.5", "[0,0,25.5"},  // a cost that nobody measured
      {"[2,0,25.5", "[2.5,0,25.5"},
      {"[2,0,25.5", "[-2,0,25.5"},
      {"[2,0,25.5", "[2e9,0,25.5"},
      {"2,1.99]", "2,1.99,1.5]"},  // three halves more than the line
      {"\"n_asked\":9", "\"n_asked\":-9"},
      {"\"n_asked\":9,", ""},
      {"[[],[1,", "[[1,"},
      {"\"latest_rest_cost\":1", "\"latest_rest_cost\":0"},  // it has no measurement
      {"\"latest_rest_cost\":1", "\"latest_rest_cost\":2"},
      {"[1,80", "[1,-1e31"},
      {"-0.5,2,4096", "-0.5,2,-4096"},
      {"[3,-0.5", "[" + list + "-0.5"},
      {"\"deepest\":6", "\"deepest\":65"},
      {"{\"sources\":[{", "{\"sources\":[{},{"}};
  for (const auto& [what, by] : edits) {
    std::string changed = kLearned;
    const std::size_t at = changed.find(what);
    ASSERT_NE(at, std::string::npos) << what;
    changed.replace(at, what.size(), by);
    EXPECT_THAT(error_of(header_with(changed)), HasSubstr("t line 1: plan: inherited"))
        << what << " " << by;
  }
  EXPECT_THAT(error_of(header_with("[]")), HasSubstr("t line 1: plan: inherited"));
  EXPECT_THAT(error_of(R"({"plan":{"sources":[],"draft_tokens":null,"max_depth":16,"inherited":)" +
                       kLearned + "}}"),
              HasSubstr("has 1 entries, expected 0"));
}

TEST(TraceReader, BoundsWhatATraceMayAskFor) {
  const auto header_of = [](std::size_t n, const auto& name_of) {
    std::string names;
    for (std::size_t i = 0; i < n; ++i) names += (i > 0 ? "," : "") + name_of(i);
    return R"({"plan":{"sources":[)" + names + R"(],"draft_tokens":null,"max_depth":16}})" + "\n";
  };
  const auto numbered = [](std::size_t i) { return "\"s" + std::to_string(i) + "\""; };
  EXPECT_EQ(parse_trace(header_of(16, numbered), "t").sources.size(), 16U);
  EXPECT_THAT(error_of(header_of(17, numbered)),
              HasSubstr("plan: sources has 17 entries, expected at most 16"));
  EXPECT_THAT(error_of(header_of(2, [](std::size_t) { return std::string("\"mtp\""); })),
              HasSubstr("plan: sources has 'mtp' twice"));
  EXPECT_THAT(error_of(std::string(kHeader) + "\n" + std::string((1U << 20U) + 1, ' ')),
              HasSubstr("t line 2 has 1048577 bytes, expected at most 1048576"));
}

TEST(TraceReader, NamesTheLineAndWhatIsWrong) {
  EXPECT_THAT(error_of(""), HasSubstr("is empty"));
  EXPECT_THAT(error_of(std::string(kRound) + "\n"), HasSubstr("t line 1 has no 'plan'"));
  EXPECT_THAT(error_of("[]"), HasSubstr("t line 1"));
  EXPECT_THAT(error_of(text_of("{")), HasSubstr("t line 2"));
  const std::vector<std::pair<std::string, std::string>> edits = {
      {R"("position":15,)", ""},
      {R"("position":15)", R"("position":-1)"},
      {R"("accepted":2)", R"("accepted":4)"},
      {R"("accepted":2)", R"("accepted":"two")"},
      {R"("reason":"best")", R"("reason":"luck")"},
      {R"("draft_us":80)", R"("draft_us":-80)"},
      {R"("source":0)", R"("source":2)"},
      {R"("depth":3)", R"("depth":0)"},
      {R"("depth":3)", R"("depth":65)"},
      {R"("depth":3)", R"("depth":64)"},  // 65 in all
      {R"("strength":3}])", R"("strength":4}])"},
      {R"([null,{"n_tokens")", R"([{"n_tokens")"},
      {"[3,2]", "[3,4]"},
      {"[3,2]", "[4,2]"},
      {"[3,2]", "[3]"},
      {",[3,2]", ""},
      {"1000.25", "-1"},
      {"4096", "1e30"}};
  for (const auto& [what, by] : edits) {
    EXPECT_THAT(error_of(text_of(replaced(what, by))), HasSubstr("t line 2")) << what << " " << by;
  }
  // The second round must follow the first.
  EXPECT_THAT(error_of(text_of(kRound) + kRound), HasSubstr("position is 15, expected 18"));
}

}  // namespace
}  // namespace ft::engine
