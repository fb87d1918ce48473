#include "engine/sampling_defaults.h"

#include "base/error.h"

#include <string>

#include <gtest/gtest.h>

namespace ft::engine {
namespace {

SamplingDefaults of(std::string_view text) {
  return sampling_defaults(json::parse(text, "generation_config.json"));
}

TEST(SamplingDefaults, ComeFromTheGenerationConfig) {
  const SamplingDefaults out =
      of(R"({"do_sample": true, "temperature": 0.7, "top_p": 0.9, "top_k": 40})");
  EXPECT_FLOAT_EQ(out.temperature, 0.7F);
  EXPECT_FLOAT_EQ(out.top_p, 0.9F);
  EXPECT_EQ(out.top_k, 40U);
}

TEST(SamplingDefaults, AreGreedyWithoutDoSample) {
  EXPECT_EQ(of(R"({"do_sample": false, "temperature": 0.7})").temperature, 0);
}

TEST(SamplingDefaults, AreThePlainLawIfTheModelSaysNothing) {
  for (const SamplingDefaults& out :
       {sampling_defaults(json::Value()), of("{}"), of(R"({"top_k": null})")}) {
    EXPECT_EQ(out.temperature, 1);
    EXPECT_EQ(out.top_p, 1);
    EXPECT_EQ(out.top_k, 0U);
  }
}

TEST(SamplingDefaults, RefuseValuesThatCannotBe) {
  for (const char* text : {R"({"temperature": -1})",
                           R"({"temperature": "hot"})",
                           R"({"top_p": 0})",
                           R"({"top_p": 2})",
                           R"({"top_k": -1})",
                           R"({"top_k": 1.5})",
                           R"({"do_sample": "no"})",
                           "[]"}) {
    try {
      of(text);
      FAIL() << text;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find("generation_config.json"), std::string::npos)
          << error.what();
    }
  }
}

TEST(SamplingDefaults, GiveWayToTheRequest) {
  const SamplingDefaults defaults{.temperature = 0.7F, .top_p = 0.9F, .top_k = 40};
  const auto seed = [] { return std::uint64_t{99}; };
  foretoken::SamplingOptions options;
  options.temperature = 0.0F;
  options.top_k = 0;
  sampling::SamplingParams out = resolve_sampling(options, defaults, seed);
  EXPECT_EQ(out.temperature, 0);
  EXPECT_EQ(out.top_k, 0U);
  EXPECT_FLOAT_EQ(out.top_p, 0.9F);
  EXPECT_EQ(out.seed, 99U);
  options.seed = 5;
  EXPECT_EQ(resolve_sampling(options, defaults, seed).seed, 5U);
}

TEST(SamplingDefaults, DrawSeedsThatEveryJsonReaderKeeps) {
  const std::uint64_t a = draw_seed();
  const std::uint64_t b = draw_seed();
  EXPECT_LT(a, std::uint64_t{1} << 53);
  EXPECT_LT(b, std::uint64_t{1} << 53);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace ft::engine
