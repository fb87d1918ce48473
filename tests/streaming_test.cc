// How a generation ends: stop strings, end of text, lengths, Ctrl-C, a reader that goes away.
#include "program.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> story(std::vector<std::string> more) {
  std::vector<std::string> out = {
      "generate", "--prompt", std::string(kStory), "--temperature", "0"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

json::Value run_json(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.json();
}

std::string text_of(const json::Value& out) {
  return out.find("text")->as_string("text");
}
std::string finish_of(const json::Value& out) {
  return out.find("finish_reason")->as_string("finish_reason");
}

TEST(Streaming, StopStringsCutTheSameAtEveryDraftLength) {
  const json::Value whole =
      run_json(story({"-n", "60", "--ignore-eos", "--speculate", "none", "--json"}));
  const std::string text = text_of(whole);
  // Within a word, over two words, over a sentence's border.
  for (const std::size_t begin : {10U, 17U, 40U}) {
    const std::string stop = text.substr(begin, 9);
    std::vector<Token> ids;
    for (const char* depth : {"0", "1", "3", "5", "8"}) {
      const json::Value out = run_json(story({"-n",
                                              "60",
                                              "--ignore-eos",
                                              "--speculate",
                                              "mtp",
                                              "--draft-tokens",
                                              depth,
                                              "--stop",
                                              "not in this story",
                                              "--stop",
                                              stop,
                                              "--logprobs",
                                              "0",
                                              "--json"}));
      EXPECT_EQ(text_of(out), text.substr(0, text.find(stop)));
      EXPECT_EQ(finish_of(out), "stop");
      EXPECT_EQ(out.find("stop")->as_string("stop"), stop);
      const std::vector<Token> found = to_ids(*out.find("token_ids"));
      if (ids.empty()) ids = found;
      EXPECT_EQ(found, ids) << depth;
      EXPECT_EQ(out.find("logprobs")->as_array("logprobs").size(), ids.size());
      EXPECT_EQ(out.find("usage")->find("completion_tokens")->as_integer("n"),
                static_cast<std::int64_t>(ids.size()));
    }
  }
}

TEST(Streaming, EndOfTextEndsInTheMiddleOfABurst) {
  const std::string prompt =
      "[gMASK]<sop><|user|>What is the capital of Japan?<|assistant|><think></think>";
  std::vector<Token> ids;
  for (const char* depth : {"0", "1", "2", "3", "4", "5", "8"}) {
    const json::Value out = run_json({"generate",
                                      "--prompt",
                                      prompt,
                                      "--temperature",
                                      "0",
                                      "--speculate",
                                      "mtp",
                                      "--draft-tokens",
                                      depth,
                                      "--json"});
    EXPECT_EQ(text_of(out), "The capital of Japan is Tokyo.") << depth;
    EXPECT_EQ(finish_of(out), "stop");
    EXPECT_TRUE(out.find("stop")->is_null());
    const std::vector<Token> found = to_ids(*out.find("token_ids"));
    if (ids.empty()) ids = found;
    EXPECT_EQ(found, ids);
  }
  // The end of text is in the ids and not in the text.
  EXPECT_EQ(run_program({"detokenize", "--token-ids", join_ids(ids)}).out,
            "The capital of Japan is Tokyo.<|user|>");
}

TEST(Streaming, LengthIsNeverExceeded) {
  for (const char* n : {"1", "2", "3", "7"}) {
    const json::Value out =
        run_json(story({"-n", n, "--speculate", "mtp", "--draft-tokens", "8", "--json"}));
    EXPECT_EQ(std::to_string(to_ids(*out.find("token_ids")).size()), n);
    EXPECT_EQ(finish_of(out), "length");
  }
  const json::Value out = run_json(
      story({"-c", "30", "--ignore-eos", "--speculate", "mtp", "--draft-tokens", "8", "--json"}));
  EXPECT_EQ(to_ids(*out.find("token_ids")).size(), 30U - 15U + 1U);
  EXPECT_EQ(finish_of(out), "length");
}

TEST(Streaming, TextGoesToStandardOutputAndStatisticsToStandardError) {
  const ProgramResult result = run_program(story({"-n", "40"}));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, text_of(run_json(story({"-n", "40", "--json"}))));
  EXPECT_THAT(result.err, HasSubstr("tok/s"));
  EXPECT_THAT(result.err, HasSubstr("tokens per forward"));
  const ProgramResult quiet = run_program(story({"-n", "40", "--quiet"}));
  EXPECT_EQ(quiet.out, result.out);
  EXPECT_EQ(quiet.err, "");
}

TEST(Streaming, InterruptEndsCleanlyWithStatus130) {
  Program program(story({"-n", "4000", "--ignore-eos"}));
  ASSERT_TRUE(program.wait_for_output(100));
  program.interrupt();
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 130);
  EXPECT_THAT(result.err, HasSubstr("cancelled"));
  EXPECT_THAT(result.err, HasSubstr("tok/s"));
}

TEST(Streaming, ClosedPipeIsNoError) {
  Program program(story({"-n", "4000", "--ignore-eos"}));
  ASSERT_TRUE(program.wait_for_output(100));
  program.close_output();
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace ft::e2e
