#include "models/synthetic_model.h"

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/container_verify.h"
#include "io/file.h"
#include "models/glm_test_model.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <stop_token>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace ft::models {
namespace {

namespace fs = std::filesystem;

class SyntheticModelTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) /
            (std::string("ft_synthetic_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  static SyntheticOptions options() {
    SyntheticOptions out;
    SyntheticShape& s = out.shape;
    s.n_layers = 4;
    s.n_dense_layers = 1;
    s.has_mtp = true;
    s.d_model = s.q_rank = s.latent_dim = s.nope_dim = s.value_dim = s.expert_width = 64;
    s.rope_dim = 32;
    s.index_dim = 64;
    s.dense_width = 128;
    s.n_heads = s.index_heads = s.n_active = 2;
    s.n_experts = 8;
    s.n_vocab = 1024;
    out.seed = 5;
    out.converter = "test";
    return out;
  }
  fs::path write(const std::string& name, const SyntheticOptions& wanted, std::size_t n_threads) {
    ThreadPool pool(n_threads);
    write_synthetic_model(root_ / name, wanted, pool, {});
    return root_ / name;
  }
  static std::string contents(const fs::path& path) {
    return io::read_text(path, std::size_t{1} << 30);
  }

  fs::path root_;
};

TEST_F(SyntheticModelTest, EveryFormatRunsWithActivationsOfSoundSize) {
  for (const auto& [experts, dense] : {std::pair(TargetFormat::kQ4, TargetFormat::kQ8),
                                       std::pair(TargetFormat::kQ8, TargetFormat::kQ4),
                                       std::pair(TargetFormat::kBF16, TargetFormat::kBF16),
                                       std::pair(TargetFormat::kStored, TargetFormat::kStored)}) {
    SyntheticOptions wanted = options();
    wanted.experts = experts;
    wanted.dense = dense;
    const std::string name(target_format_name(experts));
    const fs::path folder = write(name, wanted, 2);
    EXPECT_TRUE(checkpoint::verify_container(folder, [](std::uint64_t, std::uint64_t) {}).empty())
        << name;
    const LoadedModel loaded(folder, kernels::usable_isas().front(), 1);
    ASSERT_NE(loaded.model->draft_head(), nullptr) << name;
    const auto cache = loaded.model->new_cache({.max_tokens = 64});
    std::vector<Token> tokens(48);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i * 19 % 1000);
    const Fed fed = feed(*loaded.model, *cache, tokens, 48);
    double squares = 0;
    for (const float logit : fed.logits.values) squares += double{logit} * logit;
    const double deviation = std::sqrt(squares / static_cast<double>(fed.logits.values.size()));
    EXPECT_GT(deviation, 0.3) << name;
    EXPECT_LT(deviation, 3) << name;
  }
}

TEST_F(SyntheticModelTest, BytesDependOnTheOptionsAlone) {
  const fs::path one = write("one", options(), 1);
  const fs::path two = write("two", options(), 2);
  SyntheticOptions other = options();
  other.seed = 6;
  const fs::path three = write("three", other, 2);
  for (const char* file : {"dense.bin", "experts-00001.bin", "experts-00004.bin"}) {
    EXPECT_EQ(contents(one / file), contents(two / file)) << file;
    EXPECT_NE(contents(one / file), contents(three / file)) << file;
  }
}

TEST_F(SyntheticModelTest, GoesOnWhereItWasStopped) {
  const fs::path whole = write("whole", options(), 1);
  SyntheticOptions stopped = options();
  std::stop_source stop;
  stopped.progress = [&stop](std::uint64_t done, std::uint64_t total) {
    if (done > total / 2) stop.request_stop();
  };
  ThreadPool pool(1);
  EXPECT_THROW(write_synthetic_model(root_ / "part", stopped, pool, stop.get_token()), Cancelled);
  const fs::path part = write("part", options(), 1);
  EXPECT_EQ(contents(whole / "dense.bin"), contents(part / "dense.bin"));
  EXPECT_EQ(contents(whole / "experts-00003.bin"), contents(part / "experts-00003.bin"));
}

TEST_F(SyntheticModelTest, DoesNotGoOnWithAnotherSeedOrSkew) {
  write("whole", options(), 1);
  ThreadPool pool(1);
  SyntheticOptions other = options();
  other.seed += 1;
  EXPECT_THROW(write_synthetic_model(root_ / "whole", other, pool, {}), InvalidInput);
  other = options();
  other.routing_skew = 1;
  EXPECT_THROW(write_synthetic_model(root_ / "whole", other, pool, {}), InvalidInput);
}

TEST_F(SyntheticModelTest, SkewBecomesTheRoutersBias) {
  SyntheticOptions wanted = options();
  wanted.routing_skew = 1.5;
  checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(write("skewed", wanted, 1));
  checkpoint.map();
  const auto* info = checkpoint.find("model.layers.2.mlp.gate.e_score_correction_bias");
  ASSERT_NE(info, nullptr);
  std::vector<float> biases(8);
  convert_to_float(DType::kF32, checkpoint.bytes(*info), biases);
  std::sort(biases.begin(), biases.end());
  EXPECT_EQ(biases.back(), 0);  // rank 1
  EXPECT_NEAR(biases.front(), -0.1637 * 1.5 * std::log(8.0), 1e-3);
  EXPECT_TRUE(std::adjacent_find(biases.begin(), biases.end()) == biases.end());
}

TEST_F(SyntheticModelTest, RefusesWhatCannotBe) {
  ThreadPool pool(1);
  SyntheticOptions wanted = options();
  wanted.experts = TargetFormat::kF32;
  EXPECT_THROW(write_synthetic_model(root_ / "x", wanted, pool, {}), InvalidInput);
  wanted = options();
  wanted.routing_skew = -1;
  EXPECT_THROW(write_synthetic_model(root_ / "x", wanted, pool, {}), InvalidInput);
  EXPECT_THROW(synthetic_shape(0, 1), InvalidInput);
  EXPECT_THROW(synthetic_shape(3, 0), InvalidInput);
  EXPECT_THROW(synthetic_shape(3, std::nan("")), InvalidInput);
}

TEST(SyntheticShape, IsTheReleasedModelsAtFullWidth) {
  const SyntheticShape shape = synthetic_shape(78, 1);
  EXPECT_EQ(shape.d_model, 6144U);
  EXPECT_EQ(shape.n_vocab, 154880U);
  EXPECT_EQ(shape.n_dense_layers, 3U);
  std::size_t n_indexers = 0;
  for (std::size_t i = 0; i < 78; ++i) n_indexers += shape.has_indexer(i) ? 1 : 0;
  EXPECT_EQ(n_indexers, 21U);
  const SyntheticShape quarter = synthetic_shape(2, 0.25);
  EXPECT_EQ(quarter.d_model, 1536U);
  EXPECT_EQ(quarter.n_heads, 16U);
  EXPECT_EQ(quarter.n_dense_layers, 2U);
}

}  // namespace
}  // namespace ft::models
