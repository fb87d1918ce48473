#include "checkpoint/checkpoint.h"

#include "base/error.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

std::string shard_content(const std::vector<TestTensor>& tensors) {
  std::string json = "{";
  std::string data;
  for (const TestTensor& t : tensors) {
    json += fmt::format(R"({}"{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})",
                        json.size() == 1 ? "" : ", ",
                        t.name,
                        t.dtype,
                        fmt::join(t.shape, ", "),
                        data.size(),
                        data.size() + t.bytes.size());
    data += t.bytes;
  }
  json += "}";
  std::string length(8, '\0');
  const std::uint64_t n = json.size();
  std::memcpy(length.data(), &n, 8);
  return length + json + data;
}

TestTensor bf16(const std::string& name, std::uint64_t rows, std::uint64_t cols, char fill = 'x') {
  return {name, "BF16", {rows, cols}, std::string(2 * rows * cols, fill)};
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              (std::string("ft_ckpt_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    put("config.json", R"({"hidden_size": 4})");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  void put_index(const std::map<std::string, std::string>& weight_map) const {
    std::vector<std::string> lines;
    for (const auto& [tensor, shard] : weight_map) {
      lines.push_back(fmt::format(R"("{}": "{}")", tensor, shard));
    }
    put("model.safetensors.index.json",
        fmt::format(R"({{"metadata": {{}}, "weight_map": {{{}}}}})", fmt::join(lines, ", ")));
  }
  Checkpoint open() const { return Checkpoint::open(folder_); }
  std::string error() const {
    return message_of([this] { open(); });
  }

  template <typename F>
  static std::string message_of(F&& call) {
    try {
      call();
    } catch (const InvalidInput& error) {
      std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
    return "no error";
  }

  fs::path folder_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(CheckpointTest, OpensShardsWithoutIndex_AndMapsThem) {
  put("model-00001-of-00002.safetensors",
      shard_content({bf16("b", 1, 2, 'b'), bf16("d", 1, 1, 'd')}));
  put("model-00002-of-00002.safetensors", shard_content({bf16("a", 1, 3, 'a')}));
  put("notes.txt", "no shard");
  put("generation_config.json", R"({"temperature": 1})");
  Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.folder(), folder_);
  EXPECT_EQ(checkpoint.config().find("hidden_size")->as_integer("h"), 4);
  EXPECT_TRUE(checkpoint.generation_config().is_object());
  ASSERT_EQ(checkpoint.shards().size(), 2u);
  EXPECT_EQ(checkpoint.shards()[0].path.filename(), "model-00001-of-00002.safetensors");
  EXPECT_EQ(checkpoint.shards()[0].size_bytes, fs::file_size(checkpoint.shards()[0].path));
  ASSERT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(checkpoint.tensors()[0].name, "a");
  EXPECT_EQ(checkpoint.find("a")->shard, 1u);
  EXPECT_EQ(checkpoint.find("c"), nullptr);
  EXPECT_EQ(checkpoint.find("e"), nullptr);
  checkpoint.map();
  EXPECT_EQ(text_of(checkpoint.bytes(*checkpoint.find("b"))), "bbbb");
  EXPECT_EQ(text_of(checkpoint.bytes(*checkpoint.find("d"))), "dd");
  EXPECT_EQ(text_of(checkpoint.bytes(*checkpoint.find("a"))), "aaaaaa");
}

TEST_F(CheckpointTest, OpensOneFile) {
  put("x.safetensors", shard_content({bf16("a", 1, 1)}));
  put("y.safetensors", shard_content({bf16("b", 1, 1)}));
  const Checkpoint checkpoint = Checkpoint::open(folder_ / "x.safetensors");
  EXPECT_EQ(checkpoint.folder(), folder_);
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
  EXPECT_TRUE(checkpoint.generation_config().is_null());
}

TEST_F(CheckpointTest, OpensOnlyTheShardsOfTheIndex) {
  put("x.safetensors", shard_content({bf16("a", 1, 1), bf16("extra", 1, 1)}));
  put("y.safetensors", shard_content({bf16("b", 1, 1)}));
  put("consolidated.safetensors", shard_content({bf16("a", 1, 1)}));
  put_index({{"a", "x.safetensors"}, {"b", "y.safetensors"}});
  const Checkpoint checkpoint = open();
  EXPECT_EQ(checkpoint.shards().size(), 2u);
  EXPECT_NE(checkpoint.find("extra"), nullptr);
}

TEST_F(CheckpointTest, RefusesWhatIsNoModelFolder) {
  EXPECT_THAT(error(), HasSubstr("holds no .safetensors file"));
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(error(), HasSubstr("holds no config.json"));
  EXPECT_THAT(message_of([&] { Checkpoint::open(folder_ / "none"); }),
              HasSubstr("none' does not exist"));
  put("README.md", "x");
  EXPECT_THAT(message_of([&] { Checkpoint::open(folder_ / "README.md"); }),
              HasSubstr("README.md' is a file"));
  put("config.json", "{");
  EXPECT_THAT(error(), AllOf(HasSubstr("config.json'"), HasSubstr("not valid JSON")));
  put("config.json", "[1]");
  EXPECT_THAT(error(), HasSubstr("config.json' is an array, expected an object"));
}

TEST_F(CheckpointTest, SaysWhichShardIsMissing) {
  put("x.safetensors", shard_content({bf16("a", 1, 1)}));
  put_index({{"a", "x.safetensors"}, {"b", "model-00077.safetensors"}});
  EXPECT_THAT(error(),
              AllOf(HasSubstr("lacks 1 of its 2 shards: 'model-00077.safetensors'"),
                    HasSubstr("download")));
}

TEST_F(CheckpointTest, SaysWhichNumberedShardIsMissing_WithoutIndex) {
  put("model-00001-of-00004.safetensors", shard_content({bf16("a", 1, 1)}));
  put("model-00003-of-00004.safetensors", shard_content({bf16("b", 1, 1)}));
  EXPECT_THAT(error(), HasSubstr("lacks 2 of its 4 shards: number 2, number 4;"));
}

TEST_F(CheckpointTest, ListsOnlySomeOfManyMissingShards) {
  put("model-00001-of-99999999.safetensors", shard_content({bf16("a", 1, 1)}));
  EXPECT_THAT(error(), AllOf(HasSubstr("lacks 99999998 of"), HasSubstr("number 5, ...;")));
}

TEST_F(CheckpointTest, RefusesAnIndexThatDisagreesWithTheShards) {
  put("x.safetensors", shard_content({bf16("a", 1, 1), {"i", "I64", {1}, "12345678"}}));
  put("y.safetensors", shard_content({bf16("b", 1, 1)}));
  put_index({{"a", "x.safetensors"}, {"b", "y.safetensors"}, {"c", "y.safetensors"}});
  EXPECT_THAT(error(), HasSubstr("tensor 'c' should be in shard 'y.safetensors', which lacks it"));
  put_index({{"a", "y.safetensors"}, {"b", "y.safetensors"}, {"i", "x.safetensors"}});
  EXPECT_THAT(
      error(),
      HasSubstr("tensor 'a' should be in shard 'y.safetensors', but is in 'x.safetensors'"));
  put_index({{"i", "x.safetensors"}});
  EXPECT_NO_THROW(open());
}

TEST_F(CheckpointTest, RefusesABrokenIndex) {
  put("x.safetensors", shard_content({bf16("a", 1, 1)}));
  put("model.safetensors.index.json", "{}");
  EXPECT_THAT(error(), HasSubstr("index.json' has no weight_map"));
  put("model.safetensors.index.json", R"({"weight_map": {}})");
  EXPECT_THAT(error(), HasSubstr("weight_map is empty"));
  put("model.safetensors.index.json", R"({"weight_map": {"a": 1}})");
  EXPECT_THAT(error(), HasSubstr("'a' is an integer, expected a string"));
  for (const char* name :
       {"../x.safetensors", "/etc/x.safetensors", "d/x.safetensors", "..", "", "x.bin"}) {
    put_index({{"a", name}});
    EXPECT_THAT(error(), HasSubstr("expected the name of a .safetensors file")) << name;
  }
}

TEST_F(CheckpointTest, RefusesATensorInTwoShards) {
  const TestTensor foreign{"i", "I8", {1}, "1"};
  put("x.safetensors", shard_content({bf16("a", 1, 1)}));
  put("y.safetensors", shard_content({bf16("a", 1, 1)}));
  EXPECT_THAT(error(),
              HasSubstr("tensor 'a' is in two shards, 'x.safetensors' and 'y.safetensors'"));
  put("x.safetensors", shard_content({foreign}));
  put("y.safetensors", shard_content({foreign}));
  EXPECT_THAT(error(), HasSubstr("tensor 'i' is in two shards"));
  put("y.safetensors", shard_content({bf16("i", 1, 1)}));
  EXPECT_THAT(error(), HasSubstr("tensor 'i' is in two shards"));
}

TEST_F(CheckpointTest, NamesTheShard_CutAnywhere) {
  const std::string whole = shard_content({bf16("a", 2, 3), bf16("b", 1, 1)});
  for (std::size_t n = 0; n < whole.size(); ++n) {
    put("cut.safetensors", whole.substr(0, n));
    EXPECT_THAT(error(), HasSubstr("cut.safetensors'")) << n;
  }
  put("cut.safetensors", whole + "x");
  EXPECT_THAT(error(), AllOf(HasSubstr("cut.safetensors'"), HasSubstr("the last 1 bytes")));
  put("cut.safetensors", whole);
  EXPECT_NO_THROW(open());
}

TEST_F(CheckpointTest, RefusesAShardThatIsAFolder) {
  fs::create_directory(folder_ / "d.safetensors");
  EXPECT_THAT(error(), HasSubstr("d.safetensors' is a folder"));
}

TEST_F(CheckpointTest, CensusAcceptsWhatFits) {
  put("x.safetensors", shard_content({bf16("a", 1, 2), {"i", "I8", {1}, "1"}}));
  EXPECT_NO_THROW(open().census({{"a", {1, 2}, {DType::kF32, DType::kBF16}}}));
  EXPECT_NO_THROW(open().census({}));
}

TEST_F(CheckpointTest, CensusNamesTheFirstTensorThatDoesNotFit) {
  put("x.safetensors", shard_content({bf16("a", 4096, 1), bf16("b", 1, 1), {"i", "I8", {1}, "1"}}));
  const Checkpoint checkpoint = open();
  const std::vector<DType> any = {DType::kF32, DType::kBF16};
  EXPECT_EQ(
      message_of([&] {
        checkpoint.census({{"b", {1, 1}, any}, {"a", {4096, 2}, any}});
      }),
      "checkpoint: tensor 'a' has shape [4096, 1], expected [4096, 2] (shard 'x.safetensors')");
  EXPECT_EQ(message_of([&] {
              checkpoint.census({{"b", {1, 1}, {DType::kF32, DType::kF16}}});
            }),
            "checkpoint: tensor 'b' has dtype 'BF16', expected F32 or F16 (shard 'x.safetensors')");
  EXPECT_EQ(message_of([&] {
              checkpoint.census({{"i", {1}, any}});
            }),
            "checkpoint: tensor 'i' has dtype 'I8', expected F32 or BF16 (shard 'x.safetensors')");
}

TEST_F(CheckpointTest, CensusFoldsMissingLayers) {
  std::vector<TestTensor> present = {bf16("lm_head.weight", 1, 1)};
  std::vector<TensorRequirement> required;
  const auto require = [&](const std::string& name, bool is_present) {
    required.push_back({name, {1, 1}, {DType::kBF16}});
    if (is_present) {
      present.push_back(bf16(name, 1, 1));
    }
  };
  required.push_back({"lm_head.weight", {1, 1}, {DType::kBF16}});
  require("model.norm.weight", false);
  for (int layer = 0; layer < 78; ++layer) {
    const bool is_absent = (layer >= 5 && layer <= 9) || layer >= 47;
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    require(prefix + "input_layernorm.weight", !is_absent);
    require(prefix + "mlp.gate.weight", !is_absent && layer != 12 && layer != 13 && layer != 20);
    for (int expert = 0; expert < 3; ++expert) {
      require(prefix + fmt::format("mlp.experts.{}.up_proj.weight", expert),
              !is_absent && !(layer == 3 && expert > 0));
    }
  }
  put("x.safetensors", shard_content(present));
  const std::string message = message_of([&] { open().census(required); });
  // 36 layers of 5 tensors, 3 gates, 2 experts, 1 norm; required are 2 + 78 * 5.
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("lacks 186 of 392 required tensors: everything of layers 5-9, 47-77; "),
            HasSubstr("'model.layers.*.mlp.experts.*.up_proj.weight' of layer 3; "),
            HasSubstr("'model.layers.*.mlp.gate.weight' of layers 12-13, 20; "),
            HasSubstr("'model.norm.weight'; the folder is incomplete")));
}

TEST_F(CheckpointTest, CensusKeepsALongReportShort) {
  put("x.safetensors", shard_content({bf16("a", 1, 1)}));
  std::vector<TensorRequirement> required;
  for (int i = 0; i < 1000; ++i) {
    required.push_back({fmt::format("part{}.layers.x.weight", i), {1}, {DType::kF32}});
  }
  const std::string message = message_of([&] { open().census(required); });
  EXPECT_THAT(message, AllOf(HasSubstr("lacks 1000 of 1000"), HasSubstr("and 994 more kinds")));
  EXPECT_LT(message.size(), 1000u);
}

TEST_F(CheckpointTest, FingerprintFollowsTheWeights_NotTheShards) {
  const auto print_of = [this](const std::vector<std::vector<TestTensor>>& shards) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".safetensors") {
        fs::remove(entry.path());
      }
    }
    for (std::size_t i = 0; i < shards.size(); ++i) {
      put(fmt::format("s{}.safetensors", i), shard_content(shards[i]));
    }
    Checkpoint checkpoint = open();
    checkpoint.map();
    return checkpoint.fingerprint();
  };
  const TestTensor a = bf16("a", 100, 100, 'p');
  const TestTensor b = bf16("b", 1, 2);
  const std::string print = print_of({{a, b}});
  EXPECT_EQ(print.size(), 16u);
  EXPECT_EQ(print.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(print_of({{b}, {a}}), print);
  EXPECT_NE(print_of({{bf16("a", 100, 100, 'q'), b}}), print);
  EXPECT_NE(print_of({{a, bf16("c", 1, 2)}}), print);
  EXPECT_NE(print_of({{a, bf16("b", 2, 1)}}), print);
  EXPECT_NE(print_of({{a, {"b", "F16", {1, 2}, "xxxx"}}}), print);
  EXPECT_NE(print_of({{a, {"b", "BF16", {1, 2}, "xxxy"}}}), print);
  EXPECT_NE(print_of({{a}}), print);
  const TestTensor integers{"b", "U8", {4}, "xxxx"};  // of a type with a reader elsewhere
  EXPECT_NE(print_of({{a, integers}}), print_of({{a, {"b", "U8", {4}, "xxxy"}}}));
}

TEST_F(CheckpointTest, RefusesToReadBytesBeforeMapping) {
  put("x.safetensors", shard_content({bf16("a", 1, 1)}));
  Checkpoint checkpoint = open();
  EXPECT_THROW(checkpoint.bytes(*checkpoint.find("a")), LogicError);
  checkpoint.map();
  checkpoint.map();  // once more changes nothing
  EXPECT_EQ(checkpoint.bytes(*checkpoint.find("a")).size(), 2U);
}

TEST(ShippedModel, OpensAndIsFound) {
  const fs::path folder = fs::path(FT_SOURCE_DIR) / "models/glm-mini";
  Checkpoint checkpoint = Checkpoint::open(folder);
  EXPECT_EQ(checkpoint.shards().size(), 3u);
  const TensorInfo* head = checkpoint.find("lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->dtype, DType::kBF16);
  EXPECT_EQ(head->shape, (std::vector<std::uint64_t>{6144, 256}));
  checkpoint.map();
  std::uint64_t total_bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    total_bytes += checkpoint.bytes(tensor).size();
  }
  EXPECT_EQ(total_bytes, 31881808u);  // metadata.total_size of its index
  EXPECT_EQ(checkpoint.fingerprint().size(), 16u);
}

}  // namespace
}  // namespace ft::checkpoint
