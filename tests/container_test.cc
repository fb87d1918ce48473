// The converter and its containers as a user meets them.
#include "program.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

const json::Value& at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  if (value == nullptr) throw std::out_of_range(std::string(name));
  return *value;
}

class Container : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / fmt::format("ft_container_{}", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// All parts in one format.
  std::vector<std::string> conversion(const std::string& to, const std::string& format) const {
    std::vector<std::string> arguments{"convert", "glm-mini", path(to), "--quiet"};
    for (const char* option :
         {"--expert-format", "--dense-format", "--mtp-format", "--head-format"}) {
      arguments.insert(arguments.end(), {option, format});
    }
    return arguments;
  }
  static ProgramResult run_well(const std::vector<std::string>& arguments) {
    ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  }
  static std::map<std::string, std::string> files_of(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      files[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return files;
  }
  static std::string story(const std::string& model) {
    return run_well({"generate",
                     model,
                     "--prompt",
                     std::string(kStory),
                     "--temperature",
                     "0",
                     "-n",
                     "40",
                     "--quiet"})
        .out;
  }
  /// All cases of a proof are equal, and there are as many as expected.
  static void expect_exact(const std::string& model,
                           const std::vector<std::string>& matrix,
                           std::size_t n_cases) {
    std::vector<std::string> arguments{
        "prove", model, "--prompt", std::string(kStory), "-n", "24", "--seed", "3", "--json"};
    arguments.insert(arguments.end(), matrix.begin(), matrix.end());
    const json::Value proof = run_program(arguments).json();
    EXPECT_TRUE(at(proof, "identical").as_bool("identical")) << model;
    const json::Array& cases = at(proof, "cases").as_array("cases");
    EXPECT_EQ(cases.size(), n_cases);
    for (const json::Value& entry : cases) {
      EXPECT_TRUE(at(entry, "identical").as_bool("identical"))
          << model << ": " << at(entry, "options").as_string("options");
    }
  }
  std::string make_colibri(const std::string& name, const std::string& options) const {
    const std::string command = fmt::format(
        "/usr/bin/python3 {0}/tests/colibri/make_colibri.py {0}/models/glm-mini {1} {2}",
        FT_SOURCE_DIR,
        path(name),
        options);
    EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe): one thread
    return path(name);
  }

  fs::path folder_;
};

TEST_F(Container, StoredAndWidenedWeightsTellTheSameStory) {
  const std::string expected = story("glm-mini");
  for (const std::string format : {"fp8", "f32"}) {
    run_well(conversion(format, format));
    EXPECT_EQ(story(path(format)), expected) << format;
  }
}

TEST_F(Container, EveryFormatIsExactUnderSpeculation) {
  for (const std::string format : {"q4", "q8", "fp8", "bf16"}) {
    run_well(conversion(format, format));
    // Plain, each source and all together, depths 0 to 8 and the planner's, 1 and 2 threads,
    // prefill chunks of 1, 7 and 512; where experts can stream, in four more memory budgets. Nine
    // other requests on the first and the last of these engines, and a context that ends.
    const bool streams = format == "q4" || format == "q8";
    expect_exact(path(format), {"--threads", "2"}, streams ? 501 + 4 * 123 : 501);
    EXPECT_GT(story(path(format)).size(), 40U);
  }
}

TEST_F(Container, OtherFormatsAndMixturesAreExactToo) {
  run_well(conversion("f16", "f16"));
  run_well({"convert", "glm-mini", path("mixed"), "--quiet"});
  for (const std::string model : {"f16", "mixed"}) {
    expect_exact(path(model),
                 {"--threads", "2", "--speculate", "mtp", "--draft-tokens", "3"},
                 model == "f16" ? 23 : 23 + 4 * 6);
    EXPECT_GT(story(path(model)).size(), 40U);
  }
}

TEST_F(Container, IsAModelWhereverItLies) {
  const json::Value done =
      run_well({"convert", "glm-mini", path("a"), "--verify", "--json"}).json();
  EXPECT_TRUE(at(done, "verified").as_bool("verified"));
  const std::string expected = story(path("a"));
  fs::rename(folder_ / "a", folder_ / "b");
  EXPECT_EQ(story(path("b")), expected);
  EXPECT_EQ(story(path("b/model.foretoken")), expected);
  const std::vector<std::string> inspect{"inspect", path("b"), "--json", "--tensors", "--verify"};
  const json::Value out = run_well(inspect).json();
  EXPECT_EQ(at(out, "format").as_string("format"), "q4+q8");
  EXPECT_EQ(at(at(at(out, "container"), "formats"), "experts").as_string("experts"), "q4");
  EXPECT_TRUE(at(out, "problems").as_array("problems").empty());
  EXPECT_EQ(at(out, "parameters").as_integer("n"),
            at(run_well({"inspect", "glm-mini", "--json"}).json(), "parameters").as_integer("n"));
  std::int64_t n_bytes = 0;
  for (const json::Value& tensor : at(out, "tensors").as_array("tensors")) {
    n_bytes += at(tensor, "bytes").as_integer("bytes");
  }
  std::int64_t n_counted = 0;
  for (const auto& [part, bytes] : at(out, "tensor_bytes").as_object("tensor_bytes")) {
    n_counted += bytes.as_integer(part);
  }
  EXPECT_EQ(n_counted, n_bytes);
  const std::string chat = R"({"messages":[{"role":"user","content":"hi"}]})";
  std::ofstream(folder_ / "chat.json") << chat;
  EXPECT_EQ(run_well({"tokenize", path("b"), "--chat-json", path("chat.json")}).out,
            run_well({"tokenize", "glm-mini", "--chat-json", path("chat.json")}).out);
}

TEST_F(Container, SurvivesKillsAtTenRandomMoments) {
  const std::vector<std::string> arguments = conversion("whole", "q4");
  const auto start = std::chrono::steady_clock::now();
  run_well(arguments);
  const auto all_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::steady_clock::now() - start)
                          .count();
  const auto expected = files_of(folder_ / "whole");
  std::mt19937 rng(11);
  std::vector<std::string> killed = arguments;
  killed[2] = path("killed");
  // A run may end before its signal comes: then the next one starts from nothing.
  std::size_t n_killed = 0;
  for (int n_runs = 0; n_killed < 10 && n_runs < 60; ++n_runs) {
    Program program(killed);
    std::this_thread::sleep_for(std::chrono::milliseconds(rng() % (all_ms / 2 + 1)));
    program.kill();
    const bool was_killed = program.finish().status == 128 + SIGKILL;
    n_killed += was_killed ? 1U : 0U;
    if (was_killed && n_killed % 5 != 0) continue;
    run_well(killed);
    EXPECT_EQ(files_of(folder_ / "killed"), expected);
    fs::remove_all(folder_ / "killed");
  }
  EXPECT_EQ(n_killed, 10U);
}

TEST_F(Container, ALimitOfFileSizesIsAnError) {
  const auto run_limited = [](const std::string& arguments) {
    const std::string command =
        fmt::format("ulimit -f 16; exec {} {}", FT_PROGRAM, arguments);  // 8 or 16 KiB
    const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const std::string said = path("said");
  EXPECT_EQ(run_limited(fmt::format("convert glm-mini {} 2>{}", path("c"), said)), 1);
  EXPECT_THAT(files_of(folder_ / "c").count("model.foretoken"), 0U);
  EXPECT_EQ(
      run_limited(fmt::format("logits --token-ids 1,2 --all --json >{} 2>{}", path("out"), said)),
      1);
  std::ifstream in(said);
  std::string line;
  std::getline(in, line);
  EXPECT_THAT(line, HasSubstr("cannot write to standard output: File too large"));
  // What was written so far is no obstacle.
  run_well({"convert", "glm-mini", path("c"), "--verify", "--quiet"});
}

TEST_F(Container, SaysThatAConversionDidNotFinish) {
  run_well({"convert", "glm-mini", path("c"), "--quiet"});
  fs::rename(folder_ / "c" / "model.foretoken", folder_ / "c" / "convert.journal");
  const std::string message = "did not finish; run the same command again";
  expect_refused(run_program({"inspect", path("c"), "--verify"}), message);
  expect_refused(run_program({"inspect", path("c")}), message);
  expect_refused(run_program({"generate", path("c"), "--token-ids", "1"}), message);
}

TEST_F(Container, NamesAFlippedByteAnywhere) {
  run_well({"convert", "glm-mini", path("c"), "--quiet"});
  std::mt19937 rng(5);
  for (const auto& [name, content] : files_of(folder_ / "c")) {
    const std::size_t where = rng() % content.size();
    std::string damaged = content;
    damaged[where] = static_cast<char>(damaged[where] ^ 4);
    std::ofstream(folder_ / "c" / name, std::ios::binary) << damaged;
    expect_refused(run_program({"inspect", path("c"), "--verify"}), name);
    std::ofstream(folder_ / "c" / name, std::ios::binary) << content;
  }
  run_well({"convert", "glm-mini", path("c"), "--verify", "--quiet"});
}

TEST_F(Container, RefusesFoldersThatAreNotItsOwn) {
  const std::string inside = FT_SOURCE_DIR "/models/glm-mini/converted";
  expect_refused(run_program({"convert", FT_SOURCE_DIR "/models/glm-mini", inside}),
                 "lie in one another");
  EXPECT_FALSE(fs::exists(inside));
  std::ofstream(folder_ / "letter.txt") << "dear";
  expect_refused(run_program({"convert", "glm-mini", folder_.string()}), "'letter.txt'");
  expect_refused(run_program({"convert", "glm-mini", path("letter.txt")}),
                 "is a file, expected a folder");
  expect_refused(run_program({"convert", "glm-mini", path("x"), "--expert-format", "q3"}),
                 "--expert-format is 'q3'");
  run_well({"convert", "glm-mini", path("y"), "--quiet"});
  expect_refused(run_program({"convert", "glm-mini", path("y"), "--expert-format", "q8"}),
                 "already is a container");
  expect_refused(run_program({"convert", path("y"), path("z")}), "is a container already");
}

TEST_F(Container, ColibriFilesAreModelsWithoutConversion) {
  const std::string rows = make_colibri("rows", "");
  const std::string groups = make_colibri("groups", "--group 64");
  const std::string wide = make_colibri("wide", "--main-bits 8");
  std::ofstream(folder_ / "text") << kStory << story("glm-mini");
  const auto nats = [this](const std::string& model) {
    const ProgramResult result = run_well({"perplexity", model, "--file", path("text"), "--json"});
    return at(result.json(), "nats_per_token").as_real("nats");
  };
  EXPECT_NEAR(nats(wide), nats("glm-mini"), 0.1);
  for (const std::string& model : {rows, groups, wide}) {
    const std::string expected = story(model);
    EXPECT_GT(expected.size(), 40U);
    run_well({"convert", model, model + "-container", "--verify", "--quiet"});
    EXPECT_EQ(story(model + "-container"), expected);
  }
  EXPECT_EQ(at(run_well({"inspect", rows, "--json"}).json(), "format").as_string("format"), "int4");
  expect_refused(
      run_program({"generate", make_colibri("narrow", "--group 32"), "--token-ids", "1"}),
      "groups of 32");
}

}  // namespace
}  // namespace ft::e2e
