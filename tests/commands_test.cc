// The machine-readable output of every subcommand, as docs/cli.md promises it.
#include "program.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
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

std::int64_t integer(const json::Value& object, std::string_view name) {
  return at(object, name).as_integer(name);
}

std::vector<std::string> names_of(const json::Value& object) {
  std::vector<std::string> out;
  for (const auto& [name, value] : object.as_object("object")) out.push_back(name);
  return out;
}

json::Value run_json(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.json();
}

class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text)
      : path_((std::filesystem::path(testing::TempDir()) / fmt::format("commands_{}", getpid()))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile(TemporaryFile&&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Commands, GenerateJsonHasEveryField) {
  const json::Value out = run_json({"generate",
                                    "--prompt",
                                    std::string(kStory),
                                    "--temperature",
                                    "0",
                                    "-n",
                                    "64",
                                    "--ignore-eos",
                                    "--speculate",
                                    "mtp",
                                    "--draft-tokens",
                                    "3",
                                    "--logprobs",
                                    "2",
                                    "--json"});
  EXPECT_THAT(names_of(out),
              ElementsAre("text",
                          "token_ids",
                          "finish_reason",
                          "stop",
                          "seed",
                          "logprobs",
                          "usage",
                          "timings",
                          "speculation",
                          "experts",
                          "memory",
                          "model"));
  EXPECT_THAT(names_of(at(out, "timings")),
              ElementsAre("load_ms",
                          "prompt_n",
                          "prompt_ms",
                          "prompt_per_second",
                          "predicted_n",
                          "predicted_ms",
                          "predicted_per_second",
                          "time_to_first_token_ms",
                          "draft_n",
                          "draft_n_accepted"));
  EXPECT_THAT(names_of(at(out, "speculation")),
              ElementsAre("sources",
                          "accept",
                          "rounds",
                          "forwards",
                          "drafted",
                          "accepted",
                          "rejected",
                          "acceptance_lengths",
                          "drafted_per_position",
                          "accepted_per_position",
                          "tokens_per_forward",
                          "forwards_saved",
                          "by_source",
                          "best_fixed"));
  EXPECT_THAT(names_of(at(out, "memory")),
              ElementsAre("budget_bytes",
                          "peak_anonymous_bytes",
                          "kv_bytes",
                          "draft_kv_bytes",
                          "expert_cache_bytes"));
  EXPECT_THAT(names_of(at(out, "model")), ElementsAre("name", "parameters", "format", "hash"));

  const json::Value& speculation = at(out, "speculation");
  const std::int64_t accepted = integer(speculation, "accepted");
  EXPECT_EQ(integer(speculation, "forwards"), integer(speculation, "rounds") + 1);
  EXPECT_EQ(integer(speculation, "forwards") + accepted, 64);
  EXPECT_EQ(integer(speculation, "forwards_saved"), accepted);
  EXPECT_EQ(integer(speculation, "drafted"), accepted + integer(speculation, "rejected"));
  EXPECT_DOUBLE_EQ(at(speculation, "tokens_per_forward").as_real("x"),
                   64.0 / static_cast<double>(integer(speculation, "forwards")));
  std::size_t sum = 0;
  for (const std::size_t n : to_counts(at(speculation, "accepted_per_position"))) sum += n;
  EXPECT_EQ(sum, static_cast<std::size_t>(accepted));
  EXPECT_EQ(integer(at(at(speculation, "by_source"), "mtp"), "accepted"), accepted);

  EXPECT_GT(integer(at(out, "memory"), "peak_anonymous_bytes"), 1'000'000);
  EXPECT_GT(integer(at(out, "memory"), "kv_bytes"), 0);
  EXPECT_GT(integer(at(out, "memory"), "draft_kv_bytes"), 0);
  EXPECT_EQ(at(at(out, "model"), "hash").as_string("hash").size(), 16U);
  const json::Array& logprobs = at(out, "logprobs").as_array("logprobs");
  ASSERT_EQ(logprobs.size(), 64U);
  // Greedy takes the best.
  EXPECT_EQ(integer(logprobs[5], "id"), integer(at(logprobs[5], "top").as_array("top")[0], "id"));
  EXPECT_EQ(at(logprobs[5], "top").as_array("top").size(), 2U);
}

TEST(Commands, GenerateDrawsAndReportsASeed) {
  const std::vector<std::string> base = {
      "generate", "--token-ids", "6110,6112", "-n", "12", "--json"};
  const json::Value first = run_json(base);
  std::vector<std::string> again = base;
  again.insert(again.end(), {"--seed", std::to_string(integer(first, "seed"))});
  EXPECT_EQ(to_ids(at(run_json(again), "token_ids")), to_ids(at(first, "token_ids")));
  EXPECT_NE(integer(run_json(base), "seed"), integer(first, "seed"));
}

TEST(Commands, GenerateReadsPromptsFromFiles) {
  const TemporaryFile file(kStory);
  EXPECT_EQ(
      run_program(
          {"generate", "--prompt-file", file.path(), "--temperature", "0", "-n", "20", "--quiet"})
          .out,
      run_program({"generate",
                   "--prompt",
                   std::string(kStory),
                   "--temperature",
                   "0",
                   "-n",
                   "20",
                   "--quiet"})
          .out);
}

TEST(Commands, TraceHasALinePerRound) {
  const TemporaryFile trace("");
  const json::Value out = run_json({"generate",
                                    "--prompt",
                                    std::string(kStory),
                                    "--temperature",
                                    "0",
                                    "-n",
                                    "40",
                                    "--trace",
                                    trace.path(),
                                    "--json"});
  std::ifstream in(trace.path());
  std::string header;
  std::getline(in, header);
  EXPECT_THAT(names_of(json::parse(header, "trace")), ElementsAre("plan"));
  std::vector<std::size_t> accepted;
  for (std::string line; std::getline(in, line);) {
    const json::Value round = json::parse(line, "trace");
    EXPECT_THAT(names_of(round),
                ElementsAre("round",
                            "position",
                            "source",
                            "depth",
                            "drafts",
                            "accepted",
                            "token",
                            "missing_experts",
                            "predicted_us",
                            "actual_us",
                            "reason",
                            "draft_us",
                            "forward_us",
                            "verify_us",
                            "observe_us",
                            "regret_us",
                            "inputs",
                            "chosen",
                            "asked",
                            "stall_us",
                            "missing_bytes",
                            "experts",
                            "memory"));
    accepted.push_back(static_cast<std::size_t>(integer(round, "accepted")));
  }
  EXPECT_EQ(accepted, to_counts(at(at(out, "speculation"), "acceptance_lengths")));
}

TEST(Commands, LogitsOfAllPositionsAgreeWithEachPrefix) {
  const json::Value all = run_json({"logits", "--token-ids", "6110,6112,5,9", "--all", "--json"});
  EXPECT_EQ(to_counts(at(all, "positions")), (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(all.find("mtp"), nullptr);
  const json::Value prefix = run_json({"logits", "--token-ids", "6110,6112", "--json"});
  const json::Array& row = at(all, "logits").as_array("logits")[1].as_array("row");
  const json::Array& last = at(prefix, "logits").as_array("logits")[0].as_array("row");
  ASSERT_EQ(row.size(), 6144U);
  for (std::size_t i = 0; i < row.size(); ++i)
    ASSERT_EQ(row[i].as_real("logit"), last[i].as_real("logit"));
  const ProgramResult lines = run_program({"logits", "--token-ids", "6110,6112,5,9", "--all"});
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 4);
}

TEST(Commands, TokenizeAndDetokenizeAreInverse) {
  const std::string text = "Ünïcödé — “quotes”, 数字 123456, 🙂\n\n<|user|>  x";
  const ProgramResult ids = run_program({"tokenize", text});
  EXPECT_EQ(ids.status, 0);
  EXPECT_EQ(run_program({"detokenize", "--token-ids", join_ids(to_ids(ids.json()))}).out, text);
  EXPECT_EQ(run_program({"tokenize", "glm-mini", text}).out, ids.out);
  const TemporaryFile file(text);
  EXPECT_EQ(run_program({"tokenize", "--file", file.path()}).out, ids.out);
  EXPECT_EQ(run_program({"tokenize", "glm-mini", "--file", file.path()}).out, ids.out);
  const json::Value shown = run_json({"tokenize", "--show", text});
  EXPECT_EQ(at(shown, "text").as_string("text"), text);
  EXPECT_EQ(to_ids(at(shown, "token_ids")), to_ids(ids.json()));
}

TEST(Commands, ChatRequestsRenderAsTheGoldens) {
  const json::Value goldens =
      json::parse(io::read_text(FT_SOURCE_DIR "/models/goldens/chat.json", 1 << 20), "chat.json");
  for (const json::Value& golden : goldens.as_array("chat.json")) {
    const TemporaryFile file(json::Writer().value(at(golden, "request")).text());
    const json::Value out = run_json({"tokenize", "--chat-json", file.path(), "--show"});
    EXPECT_EQ(at(out, "text").as_string("text"), at(golden, "prompt").as_string("prompt"));
    EXPECT_EQ(to_ids(at(out, "token_ids")), to_ids(at(golden, "ids")));
  }
}

TEST(Commands, InspectReadsHeaders) {
  const json::Value out = run_json({"inspect", "glm-mini", "--json", "--tensors"});
  EXPECT_EQ(at(out, "family").as_string("family"), "glm_moe_dsa");
  EXPECT_EQ(at(out, "name").as_string("name"), "glm-mini");
  EXPECT_EQ(integer(out, "layers"), 8);
  EXPECT_EQ(integer(out, "mtp_layers"), 1);
  EXPECT_EQ(integer(out, "experts"), 32);
  EXPECT_EQ(integer(out, "context"), 4096);
  EXPECT_EQ(at(out, "format").as_string("format"), "fp8");
  EXPECT_EQ(at(out, "files").as_array("files").size(), 3U);
  EXPECT_TRUE(at(out, "problems").as_array("problems").empty());
  std::int64_t n_bytes = 0;
  for (const json::Value& tensor : at(out, "tensors").as_array("tensors"))
    n_bytes += integer(tensor, "bytes");
  const json::Value& bytes = at(out, "tensor_bytes");
  EXPECT_EQ(integer(bytes, "dense") + integer(bytes, "experts") + integer(bytes, "mtp"), n_bytes);
  EXPECT_THAT(run_program({"inspect"}).out, HasSubstr("glm-mini"));
}

TEST(Commands, ProveComparesEveryCase) {
  const json::Value out = run_json({"prove",
                                    "--prompt",
                                    fmt::format("{0}{0}{0}", kStory),
                                    "-n",
                                    "16",
                                    "--speculate",
                                    "mtp",
                                    "--speculate",
                                    "ngram,mtp",
                                    "--draft-tokens",
                                    "3",
                                    "--prefill-chunk",
                                    "4",
                                    "--threads",
                                    "2",
                                    "--json"});
  EXPECT_TRUE(at(out, "identical").as_bool("identical"));
  const json::Array& cases = at(out, "cases").as_array("cases");
  // Threads 1 and 2, chunks 1, 7, 512 and 4, two source lists; plain decoding wherever it is not
  // the base itself. Then the prompt fed before, all of it and half, five other requests on both
  // engines, and a context that ends.
  EXPECT_EQ(cases.size(), 2U * 4U * 2U + 7U + 2U * 2U + 2U * 5U * 2U + 2U);
  for (const json::Value& entry : cases) {
    EXPECT_TRUE(at(entry, "identical").as_bool("identical"));
    EXPECT_TRUE(at(entry, "first_difference").is_null());
    EXPECT_THAT(at(entry, "options").as_string("options"), HasSubstr("--prefill-chunk"));
  }
  const ProgramResult text =
      run_program({"prove", "--prompt", "Hello", "-n", "8", "--draft-tokens", "2"});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.out, HasSubstr("identical"));
}

TEST(Commands, EachHasHelp) {
  for (const char* command : {"generate", "logits", "tokenize", "detokenize", "inspect", "prove"}) {
    const ProgramResult help = run_program({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("foretoken ") + command));
  }
}

TEST(Commands, HelpNamesEveryOptionOfTheContract) {
  const ProgramResult help = run_program({"generate", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* option : {"--prompt",
                             "--prompt-file",
                             "--token-ids",
                             "--max-tokens",
                             "--context",
                             "--logprobs",
                             "--temperature",
                             "--top-p",
                             "--top-k",
                             "--min-p",
                             "--seed",
                             "--repeat-penalty",
                             "--presence-penalty",
                             "--frequency-penalty",
                             "--logit-bias",
                             "--stop",
                             "--ignore-eos",
                             "--prefill-chunk",
                             "--kv-type",
                             "--speculate",
                             "--draft-tokens",
                             "--accept",
                             "--threads",
                             "--ram-budget",
                             "--experts",
                             "--mirror",
                             "--expert-policy",
                             "--lookahead",
                             "--no-expert-usage",
                             "--isa",
                             "--trace",
                             "--json",
                             "--quiet",
                             "--verbose"}) {
    EXPECT_THAT(help.out, HasSubstr(option));
  }
  EXPECT_EQ(run_program({"--help"}).status, 0);
  EXPECT_EQ(run_program({"--version"}).status, 0);
}

TEST(Commands, NobodyReadsStandardError) {
  const auto status_of = [](const std::string& arguments, const std::string& redirection) {
    const std::string command =
        fmt::format("{} {} >/dev/null {}", FT_PROGRAM, arguments, redirection);
    const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  for (const std::string redirection : {"2>/dev/full", "2>&-"}) {
    EXPECT_EQ(status_of("no-such-command", redirection), 2) << redirection;
    EXPECT_EQ(status_of("generate --prompt Once -n 2", redirection), 0) << redirection;
  }
}

TEST(Commands, PerplexityOfAHeldOutText) {
  const json::Value out = run_json({"perplexity",
                                    "--kv-type",
                                    "f32",
                                    "--file",
                                    FT_SOURCE_DIR "/tests/data/held_out.txt",
                                    "--json"});
  EXPECT_EQ(integer(out, "tokens"), 6768);
  EXPECT_EQ(integer(out, "bytes"), 19980);  // of the scored tokens
  EXPECT_NEAR(at(out, "nats_per_token").as_real("nats"), 4.234126473, 1e-5);  // the oracle's
}

}  // namespace
}  // namespace ft::e2e
