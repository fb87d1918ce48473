// Speculation as users ask for it: traces that can be replayed, a second model that drafts.
#include "io/file.h"
#include "program.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kModels = fs::path(FT_SOURCE_DIR) / "models";

class Speculation : public ::testing::Test {
 protected:
  Speculation()
      : folder_(fs::path(::testing::TempDir()) / fmt::format("ft_speculation_{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~Speculation() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::vector<std::string> story(const std::vector<std::string>& more,
                                        const std::string& temperature = "0") {
    std::vector<std::string> out{"generate",
                                 "--prompt",
                                 std::string(kStory),
                                 "--temperature",
                                 temperature,
                                 "-n",
                                 "120",
                                 "--quiet"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  std::string traced(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = story(more);
    arguments.insert(arguments.end(), {"--trace", path(name)});
    EXPECT_EQ(run_program(arguments).status, 0);
    return path(name);
  }
  static std::string text_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string written(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  fs::path folder_;
};

TEST_F(Speculation, ATraceReplaysToTheSameChoices) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{},
        std::vector<std::string>{"--speculate", "mtp"},
        std::vector<std::string>{"--draft-tokens", "3"},
        std::vector<std::string>{"--draft-model", (kModels / "glm-mini-draft").string()}}) {
    const ProgramResult result = run_program({"replay-plan", traced("trace", options)});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("identical"));
  }
}

TEST_F(Speculation, AStreamedTraceReplaysToo) {
  ASSERT_EQ(run_program({"convert", "glm-mini", path("container"), "--quiet"}).status, 0);
  const std::string trace = traced(
      "trace",
      {path("container"), "--experts", "stream", "--ram-budget", "90Mi", "--speculate", "mtp"});
  EXPECT_THAT(text_of(trace), HasSubstr("\"missing_bytes\":["));
  const ProgramResult result = run_program({"replay-plan", trace});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST_F(Speculation, AnotherChoiceInATraceIsFound) {
  std::string text = text_of(traced("trace", {"--speculate", "mtp"}));
  // The second round follows from the first: another time of the first is no difference, another
  // baseline is.
  const std::string reason = "\"reason\":\"baseline\"";
  const std::size_t at = text.find(reason);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, reason.size(), "\"reason\":\"held\"");
  const ProgramResult result = run_program({"replay-plan", written("changed", text)});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("round 0"));
}

TEST_F(Speculation, TracesOfOneRequestTellTheRegret) {
  std::vector<std::string> arguments{"replay-plan", "--json"};
  arguments.push_back(traced("none", {"--speculate", "none"}));
  for (const std::string depth : {"1", "3", "5"}) {
    arguments.push_back(traced(depth, {"--speculate", "mtp", "--draft-tokens", depth}));
  }
  const ProgramResult result = run_program(arguments);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"mtp 5\""));
  EXPECT_THAT(result.out, HasSubstr("\"regret\""));
}

TEST_F(Speculation, WhatIsNoTraceIsRefusedByLine) {
  const std::string text = text_of(traced("trace", {"--speculate", "mtp"}));
  const std::size_t second = text.find('\n') + 1;
  expect_refused(run_program({"replay-plan", path("missing")}), "missing");
  expect_refused(run_program({"replay-plan", written("empty", "")}), "empty");
  expect_refused(run_program({"replay-plan", written("cut", text.substr(0, second + 40))}),
                 "line 2");
  expect_refused(run_program({"replay-plan", written("headless", text.substr(second))}), "line 1");
}

TEST_F(Speculation, ADraftModelChangesNoText) {
  const std::string draft = (kModels / "glm-mini-draft").string();
  for (const std::string temperature : {"0", "1"}) {
    const auto run = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"--draft-model", draft, "--seed", "5", "--json"});
      return run_program(story(more, temperature)).json();
    };
    const json::Value base = run({"--speculate", "none"});
    for (const std::string depth : {"1", "4", "8", "auto"}) {
      const json::Value drafted = run({"--speculate", "draft", "--draft-tokens", depth});
      EXPECT_EQ(drafted.find("text")->as_string("text"), base.find("text")->as_string("text"));
      EXPECT_EQ(to_ids(*drafted.find("token_ids")), to_ids(*base.find("token_ids")));
      if (depth == "auto") continue;  // may do without, as a busy machine is faster then
      EXPECT_GT(drafted.find("speculation")->find("accepted")->as_integer("accepted"), 10);
    }
  }
}

TEST_F(Speculation, ADraftModelWithOtherTokensIsRefused) {
  fs::copy(kModels / "glm-mini-draft", path("draft"));
  std::string tokenizer = text_of(path("draft/tokenizer.json"));
  const std::size_t at = tokenizer.find("<|observation|>");
  ASSERT_NE(at, std::string::npos);
  for (std::size_t i = at; i != std::string::npos; i = tokenizer.find("<|observation|>", i)) {
    tokenizer.replace(i, 15, "<|observed_it|>");
  }
  fs::permissions(path("draft/tokenizer.json"), fs::perms::owner_write, fs::perm_options::add);
  written("draft/tokenizer.json", tokenizer);
  expect_refused(run_program(story({"--draft-model", path("draft")})), "<|observed_it|>");
  fs::remove(path("draft/tokenizer.json"));
  expect_refused(run_program(story({"--draft-model", path("draft")})), "no tokenizer.json");
  expect_refused(run_program(story({"--speculate", "draft"})), "--draft-model DIR");
}

}  // namespace
}  // namespace ft::e2e
