// foretoken bench as a user runs it: forms, rows, refusals. Speeds are the machine's and are not
// looked at.
#include "program.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const json::Value& at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  if (value == nullptr) throw std::out_of_range(std::string(name));
  return *value;
}

ProgramResult run_bench(std::vector<std::string> options) {
  options.insert(options.begin(), {"bench", "-r", "2", "--probe-size", "4Mi", "--threads", "1"});
  return run_program(options);
}

std::string test_name(const json::Value& result) {
  return at(result, "test").as_string("test");
}

double sum_of(const json::Value& object) {
  double sum = 0;
  for (const auto& [name, value] : object.as_object("stages")) sum += value.as_real(name);
  return sum;
}

TEST(Bench, JsonHasARowForEachTestAndSetting) {
  const ProgramResult out = run_bench({"-p",
                                       "20,0",
                                       "-n",
                                       "6",
                                       "-d",
                                       "0,300",
                                       "--speculate",
                                       "none",
                                       "--speculate",
                                       "mtp",
                                       "--draft-tokens",
                                       "1,3",
                                       "-o",
                                       "json"});
  ASSERT_EQ(out.status, 0) << out.err;
  const json::Value document = out.json();
  const json::Array& results = at(document, "results").as_array("results");
  std::vector<std::string> names;
  for (const json::Value& result : results) names.push_back(test_name(result));
  EXPECT_THAT(
      names,
      ElementsAre(
          "pp20", "tg6", "tg6", "tg6", "pp20 @ d300", "tg6 @ d300", "tg6 @ d300", "tg6 @ d300"));
  for (const json::Value& result : results) {
    const json::Value& speed = at(result, "tokens_per_second");
    EXPECT_EQ(at(speed, "samples").as_integer("samples"), 2);
    EXPECT_GE(at(speed, "median").as_real("median"), at(speed, "min").as_real("min"));
    EXPECT_LE(at(speed, "median").as_real("median"), at(speed, "max").as_real("max"));
    EXPECT_GT(at(result, "weight_bytes_per_token").as_real("bytes"), 0);
    EXPECT_GT(at(at(result, "stages_ms"), "attention").as_real("attention"), 0);
    EXPECT_GT(at(at(result, "stages_ms"), "experts").as_real("experts"), 0);
  }
  EXPECT_TRUE(at(results[1], "speculation").is_null());
  EXPECT_GT(at(at(results[3], "speculation"), "drafted").as_integer("drafted"), 0);
  EXPECT_GT(at(at(results[3], "stages_ms"), "draft").as_real("draft"), 0);
  // Beyond the 256 positions that the model's rows choose from.
  EXPECT_GT(at(at(results[4], "stages_ms"), "indexer").as_real("indexer"), 0);
  // The stages are the test: six tokens at the lower of two speeds.
  const double slowest_ms = 6000 / at(at(results[1], "tokens_per_second"), "min").as_real("min");
  EXPECT_NEAR(sum_of(at(results[1], "stages_ms")), slowest_ms, 0.05 * slowest_ms + 0.1);
  const json::Value& machine = at(document, "machine");
  EXPECT_GT(at(machine, "read_bandwidth_bytes_per_s").as_real("bandwidth"), 0);
  EXPECT_EQ(at(machine, "threads").as_integer("threads"), 1);
}

TEST(Bench, PrintsTheOtherForms) {
  const ProgramResult table = run_bench({"-p", "4", "-n", "2", "--speculate", "none"});
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("| pp4 | none |"));
  EXPECT_THAT(table.out, HasSubstr("| tg2 | none |"));
  EXPECT_THAT(table.out, HasSubstr("| ms per token |"));
  const ProgramResult csv = run_bench({"-p", "4", "-n", "0", "-o", "csv"});
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 2);
  const ProgramResult lines =
      run_bench({"-p", "4", "-n", "2", "--speculate", "none", "-o", "jsonl"});
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 2);
}

TEST(Synth, WritesAModelThatCanBeMeasured) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("synth_{}", getpid());
  const ProgramResult made = run_program({"synth",
                                          folder.string(),
                                          "--layers",
                                          "2",
                                          "--dense-layers",
                                          "1",
                                          "--width",
                                          "0.02",
                                          "--json"});
  ASSERT_EQ(made.status, 0) << made.err;
  const ProgramResult checked = run_program({"inspect", folder.string(), "--verify"});
  EXPECT_EQ(checked.status, 0) << checked.err;
  const ProgramResult measured = run_bench({folder.string(), "-p", "8", "-n", "4", "-o", "json"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  EXPECT_EQ(at(measured.json(), "results").as_array("results").size(), 3U);  // none and auto
  std::filesystem::remove_all(folder);
}

TEST(Bench, RefusesWhatCannotBeInOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-p", "x"}, "-p has 'x'"},
      {{"-p", "1,,2"}, "-p is '1,,2'"},
      {{"-p", "0", "-n", "0"}, "-p and -n are 0"},
      {{"-o", "xml"}, "--output is 'xml'"},
      {{"-c", "100"}, "these tests need 513 positions"},
      {{"-d", "100000"}, "trained for 4096"},
      {{"--probe-size", "1"}, "--probe-size is"},
      {{"--speculate", "warp"}, "warp"},
  };
  for (const auto& [options, message] : cases) {
    std::vector<std::string> all = {"bench"};
    all.insert(all.end(), options.begin(), options.end());
    const ProgramResult out = run_program(all);
    EXPECT_EQ(out.status, 2) << message;
    EXPECT_THAT(out.err, HasSubstr(message));
    EXPECT_EQ(std::count(out.err.begin(), out.err.end(), '\n'), 1) << out.err;
    EXPECT_EQ(out.out, "");
  }
}

}  // namespace
}  // namespace ft::e2e
