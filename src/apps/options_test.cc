#include "apps/options.h"

#include "base/error.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ft::apps {
namespace {

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(Options, ParsesTokenIds) {
  EXPECT_EQ(parse_token_ids("1,2,3"), (std::vector<foretoken::Token>{1, 2, 3}));
  EXPECT_EQ(parse_token_ids(" 7 , 8\n"), (std::vector<foretoken::Token>{7, 8}));
  for (const char* text : {"", "1,,2", "1,", "x", "1.5", "99999999999", "1 2"}) {
    EXPECT_NE(error_of([&] { parse_token_ids(text); }).find("--token-ids"), std::string::npos)
        << text;
  }
}

TEST(Options, ParsesDraftLengthsAndSources) {
  EXPECT_EQ(parse_draft_tokens("auto"), std::nullopt);
  EXPECT_EQ(parse_draft_tokens("0"), 0U);
  EXPECT_NE(error_of([] { parse_draft_tokens("-1"); }), "");
  EXPECT_EQ(split_sources("mtp, ngram"), (std::vector<std::string>{"mtp", "ngram"}));
  EXPECT_NE(error_of([] { split_sources("mtp,,ngram"); }), "");
}

TEST(Options, BuildsARequest) {
  GenerationOptions generation;
  generation.logit_bias = {"42:-1.5", "7:100"};
  generation.temperature = 0.5F;
  SpeculationOptions speculation;
  speculation.draft_tokens = "3";
  const foretoken::GenerationRequest request = generation_request(generation, speculation);
  EXPECT_EQ(request.sampling.logit_bias,
            (std::vector<std::pair<foretoken::Token, float>>{{42, -1.5F}, {7, 100.0F}}));
  EXPECT_EQ(request.draft_tokens, 3U);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_FALSE(request.sampling.top_p.has_value());

  for (const char* bias : {"42", "a:1", "1:b", ":", "1:2:3"}) {
    generation.logit_bias = {bias};
    EXPECT_NE(error_of([&] { generation_request(generation, speculation); }).find("--logit-bias"),
              std::string::npos)
        << bias;
  }
}

TEST(Options, HandsExpertOptionsToTheEngine) {
  ModelOptions options;
  options.model = FT_SOURCE_DIR "/models/glm-mini";
  EXPECT_EQ(engine_options(options).ram_budget_bytes, 0U);
  EXPECT_EQ(engine_options(options).expert_usage, foretoken::ExpertUsageFile::kRead);
  options.experts = "stream";
  options.ram_budget = "1.5Gi";
  options.mirrors = {"/a", "/b"};
  options.expert_policy = "lru";
  options.lookahead = "off";
  options.no_expert_usage = true;
  const foretoken::EngineOptions out = engine_options(options);
  EXPECT_EQ(out.experts, "stream");
  EXPECT_EQ(out.ram_budget_bytes, std::uint64_t{3} << 29);
  EXPECT_EQ(out.mirrors, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(out.expert_policy, "lru");
  EXPECT_EQ(out.lookahead, "off");
  EXPECT_EQ(out.expert_usage, foretoken::ExpertUsageFile::kOff);
  for (const char* budget : {"0", "much", "-4G"}) {
    options.ram_budget = budget;
    EXPECT_NE(error_of([&] { engine_options(options); }).find("--ram-budget"), std::string::npos);
  }
}

TEST(Options, WantsExactlyOnePrompt) {
  const auto no_tokenizer = []() -> const foretoken::Tokenizer& {
    throw InvalidInput("the tokenizer was asked for");
  };
  PromptOptions options;
  EXPECT_NE(error_of([&] { read_prompt(options, no_tokenizer); }).find("--prompt-file"),
            std::string::npos);
  options.token_ids = "1,2";
  EXPECT_EQ(read_prompt(options, no_tokenizer), (std::vector<foretoken::Token>{1, 2}));
  options.text = "x";
  EXPECT_NE(error_of([&] { read_prompt(options, no_tokenizer); }).find("--prompt-file"),
            std::string::npos);
}

}  // namespace
}  // namespace ft::apps
