#include "apps/bench_report.h"

#include "base/error.h"
#include "json/json.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace ft::apps {
namespace {

BenchReport report() {
  BenchReport out;
  out.machine = {.cpu = "Some \"CPU\", 2 GHz",
                 .n_threads = 2,
                 .read_bytes_per_s = 20e9,
                 .f32_ops_per_s = 3e11,
                 .int8_ops_per_s = 0};
  out.model.name = "m";
  out.model.format = "fp8";
  out.model.weight_bytes = 32'000'000;
  out.kv_type = "bf16";
  BenchResult prompt{.test = {.n_prompt = 512, .depth = 1024},
                     .tokens_per_second = {100, 300, 200}};
  prompt.completion.prompt_work =
      foretoken::PhaseWork{.stages_ms = {.attention = 512}, .weight_bytes = 512 * 1000};
  BenchResult generation{
      .test = {.n_generated = 10, .speculate = {"mtp", "ngram"}, .draft_tokens = 3},
      .tokens_per_second = {50, 70}};
  generation.completion.predicted_work = foretoken::PhaseWork{
      .stages_ms = {.experts = 40, .draft = 20}, .weight_bytes = 1'000'000'000};
  foretoken::SpeculationStatistics& speculation = generation.completion.speculation;
  speculation.sources = {"mtp", "ngram"};
  speculation.drafted = 8;
  speculation.accepted = 6;
  speculation.tokens_per_forward = 2.5;
  out.results = {prompt, generation};
  return out;
}

const json::Value& at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  if (value == nullptr) throw std::out_of_range(std::string(name));
  return *value;
}

TEST(BenchReport, NamesTestsAsLlamaBenchDoes) {
  const BenchReport bench = report();
  EXPECT_EQ(bench.results[0].test.name(), "pp512 @ d1024");
  EXPECT_EQ(bench.results[0].test.speculation(), "none");
  EXPECT_EQ(bench.results[1].test.name(), "tg10");
  EXPECT_EQ(bench.results[1].test.speculation(), "mtp,ngram x3");
}

TEST(BenchReport, TakesMediansAndShares) {
  const BenchReport bench = report();
  EXPECT_EQ(bench.results[0].median(), 200);
  EXPECT_EQ(bench.results[1].median(), 60);
  EXPECT_EQ(bench.results[1].least(), 50);
  EXPECT_EQ(bench.results[1].most(), 70);
  EXPECT_EQ(bench.results[1].weight_bytes_per_token(), 1e8);
  EXPECT_DOUBLE_EQ(bench.bandwidth_share(bench.results[1]), 0.3);
}

TEST(BenchReport, JsonHasTheDocumentedFields) {
  const json::Value out = json::parse(report().text(BenchFormat::kJson), "bench");
  const json::Value& machine = at(out, "machine");
  EXPECT_EQ(at(machine, "threads").as_integer("threads"), 2);
  EXPECT_FALSE(at(machine, "busy").as_bool("busy"));
  const json::Array& results = at(out, "results").as_array("results");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(at(results[0], "speculation").type(), json::Value::Type::kNull);
  EXPECT_EQ(at(at(results[1], "speculation"), "acceptance").as_real("acceptance"), 0.75);
  EXPECT_EQ(at(at(results[1], "tokens_per_second"), "samples").as_integer("samples"), 2);
  EXPECT_EQ(at(at(results[1], "stages_ms"), "experts").as_real("experts"), 40);
  EXPECT_TRUE(at(results[1], "stable").as_bool("stable"));
}

TEST(BenchReport, LinesAndCsvHaveOneResultEach) {
  const std::string lines = report().text(BenchFormat::kJsonLines);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  const json::Value first = json::parse(lines.substr(0, lines.find('\n')), "line");
  EXPECT_EQ(at(first, "test").as_string("test"), "pp512 @ d1024");
  const std::string csv = report().text(BenchFormat::kCsv);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_NE(csv.find("\"Some \"\"CPU\"\", 2 GHz\""), std::string::npos);
  EXPECT_NE(csv.find("\"mtp,ngram x3\""), std::string::npos);
}

TEST(BenchReport, MarksSpeedsOfABusyMachine) {
  BenchReport bench = report();
  EXPECT_EQ(bench.text(BenchFormat::kMarkdown).find("~"), std::string::npos);
  bench.machine.others_share = 0.2;
  bench.machine.is_busy = is_busy(bench.machine);
  ASSERT_TRUE(bench.machine.is_busy);
  EXPECT_NE(bench.text(BenchFormat::kMarkdown).find("~200"), std::string::npos);
  const json::Value out = json::parse(bench.text(BenchFormat::kJson), "bench");
  EXPECT_FALSE(at(at(out, "results").as_array("results")[0], "stable").as_bool("stable"));
}

TEST(BenchFormat, RefusesUnknownNames) {
  EXPECT_EQ(bench_format("csv"), BenchFormat::kCsv);
  EXPECT_THROW(bench_format("xml"), InvalidInput);
}

}  // namespace
}  // namespace ft::apps
