// Every bad input is one line on standard error and exit status 2: what was wrong, never a crash.
#include "base/error.h"
#include "program.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::e2e {
namespace {

namespace fs = std::filesystem;

const fs::path kModel = FT_SOURCE_DIR "/models/glm-mini";
constexpr const char* kMiddleShard = "model-00002-of-00003.safetensors";

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_file(const fs::path& path, std::string_view bytes) {
  fs::remove(path);  // it may be a link to the shipped file
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// The shipped model as a folder of links, of which a test replaces what it wants to break.
class ModelCopy {
 public:
  ModelCopy() : folder_(fs::path(testing::TempDir()) / fmt::format("bad_input_{}", getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const fs::directory_entry& entry : fs::directory_iterator(kModel)) {
      fs::create_symlink(entry.path(), folder_ / entry.path().filename());
    }
  }
  ~ModelCopy() { fs::remove_all(folder_); }
  ModelCopy(const ModelCopy&) = delete;
  ModelCopy& operator=(const ModelCopy&) = delete;
  ModelCopy(ModelCopy&&) = delete;
  ModelCopy& operator=(ModelCopy&&) = delete;

  std::string path() const { return folder_.string(); }
  void remove(const std::string& name) const { fs::remove(folder_ / name); }
  void write(const std::string& name, std::string_view bytes) const {
    write_file(folder_ / name, bytes);
  }
  std::string read(const std::string& name) const { return read_file(folder_ / name); }
  /// Replaces the value of a number or word member of config.json.
  void set_config(const std::string& member, const std::string& value) const {
    std::string text = read_file(kModel / "config.json");
    const std::string key = "\"" + member + "\": ";
    const std::size_t begin = text.find(key) + key.size();
    ASSERT_GE(begin, key.size()) << member;
    text.replace(begin, text.find_first_of(",\n", begin) - begin, value);
    write("config.json", text);
  }

  void expect_refused(std::string_view what) const {
    e2e::expect_refused(run_program({"generate", path(), "--token-ids", "1,2,3", "-n", "2"}), what);
  }

 private:
  fs::path folder_;
};

std::string safetensors(std::string_view header,
                        std::size_t n_data_bytes,
                        std::uint64_t header_bytes) {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header_bytes >> (8 * i) & 0xFF);
  out += header;
  out.append(n_data_bytes, '\0');
  return out;
}

std::string safetensors(std::string_view header, std::size_t n_data_bytes) {
  return safetensors(header, n_data_bytes, header.size());
}

TEST(BadInput, MissingFiles) {
  expect_refused(run_program({"generate", "/no/such/model", "--prompt", "x"}), "/no/such/model");
  expect_refused(run_program({"generate", "no-such-name", "--prompt", "x"}), "glm-mini");
  const ModelCopy no_config;
  no_config.remove("config.json");
  no_config.expect_refused("config.json");
  const ModelCopy no_shard;
  no_shard.remove(kMiddleShard);
  no_shard.expect_refused(kMiddleShard);
}

TEST(BadInput, DamagedShards) {
  const std::string whole = read_file(kModel / kMiddleShard);
  for (const std::size_t n_bytes :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    const ModelCopy copy;
    copy.write(kMiddleShard, std::string_view(whole).substr(0, n_bytes));
    copy.expect_refused(kMiddleShard);
  }
  const ModelCopy longer;
  longer.write(kMiddleShard, whole + "more");
  longer.expect_refused(kMiddleShard);
}

TEST(BadInput, HostileHeaders) {
  const std::string one = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::vector<std::pair<std::string, std::string>> headers = {
      {"no JSON", "{\"a\""},
      {"no object", "[]"},
      {"twice the same name", "{" + one + "," + one + "}"},
      {"overlap", "{" + one + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"},
      {"backwards", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})"},
      {"beyond the end", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})"},
      {"wrapped", R"({"a":{"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]}})"},
      {"negative", R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"},
      {"wrong size", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"},
      {"unknown type", R"({"a":{"dtype":"Q9","shape":[2],"data_offsets":[0,8]}})"},
      {"missing member", R"({"a":{"dtype":"F32","shape":[2]}})"},
  };
  for (const auto& [name, header] : headers) {
    SCOPED_TRACE(name);
    const ModelCopy copy;
    copy.write(kMiddleShard, safetensors(header, 8));
    copy.expect_refused(kMiddleShard);
  }
  for (const std::uint64_t n :
       {std::uint64_t{1} << 62, ~std::uint64_t{0}, std::uint64_t{200'000'000}, std::uint64_t{9}}) {
    const ModelCopy copy;
    copy.write(kMiddleShard, safetensors("{}", 0, n));
    copy.expect_refused(kMiddleShard);
  }
}

TEST(BadInput, TheSameTensorInTwoShards) {
  const ModelCopy copy;
  copy.write(kMiddleShard, read_file(kModel / "model-00001-of-00003.safetensors"));
  copy.expect_refused("model-0000");
  const ModelCopy no_index;
  no_index.remove("model.safetensors.index.json");
  no_index.write(kMiddleShard, read_file(kModel / "model-00001-of-00003.safetensors"));
  no_index.expect_refused("model-0000");
}

TEST(BadInput, AbsurdConfigs) {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"hidden_size", "0"},
      {"hidden_size", "-256"},
      {"hidden_size", "\"big\""},
      {"hidden_size", "1e300"},
      {"hidden_size", "255"},
      {"hidden_size", "9223372036854775807"},
      {"vocab_size", "1099511627776"},
      {"num_hidden_layers", "2147483648"},
      {"num_hidden_layers", "9"},
      {"num_attention_heads", "0"},
      {"num_attention_heads", "1000000000"},
      {"kv_lora_rank", "-1"},
      {"q_lora_rank", "0"},
      {"qk_rope_head_dim", "63"},
      {"qk_nope_head_dim", "0"},
      {"n_routed_experts", "1000000"},
      {"num_experts_per_tok", "33"},
      {"num_experts_per_tok", "0"},
      {"index_topk", "0"},
      {"index_n_heads", "-8"},
      {"index_head_dim", "0"},
      {"rms_norm_eps", "-1"},
      {"max_position_embeddings", "0"},
      {"rope_theta", "0"},
      {"model_type", "\"llama\""},
      {"model_type", "7"},
      {"n_group", "5"},
      {"first_k_dense_replace", "-1"},
      {"v_head_dim", "1e9"},
      {"routed_scaling_factor", "null"},
      {"topk_group", "2"},
  };
  for (const auto& [member, value] : values) {
    SCOPED_TRACE(member + " = " + value);
    const ModelCopy copy;
    copy.set_config(member, value);
    copy.expect_refused("");
  }
  for (const char* text :
       {"", "{", "[]", "null", "{\"model_type\": \"glm_moe_dsa\"}", "\xff\xfe"}) {
    const ModelCopy copy;
    copy.write("config.json", text);
    copy.expect_refused("config");
  }
}

TEST(BadInput, BrokenTextFiles) {
  const std::string good = read_file(kModel / "tokenizer.json");
  for (const std::string& text : {std::string(),
                                  std::string("{"),
                                  std::string("[]"),
                                  std::string("{\"model\": 3}"),
                                  good.substr(0, good.size() / 2),
                                  std::string(R"({"model":{"type":"WordPiece"}})")}) {
    const ModelCopy copy;
    copy.write("tokenizer.json", text);
    copy.expect_refused("tokenizer.json");
    expect_refused(run_program({"tokenize", copy.path(), "x"}), "tokenizer.json");
  }
  const ModelCopy generation;
  generation.write("generation_config.json", R"({"temperature": -3})");
  generation.expect_refused("generation_config.json");
  const ModelCopy no_tokenizer;
  no_tokenizer.remove("tokenizer.json");
  expect_refused(run_program({"generate", no_tokenizer.path(), "--prompt", "x"}), "tokenizer.json");
  EXPECT_EQ(run_program({"generate", no_tokenizer.path(), "--token-ids", "1,2", "-n", "2"}).status,
            0);
}

TEST(BadInput, Prompts) {
  std::string long_prompt = "1";
  for (int i = 0; i < 40; ++i) long_prompt += ",1";
  const ProgramResult too_long = run_program({"generate", "--token-ids", long_prompt, "-c", "40"});
  expect_refused(too_long, "41 tokens");
  EXPECT_THAT(too_long.err, testing::HasSubstr("40"));
  expect_refused(run_program({"generate", "--token-ids", "1,6144"}), "6144");
  expect_refused(run_program({"generate", "--token-ids", "1,-1"}), "-1");
  expect_refused(run_program({"generate", "--token-ids", "1,x"}), "x");
  expect_refused(run_program({"generate", "--token-ids", "99999999999"}), "99999999999");
  expect_refused(run_program({"generate", "--prompt", ""}), "no tokens");
  expect_refused(run_program({"generate"}), "--prompt");
  expect_refused(run_program({"generate", "--prompt", "x", "--token-ids", "1"}), "--prompt");
  expect_refused(run_program({"generate", "--prompt-file", "/no/such/file"}), "/no/such/file");
  expect_refused(run_program({"logits", "--token-ids", "6144"}), "6144");
  expect_refused(run_program({"logits", "--token-ids", long_prompt, "-c", "40"}), "41 tokens");
  expect_refused(run_program({"logits", "--token-ids", "1", "--mtp", "50", "-c", "40"}),
                 "50 drafts");
  expect_refused(run_program({"logits", "glm-mini-draft", "--token-ids", "1", "--mtp", "1"}),
                 "MTP");
  expect_refused(run_program({"detokenize", "--token-ids", "1000000"}), "1000000");
}

TEST(BadInput, Options) {
  const std::vector<std::vector<std::string>> refused = {{"--temperature", "-1"},
                                                         {"--temperature", "nan"},
                                                         {"--temperature", "hot"},
                                                         {"--top-p", "1.5"},
                                                         {"--top-p", "0"},
                                                         {"--top-k", "-1"},
                                                         {"--min-p", "2"},
                                                         {"--repeat-penalty", "0"},
                                                         {"--seed", "-1"},
                                                         {"--seed", "x"},
                                                         {"--seed", "99999999999999999999"},
                                                         {"--seed", "1.5"},
                                                         {"--logit-bias", "1"},
                                                         {"--logit-bias", "6144:1"},
                                                         {"-n", "0"},
                                                         {"-n", "-1"},
                                                         {"-n", "many"},
                                                         {"-c", "0"},
                                                         {"-c", "4097"},
                                                         {"--prefill-chunk", "0"},
                                                         {"--threads", "0"},
                                                         {"--threads", "100000"},
                                                         {"--stop", ""},
                                                         {"--logprobs", "-1"},
                                                         {"--logprobs", "6145"},
                                                         {"--speculate", "oracle"},
                                                         {"--speculate", "none,mtp"},
                                                         {"--speculate", "mtp,"},
                                                         {"--draft-tokens", "65"},
                                                         {"--draft-tokens", "-1"},
                                                         {"--draft-tokens", "few"},
                                                         {"--speculate", "prediction"},
                                                         {"--speculate", "draft"},
                                                         {"--accept", "lenient"},
                                                         {"--experts", "stream"},
                                                         {"--experts", "drive"},
                                                         {"--expert-policy", "fifo"},
                                                         {"--lookahead", "maybe"},
                                                         {"--ram-budget", "1M"},
                                                         {"--ram-budget", "0"},
                                                         {"--ram-budget", "much"},
                                                         {"--mirror", "/x"},
                                                         {"--prediction", "/x"},
                                                         {"--draft-model", "/x"},
                                                         {"--isa", "mmx"},
                                                         {"--kv-type", "fp8"},
                                                         {"--trace", "/no/such/folder/trace"},
                                                         {"--trace", (kModel / "trace").string()},
                                                         {"--no-such-option"},
                                                         {"glm-mini", "glm-mini"}};
  for (const std::vector<std::string>& words : refused) {
    std::vector<std::string> arguments = {"generate", "--token-ids", "1,2,3"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    SCOPED_TRACE(words.front() + (words.size() > 1 ? " " + words[1] : ""));
    expect_refused(run_program(arguments), words[0] == "--speculate" ? words[1].substr(0, 4) : "");
  }
  expect_refused(run_program({"generate", "--token-ids", "1", "--seed", "1", "--seed", "2"}),
                 "--seed is given 2 times, expected once");
  expect_refused(run_program({"inspect", "--quiet"}), "--quiet");
  expect_refused(run_program({"inspect", "--verify"}), "is no container");
  for (const char* command : {"convert", "prove"}) {
    SCOPED_TRACE(command);
    const std::string destination = testing::TempDir() + "/never_written";
    std::vector<std::string> arguments = {command, "glm-mini", "--threads", "100000"};
    if (command == std::string("convert")) arguments.insert(arguments.begin() + 2, destination);
    if (command == std::string("prove")) arguments.insert(arguments.end(), {"--token-ids", "1"});
    expect_refused(run_program(arguments), "threads is 100000, expected 1 to 1024");
    EXPECT_FALSE(fs::exists(destination));
  }
  expect_refused(run_program({}), "subcommand");
  expect_refused(run_program({"dance"}), "dance");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", "--token-ids", "1"}, {"plan"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--mirror", "/x"});
    expect_refused(run_program(arguments), "only containers have copies to read from");
  }
}

TEST(BadInput, LoopsOfLinks) {
  const ModelCopy model;
  const std::string loop = model.path() + "/loop";
  fs::create_symlink("loop", loop);
  const std::string reason = "Too many levels of symbolic links";
  for (const std::string& path : {loop, loop + "/below"}) {
    const std::vector<std::vector<std::string>> commands = {
        {"generate", path, "--token-ids", "1"},
        {"inspect", path, "--verify"},
        {"convert", path, model.path() + "/out"},
        {"convert", "glm-mini", path},
        {"synth", path, "--layers", "1", "--width", "0.02"},
        {"generate", "--prompt-file", path},
        {"generate", "--token-ids", "1", "--trace", path},
        {"tokenize", "--chat-json", path}};
    for (const std::vector<std::string>& arguments : commands) {
      SCOPED_TRACE(fmt::format("{}", fmt::join(arguments, " ")));
      expect_refused(run_program(arguments), reason);
    }
  }
  for (const char* name : {"config.json", "generation_config.json", kMiddleShard}) {
    model.remove(name);
    fs::create_symlink(name, fs::path(model.path()) / name);
    model.expect_refused(reason);
    model.remove(name);
    fs::create_symlink(kModel / name, fs::path(model.path()) / name);
  }
}

TEST(BadInput, ChatRequests) {
  const fs::path file = fs::path(testing::TempDir()) / fmt::format("chat_{}.json", getpid());
  for (const char* text : {"", "{", "[]", "{}", R"({"messages": 3})"}) {
    write_file(file, text);
    SCOPED_TRACE(text);
    expect_refused(run_program({"tokenize", "--chat-json", file.string()}), "");
  }
  fs::remove(file);
  expect_refused(run_program({"tokenize", "--chat-json", "/no/such/file"}), "/no/such/file");
  expect_refused(run_program({"tokenize"}), "TEXT");
}

}  // namespace
}  // namespace ft::e2e
