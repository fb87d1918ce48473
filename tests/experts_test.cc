// Experts that stream from a container: the same results in any memory budget, refusals that say
// what would fit, damage that fails one request, and what is told about it all.
#include "apps/difference.h"
#include "apps/outcome.h"
#include "foretoken/foretoken.h"
#include "program.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const json::Value& at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  if (value == nullptr) throw std::out_of_range(std::string(name));
  return *value;
}
std::int64_t integer(const json::Value& object, std::string_view name) {
  return at(object, name).as_integer(std::string(name));
}

class Experts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::path(testing::TempDir()) / fmt::format("ft_experts_{}", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const std::string format : {"q4", "q8"}) {
      const ProgramResult result =
          run_program({"convert", "glm-mini", path(format), "--expert-format", format, "--quiet"});
      ASSERT_EQ(result.status, 0) << result.err;
    }
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static std::string path(const std::string& name) { return (folder_ / name).string(); }

  static json::Value plan(const std::string& model, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{
        "plan", path(model), "--experts", "stream", "--no-probe", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.json();
  }
  static std::vector<std::string> story(const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> out{"generate",
                                 model.find('/') == 0 ? model : path(model),
                                 "--prompt",
                                 std::string(kStory),
                                 "--temperature",
                                 "0",
                                 "-n",
                                 "40",
                                 "--ignore-eos",
                                 "--experts",
                                 "stream"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  static void copy_model(const std::string& from, const std::string& to) {
    fs::remove_all(folder_ / to);
    fs::copy(folder_ / from, folder_ / to);
  }
  /// Flips one bit of the expert of layer 1 that a story uses most.
  static void damage(const std::string& model) {
    fs::remove(folder_ / model / "experts.usage");
    ASSERT_EQ(run_program(story(model, {"--speculate", "none", "--quiet"})).status, 0);
    std::ifstream usage(folder_ / model / "experts.usage");
    std::string line;
    std::getline(usage, line);
    std::size_t layer = 0;
    std::size_t expert = 0;
    double uses = 0;
    std::size_t hottest = 0;
    double most = 0;
    while (usage >> layer >> expert >> uses) {
      if (layer != 1 || uses <= most) continue;
      most = uses;
      hottest = expert;
    }
    ASSERT_GT(most, 0);
    const fs::path file = folder_ / model / "experts-00001.bin";
    constexpr std::size_t kExperts = 32;
    const std::uintmax_t offset = fs::file_size(file) / kExperts * hottest + 1000;
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(offset));
    const int byte = bytes.get();
    bytes.seekp(static_cast<std::streamoff>(offset));
    bytes.put(static_cast<char>(byte ^ 4));
  }

  inline static fs::path folder_;
};

apps::Outcome run(foretoken::Engine& engine, foretoken::GenerationRequest request) {
  foretoken::TokenStream stream = engine.submit(std::move(request));
  return apps::collect(stream, {});
}

class StreamedExperts : public Experts, public ::testing::WithParamInterface<const char*> {};

TEST_P(StreamedExperts, EqualResidentOnesInEveryBudget) {
  const std::string model = GetParam();
  foretoken::EngineOptions options;
  options.model_path = path(model);
  options.expert_usage = foretoken::ExpertUsageFile::kOff;
  options.context = 256;
  options.n_threads = 1;
  options.experts = "resident";
  foretoken::GenerationRequest request;
  request.max_tokens = 32;
  request.logprobs = 1;
  request.ignore_eos = true;
  request.sampling.temperature = 0.9F;
  request.sampling.seed = 11;
  request.speculate = {"none"};
  apps::Outcome base;
  {
    foretoken::Engine resident = foretoken::Engine::open(options);
    request.prompt = resident.tokenizer().encode(kStory);
    base = run(resident, request);
  }
  const json::Value least = plan(model, {"-c", "256"});
  const auto slot = static_cast<std::uint64_t>(integer(at(least, "trunk"), "slot_bytes"));
  const auto budget = static_cast<std::uint64_t>(integer(least, "least_budget_bytes"));
  options.experts = "stream";
  std::size_t n_cases = 0;
  for (const std::uint64_t n_more : {0, 2, 9, 60, 1000}) {
    options.ram_budget_bytes = budget + n_more * slot;
    options.n_threads = n_more % 2 == 0 ? 1 : 2;
    options.lookahead = n_more == 2 ? "off" : n_more == 1000 ? "auto" : "on";
    foretoken::Engine engine = foretoken::Engine::open(options);
    for (const std::size_t chunk : {1, 7, 512}) {
      for (const char* source : {"none", "mtp", "ngram", "auto"}) {
        for (std::size_t depth = 0; depth <= 8; ++depth) {
          const bool has_all_depths = std::string_view(source) == "mtp";
          const bool is_sampled = depth == 1 || depth == 3 || depth == 8;
          if (depth > 0 && std::string_view(source) == "none") continue;
          if (depth > 0 && !has_all_depths && !is_sampled) continue;
          request.prefill_chunk = chunk;
          request.speculate = {source};
          request.draft_tokens = depth;
          const apps::Outcome outcome = run(engine, request);
          const auto difference = apps::first_difference(base, outcome);
          EXPECT_FALSE(difference.has_value())
              << "budget +" << n_more << " slots, chunk " << chunk << ", " << source << " x"
              << depth << ": " << apps::to_text(*difference);
          EXPECT_EQ(outcome.completion.experts.mode, "stream");
          // A draft that is not in its round is read ahead for, if there is room for it.
          if (depth == 0 && has_all_depths && n_more == 60) {
            EXPECT_GT(outcome.completion.experts.trunk.reads_hinted, 0U);
          }
          ++n_cases;
        }
      }
    }
  }
  EXPECT_EQ(n_cases, 5U * 3U * (1 + 9 + 4 + 4));
}

INSTANTIATE_TEST_SUITE_P(Formats, StreamedExperts, ::testing::Values("q4", "q8"));

TEST_F(Experts, APromptReadsEachExpertOfALayerOncePerChunk) {
  constexpr std::int64_t kTokens = 256;
  constexpr std::int64_t kChunk = 64;
  constexpr std::int64_t kMost = kTokens / kChunk * 7 * 32;  // layers with experts, experts
  std::string ids;
  for (int i = 0; i < kTokens; ++i) ids += fmt::format("{}{}", i > 0 ? "," : "", 300 + i * 17);
  const std::string chunk = std::to_string(kChunk);
  const std::int64_t budget =
      integer(plan("q4", {"--speculate", "none", "-c", "300", "--prefill-chunk", chunk}),
              "least_budget_bytes");
  const ProgramResult result = run_program({"generate",
                                            path("q4"),
                                            "--token-ids",
                                            ids,
                                            "-n",
                                            "1",
                                            "-c",
                                            "300",
                                            "--prefill-chunk",
                                            chunk,
                                            "--speculate",
                                            "none",
                                            "--experts",
                                            "stream",
                                            "--ram-budget",
                                            std::to_string(budget),
                                            "--no-expert-usage",
                                            "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json::Value trunk = at(at(result.json(), "experts"), "trunk");
  const std::int64_t n_read = integer(trunk, "bytes_read") / integer(trunk, "slot_bytes") +
                              integer(trunk, "from_page_cache");
  EXPECT_EQ(n_read, integer(trunk, "misses"));
  EXPECT_LE(n_read + integer(trunk, "hits"), kMost);
  EXPECT_GT(n_read, kMost / 4);  // the pool holds a few
}

TEST_F(Experts, ProofCoversStreaming) {
  const ProgramResult result = run_program({"prove",
                                            path("q4"),
                                            "--prompt",
                                            std::string(kStory),
                                            "-n",
                                            "16",
                                            "--threads",
                                            "2",
                                            "--speculate",
                                            "mtp",
                                            "--draft-tokens",
                                            "3",
                                            "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json::Value proof = result.json();
  EXPECT_EQ(at(proof, "cases").as_array("cases").size(), 23U + 4U * 6U);
  EXPECT_THAT(result.out, HasSubstr("--experts stream --ram-budget"));
  EXPECT_THAT(result.out, HasSubstr("--lookahead on"));
  EXPECT_THAT(result.out, HasSubstr("--lookahead off"));
}

TEST_F(Experts, ARefusalProposesWhatWorks) {
  const ProgramResult refused = run_program(story("q4", {"--ram-budget", "60M"}));
  expect_refused(refused, "the largest part is");
  for (const std::string option : {"--ram-budget", "--context", "--prefill-chunk"}) {
    const std::size_t place = refused.err.find(option + " ");
    if (place == std::string::npos) {
      EXPECT_NE(option, "--ram-budget") << refused.err;
      continue;
    }
    std::istringstream words(refused.err.substr(place + option.size() + 1));
    std::string value;
    words >> value;
    std::vector<std::string> more = {option, value, "--quiet"};
    if (option != "--ram-budget") more.insert(more.end(), {"--ram-budget", "60M"});
    const ProgramResult tried = run_program(story("q4", more));
    EXPECT_EQ(tried.status, 0) << option << " " << value << ": " << tried.err;
  }
  // Nothing less than proposed, but for what a process holds more or less.
  const std::int64_t least = integer(plan("q4"), "least_budget_bytes");
  expect_refused(run_program(story("q4", {"--ram-budget", std::to_string(least - 3'000'000)})),
                 "--ram-budget");
}

TEST_F(Experts, OnlyContainersStream) {
  expect_refused(run_program({"generate", "--token-ids", "1", "--experts", "stream"}),
                 "foretoken convert");
  expect_refused(run_program({"plan", "--experts", "stream"}), "foretoken convert");
  expect_refused(run_program({"generate", "--token-ids", "1", "--mirror", path("q4")}), "mirror");
  expect_refused(run_program(story("q4", {"--mirror", path("q8")})), "is not a copy");
}

TEST_F(Experts, TellsWhatWasReadAndHeld) {
  const std::int64_t least = integer(plan("q4"), "least_budget_bytes");
  const std::int64_t budget = least + 2'000'000;
  const std::string trace = path("trace.jsonl");
  const ProgramResult result = run_program(story(
      "q4",
      {"--ram-budget", std::to_string(budget), "--no-expert-usage", "--trace", trace, "--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const json::Value out = result.json();
  const json::Value& experts = at(out, "experts");
  EXPECT_EQ(at(experts, "mode").as_string("mode"), "stream");
  EXPECT_GT(integer(experts, "hits"), 0);
  EXPECT_GT(integer(experts, "misses"), 0);
  for (const char* count : {"hits", "misses", "bytes_read"}) {
    EXPECT_EQ(integer(experts, count),
              integer(at(experts, "trunk"), count) + integer(at(experts, "draft"), count));
  }
  const json::Value& trunk = at(experts, "trunk");
  EXPECT_GE(integer(trunk, "bytes_read") / integer(trunk, "slot_bytes") +
                integer(trunk, "from_page_cache"),
            integer(trunk, "evictions"));
  EXPECT_EQ(integer(trunk, "failed_reads"), 0);
  const json::Value& memory = at(out, "memory");
  EXPECT_EQ(integer(memory, "budget_bytes"), budget);
  EXPECT_LE(integer(memory, "peak_anonymous_bytes"), budget * 102 / 100);
  EXPECT_EQ(
      integer(memory, "expert_cache_bytes"),
      integer(trunk, "n_slots") * integer(trunk, "slot_bytes") +
          integer(at(experts, "draft"), "n_slots") * integer(at(experts, "draft"), "slot_bytes"));

  std::ifstream lines(trace);
  std::string header;
  std::getline(lines, header);
  std::int64_t n_missing = 0;
  std::int64_t n_bytes = 0;
  for (std::string line; std::getline(lines, line);) {
    const json::Value round = json::parse(line, "trace");
    n_missing += integer(round, "missing_experts");
    EXPECT_EQ(integer(at(round, "experts"), "misses"), integer(round, "missing_experts"));
    n_bytes += integer(at(round, "experts"), "bytes_read");
  }
  EXPECT_GT(n_missing, 0);
  EXPECT_LT(n_missing, integer(experts, "misses"));  // the prefill's are not a round's
  EXPECT_LE(n_bytes, integer(experts, "bytes_read"));

  const ProgramResult told = run_program(story("q4", {"--ram-budget", std::to_string(budget)}));
  EXPECT_THAT(told.err, HasSubstr("experts: "));
  EXPECT_THAT(told.err, HasSubstr(" hits with "));
}

TEST_F(Experts, PlanAddsUp) {
  const json::Value out = plan("q4", {"--ram-budget", "130M"});
  std::int64_t sum = 0;
  for (const json::Value& term : at(out, "terms").as_array("terms")) sum += integer(term, "bytes");
  EXPECT_EQ(sum, integer(out, "planned_bytes"));
  EXPECT_LE(sum, integer(out, "budget_bytes"));
  EXPECT_EQ(integer(out, "budget_bytes"), 130'000'000);
  EXPECT_GE(integer(at(out, "trunk"), "slots"), integer(at(out, "trunk"), "least_slots"));
  EXPECT_TRUE(at(out, "measured").is_null());
  const ProgramResult text = run_program({"plan", path("q4"), "--experts", "stream"});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* part : {"expert pool",
                           "cache",
                           "workspaces",
                           "budget",
                           "expected hits",
                           "memory reads",
                           "slots for drafts"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  expect_refused(run_program({"plan", path("q4"), "--experts", "stream", "--ram-budget", "20M"}),
                 "--ram-budget");
}

TEST_F(Experts, BenchReportsTheDriveAndLeavesTheUsageFileAlone) {
  copy_model("q4", "bench");
  fs::remove(folder_ / "bench" / "experts.usage");
  const ProgramResult result = run_program({"bench",
                                            path("bench"),
                                            "--experts",
                                            "stream",
                                            "-p",
                                            "16",
                                            "-n",
                                            "8",
                                            "-r",
                                            "1",
                                            "--probe-size",
                                            "1Mi",
                                            "-o",
                                            "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json::Value out = result.json();
  for (const json::Value& row : at(out, "results").as_array("results")) {
    EXPECT_EQ(at(at(row, "experts"), "mode").as_string("mode"), "stream");
    EXPECT_GE(at(row, "drive_bytes_per_s").as_real("drive_bytes_per_s"), 0);
    EXPECT_LE(at(row, "stall_share").as_real("stall_share"), 1);
  }
  EXPECT_FALSE(fs::exists(folder_ / "bench" / "experts.usage"));
}

TEST_F(Experts, UsageIsRememberedUnlessItCannotOrMayNotBe) {
  copy_model("q4", "usage");
  const fs::path file = folder_ / "usage" / "experts.usage";
  fs::remove(file);
  ASSERT_EQ(run_program(story("usage", {"--quiet", "--no-expert-usage"})).status, 0);
  EXPECT_FALSE(fs::exists(file));
  ASSERT_EQ(run_program(story("usage", {"--quiet"})).status, 0);
  EXPECT_TRUE(fs::exists(file));
  fs::remove(file);
  fs::create_directory(file);  // cannot be read, nor replaced
  const ProgramResult result = run_program(story("usage", {"--quiet"}));
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("warning: "));
}

TEST_F(Experts, DamageFailsTheRequestThatNeedsIt_AndAMirrorHeals) {
  copy_model("q4", "damaged");
  damage("damaged");
  const std::string budget = std::to_string(integer(plan("q4"), "least_budget_bytes"));
  const ProgramResult failed =
      run_program(story("damaged", {"--speculate", "none", "--ram-budget", budget, "--quiet"}));
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("experts-00001.bin"));
  EXPECT_THAT(failed.err, HasSubstr("layer 1"));

  const std::string expected = run_program(story("q4", {"--quiet"})).out;
  const ProgramResult healed =
      run_program(story("damaged", {"--ram-budget", budget, "--mirror", path("q4"), "--quiet"}));
  EXPECT_EQ(healed.status, 0) << healed.err;
  EXPECT_EQ(healed.out, expected);
}

}  // namespace
}  // namespace ft::e2e
