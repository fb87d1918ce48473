#include "models/conversion.h"

#include "base/error.h"
#include "checkpoint/container_verify.h"
#include "models/glm_test_model.h"
#include "models/weight_plan.h"
#include "tensor/formats/float_formats.h"
#include "testing/tiny_glm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::models {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TinyFormat;
using testing::TinyGlm;

const std::vector<Token> kTokens{1, 7, 20, 3, 44, 9, 9, 13, 30, 2, 11, 5};

ConversionOptions all_in(TargetFormat format) {
  return {.formats = {format, format, format, format}, .converter = "test", .progress = {}};
}

class ConversionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("ft_convert_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path source() const { return folder_ / "source"; }
  fs::path target() const { return folder_ / "target"; }
  void write(const TinyGlm& glm) const {
    fs::remove_all(source());
    glm.write(source());
  }
  ConversionResult convert(const ConversionOptions& options, std::size_t n_threads = 2) const {
    ThreadPool pool(n_threads);
    return convert_model(checkpoint::Checkpoint::open(source()), target(), options, pool, {});
  }
  static std::map<std::string, std::string> files_of(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      files[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return files;
  }
  /// Logits of every row, then those of three drafts.
  static RowCopy run(const fs::path& folder) {
    const LoadedModel loaded(folder, kernels::Isa::kRef, 2);
    const auto cache = loaded.model->new_cache({.max_tokens = kTokens.size()});
    Fed fed = feed(*loaded.model, *cache, kTokens, 5);
    RowCopy all = fed.logits;
    const DraftHead& head = *loaded.model->draft_head();
    const auto draft_cache = head.new_cache({.max_tokens = kTokens.size() + 4});
    const TokenSpan next = TokenSpan(kTokens).subspan(1);
    const Drafted drafts = draft(head, *draft_cache, fed.hidden.view(0, next.size()), next, 3);
    all.add(drafts.logits.view(0, 3));
    return all;
  }
  std::vector<std::string> problems() const {
    return checkpoint::verify_container(target(), [](std::uint64_t, std::uint64_t) {});
  }

  fs::path folder_;
};

/// Cosine of the angle between all logits: 1 for the same, near 0 for unrelated models. Tiny random
/// models exaggerate: one expert, key or draft chosen otherwise moves all that follows, so this
/// only shows that the right weights are used; other tests compare values.
double similarity(const RowCopy& a, const RowCopy& b) {
  EXPECT_EQ(a.values.size(), b.values.size());
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    ab += static_cast<double>(a.values[i]) * b.values[i];
    aa += static_cast<double>(a.values[i]) * a.values[i];
    bb += static_cast<double>(b.values[i]) * b.values[i];
  }
  return ab / std::sqrt(aa * bb);
}

TEST_F(ConversionTest, StoredFormatsComputeTheSame) {
  for (const TinyFormat format : {TinyFormat::kF32, TinyFormat::kBf16, TinyFormat::kFp8}) {
    write(testing::make_tiny_glm({.format = format}));
    fs::remove_all(target());
    convert(all_in(TargetFormat::kStored));
    EXPECT_THAT(problems(), IsEmpty());
    EXPECT_EQ(run(target()), run(source()));
  }
  // fp8 widened to f32 is exact, product by product.
  fs::remove_all(target());
  convert(all_in(TargetFormat::kF32));
  EXPECT_GT(similarity(run(target()), run(source())), 0.99999);
}

TEST_F(ConversionTest, QuantizedModelsStayClose) {
  write(testing::make_tiny_glm({}));
  const RowCopy exact = run(source());
  const std::vector<std::pair<TargetFormat, double>> least{{TargetFormat::kBF16, 0.999},
                                                           {TargetFormat::kF16, 0.9999},
                                                           {TargetFormat::kQ8, 0.9},
                                                           {TargetFormat::kQ4, 0.5}};
  for (const auto& [format, similar] : least) {
    fs::remove_all(target());
    convert(all_in(format));
    EXPECT_GT(similarity(run(target()), exact), similar) << target_format_name(format);
  }
}

/// Row r of the stored matrix quantized alone, as f32: what a container must hold.
std::vector<float> quantized_row(QuantFormat format, const std::vector<float>& row) {
  QuantMatrix panel{.format = format, .n_rows = 1, .n_cols = row.size()};
  std::vector<std::byte> codes(panel.code_bytes());
  std::vector<std::byte> scales(panel.scale_bytes());
  quantize_panel(format, row.data(), 1, row.size(), row.size(), codes.data(), scales.data());
  panel.codes = codes.data();
  panel.scales = scales.data();
  std::vector<float> values(row.size());
  for (std::size_t c = 0; c < row.size(); ++c) values[c] = panel.at(0, c);
  return values;
}

TEST_F(ConversionTest, EveryQuantizedRowIsWhereTheEngineLooks) {
  const TinyGlm glm = testing::make_tiny_glm({});
  write(glm);
  convert({.formats = {}, .converter = "test", .progress = {}});  // experts q4, all else q8
  checkpoint::Checkpoint container = checkpoint::Checkpoint::open(target());
  container.map();
  const auto value = [&](const std::string& name, std::size_t r, std::size_t c) {
    const testing::TinyTensor& tensor = glm.tensors.at(name);
    float out = 0;
    std::memcpy(&out, tensor.bytes.data() + (r * tensor.shape[1] + c) * sizeof out, sizeof out);
    return out;
  };
  const auto row_of = [&](const std::string& name, std::size_t r) {
    std::vector<float> row;
    for (std::size_t c = 0; c < glm.tensors.at(name).shape[1]; ++c)
      row.push_back(value(name, r, c));
    return row;
  };
  const auto expect_row = [&](const std::string& entry,
                              QuantFormat format,
                              std::size_t r,
                              const std::vector<float>& expected) {
    const checkpoint::PanelTensor* tensor = container.find_panels(entry);
    ASSERT_NE(tensor, nullptr) << entry;
    ASSERT_EQ(tensor->format, format) << entry;
    const QuantMatrix matrix = container.panels(*tensor);
    ASSERT_EQ(matrix.n_cols, expected.size());
    const std::vector<float> rounded = quantized_row(format, expected);
    for (std::size_t c = 0; c < expected.size(); ++c) {
      ASSERT_EQ(matrix.at(r, c), rounded[c]) << entry << " " << r << " " << c;
    }
  };
  const std::string attention = "model.layers.1.self_attn.";
  for (std::size_t r = 0; r < 20; ++r) {
    const std::string name = attention + "q_a_proj.weight";
    expect_row(name, QuantFormat::kQ8, r, row_of(name, r));
  }
  // Gate and up alternate by panels of 16 rows, each padded to whole panels.
  const std::string expert = "model.layers.2.mlp.experts.5.";
  for (std::size_t r = 0; r < 9; ++r) {
    const std::string entry = expert + "gate_up_proj.weight";
    expect_row(entry, QuantFormat::kQ4, r, row_of(expert + "gate_proj.weight", r));
    expect_row(entry, QuantFormat::kQ4, 16 + r, row_of(expert + "up_proj.weight", r));
  }
  const std::string dense = "model.layers.0.mlp.";
  expect_row(dense + "gate_up_proj.weight",
             QuantFormat::kQ8,
             32 + 3,  // gate's second panel is the third
             row_of(dense + "gate_proj.weight", 16 + 3));
  // Head 2: 10 key rows, transposed, then 7 value rows.
  const std::string kv_b = attention + "kv_b_proj.weight";
  for (std::size_t r = 0; r < 18; ++r) {
    std::vector<float> column;
    for (std::size_t c = 0; c < 10; ++c) column.push_back(value(kv_b, 2 * 17 + c, r));
    expect_row(attention + "kv_b_proj.head_2.key_up", QuantFormat::kQ8, r, column);
  }
  for (std::size_t r = 0; r < 7; ++r) {
    expect_row(attention + "kv_b_proj.head_2.value_up",
               QuantFormat::kQ8,
               r,
               row_of(kv_b, 2 * 17 + 10 + r));
  }
  expect_row("lm_head.weight", QuantFormat::kQ8, 49, row_of("lm_head.weight", 49));
  expect_row("model.layers.5.mlp.experts.0.down_proj.weight",
             QuantFormat::kQ8,
             23,
             row_of("model.layers.5.mlp.experts.0.down_proj.weight", 23));
  // What must not change is there as it was.
  for (const std::string name : {"model.layers.1.self_attn.indexer.wq_b.weight",
                                 "model.layers.1.self_attn.indexer.weights_proj.weight",
                                 "model.layers.1.mlp.gate.weight",
                                 "model.layers.5.eh_proj.weight",
                                 "model.embed_tokens.weight",
                                 "model.norm.weight"}) {
    const checkpoint::TensorInfo* tensor = container.find(name);
    ASSERT_NE(tensor, nullptr) << name;
    const std::string& bytes = glm.tensors.at(name).bytes;
    EXPECT_EQ(std::memcmp(container.bytes(*tensor).data(), bytes.data(), bytes.size()), 0) << name;
  }
}

TEST_F(ConversionTest, BytesDependNeitherOnThreadsNorOnInterruptions) {
  write(testing::make_tiny_glm({}));
  const ConversionOptions options{.formats = {}, .converter = "test", .progress = {}};
  convert(options, 1);
  const auto expected = files_of(target());
  fs::remove_all(target());
  EXPECT_FALSE(convert(options, 3).was_complete);
  EXPECT_EQ(files_of(target()), expected);
  EXPECT_TRUE(convert(options, 2).was_complete);
  EXPECT_EQ(files_of(target()), expected);

  fs::remove_all(target());
  ThreadPool pool(2);
  std::stop_source stop;
  ConversionOptions stopping = options;
  stopping.progress = [&stop](std::uint64_t done, std::uint64_t total) {
    if (done > total / 2) stop.request_stop();
  };
  const auto checkpoint = checkpoint::Checkpoint::open(source());
  EXPECT_THROW(convert_model(checkpoint, target(), stopping, pool, stop.get_token()), Cancelled);
  EXPECT_THROW(checkpoint::Checkpoint::open(target()), InvalidInput);
  convert(options);
  EXPECT_EQ(files_of(target()), expected);
}

TEST_F(ConversionTest, NamesTensorAndShardOfWhatItCannotConvert) {
  TinyGlm glm = testing::make_tiny_glm({});
  const std::string name = "model.layers.2.mlp.experts.4.up_proj.weight";
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(glm.tensors.at(name).bytes.data() + 4 * 25, &infinity, sizeof infinity);
  write(glm);
  try {
    convert(all_in(TargetFormat::kQ4));
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("tensor '" + name + "'"),
                      HasSubstr("model.safetensors"),
                      HasSubstr("inf at [1, 1]")));
  }
}

/// Rounds a matrix to integers as colibri's tools do; returns the values that are meant.
testing::TinyTensor round_to_integers(TinyGlm& glm, const std::string& name, unsigned bits) {
  testing::TinyTensor tensor = glm.tensors.at(name);
  const auto n_rows = static_cast<std::size_t>(tensor.shape[0]);
  const auto n_cols = static_cast<std::size_t>(tensor.shape[1]);
  const std::size_t row_bytes = bits == 8 ? n_cols : (n_cols + 1) / 2;
  std::string codes(n_rows * row_bytes, '\0');
  std::string scales;
  for (std::size_t r = 0; r < n_rows; ++r) {
    std::vector<float> row(n_cols);
    std::byte* values = reinterpret_cast<std::byte*>(tensor.bytes.data()) + 4 * r * n_cols;
    std::memcpy(row.data(), values, 4 * n_cols);
    float largest = 0;
    for (const float v : row) largest = std::max(largest, std::fabs(v));
    const float scale = largest / (bits == 8 ? 127.0F : 7.0F);
    scales.append(reinterpret_cast<const char*>(&scale), sizeof scale);
    for (std::size_t c = 0; c < n_cols; ++c) {
      const int code = static_cast<int>(std::lround(row[c] / scale));
      char& byte = codes[r * row_bytes + (bits == 8 ? c : c / 2)];
      byte = static_cast<char>(bits == 8 ? code : byte | (code + 8) << (c % 2 == 0 ? 0 : 4));
      row[c] = static_cast<float>(code) * scale;
    }
    std::memcpy(values, row.data(), 4 * n_cols);
  }
  glm.tensors[name] = {"U8", {codes.size()}, codes};
  glm.tensors[name + ".qs"] = {"F32", {n_rows}, scales};
  return tensor;
}

TEST_F(ConversionTest, IntegerCheckpointsLoadDirectlyAndConvertWithoutLoss) {
  TinyGlm integers = testing::make_tiny_glm({});
  TinyGlm meant = integers;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : integers.tensors) {
    const bool is_kept = name.find("norm") != std::string::npos ||
                         name.find("mlp.gate.") != std::string::npos ||
                         name.find("weights_proj") != std::string::npos;
    if (!is_kept) names.push_back(name);
  }
  for (const std::string& name : names) {
    const bool is_wide = name.find("layers.5.") != std::string::npos ||
                         name.find("layers.") == std::string::npos ||
                         name.find("indexer") != std::string::npos;
    meant.tensors[name] = round_to_integers(integers, name, is_wide ? 8 : 4);
  }
  write(meant);
  const RowCopy expected = run(source());
  write(integers);
  const RowCopy direct = run(source());
  // Only the inputs of some products are rounded to 8 bits.
  EXPECT_GT(similarity(direct, expected), 0.85);
  convert({.formats = {}, .converter = "test", .progress = {}});
  EXPECT_THAT(problems(), IsEmpty());
  EXPECT_EQ(run(target()), direct);

  checkpoint::Checkpoint container = checkpoint::Checkpoint::open(target());
  EXPECT_EQ(inspect_model(container).config.n_parameters,
            inspect_model(checkpoint::Checkpoint::open(source())).config.n_parameters);
  const checkpoint::PanelTensor& embedding = *container.find_panels("model.embed_tokens.weight");
  nn::EmbeddingTable table;
  WeightPlan plan(container, 128, 128);
  plan.table(embedding.name, embedding.n_rows + 1, embedding.n_cols, table);
  EXPECT_THROW(plan.census(), InvalidInput);
  container.map();
  const std::string name = "model.layers.1.self_attn.q_b_proj.weight";
  const QuantMatrix q_b = container.panels(*container.find_panels(name));
  EXPECT_EQ(q_b.format, QuantFormat::kQ4);
  EXPECT_EQ(q_b.scale_dtype, DType::kF32);
  const testing::TinyTensor& tensor = meant.tensors.at(name);
  for (std::size_t i = 0; i < tensor.shape[0] * tensor.shape[1]; ++i) {
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + 4 * i, sizeof value);
    ASSERT_EQ(q_b.at(i / tensor.shape[1], i % tensor.shape[1]), value) << i;
  }
}

TEST_F(ConversionTest, RefusesRowsLongerThanKernelsTake) {
  write(testing::make_tiny_glm({}));
  const auto checkpoint = checkpoint::Checkpoint::open(source());
  WeightPlan plan(checkpoint, 128, 128);
  kernels::Weight weight;
  plan.matrix("x", 1, kernels::kMaxColumns, MatrixUse::kExact, weight);
  EXPECT_THROW(plan.matrix("y", 1, kernels::kMaxColumns + 1, MatrixUse::kExact, weight),
               InvalidInput);
}

TEST_F(ConversionTest, RefusesIntegersThatAreTooCoarse) {
  TinyGlm glm = testing::make_tiny_glm({});
  round_to_integers(glm, "model.layers.5.eh_proj.weight", 4);
  write(glm);
  try {
    const LoadedModel loaded(source(), kernels::Isa::kRef, 1);
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("'model.layers.5.eh_proj.weight' is stored in 4 bits, which is too "
                          "coarse"));
  }
}

TEST_F(ConversionTest, RefusesAContainerAsSource) {
  write(testing::make_tiny_glm({}));
  convert(all_in(TargetFormat::kStored));
  ThreadPool pool(1);
  const auto container = checkpoint::Checkpoint::open(target());
  EXPECT_THROW(convert_model(container, folder_ / "again", {}, pool, {}), InvalidInput);
}

}  // namespace
}  // namespace ft::models
