#include "checkpoint/integer_rows.h"

#include "base/error.h"
#include "tensor/formats/quantized_matrix.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr IntegerLayout kInt8{8, 0};
constexpr IntegerLayout kInt4{4, 0};
constexpr IntegerLayout kFp8{0, 0};

TEST(FittingLayouts, FollowsByteCounts) {
  EXPECT_THAT(fitting_layouts(2048 * 6144, 2048, 2048, 6144), ElementsAre(kInt8));
  EXPECT_THAT(fitting_layouts(2048 * 3072, 2048, 2048, 6144), ElementsAre(kInt4));
  EXPECT_THAT(fitting_layouts(2048 * 3072, 2048 * 96, 2048, 6144),
              ElementsAre(IntegerLayout{4, 64}));
  EXPECT_THAT(fitting_layouts(2048 * 3072, 2048 * 48, 2048, 6144),
              ElementsAre(IntegerLayout{4, 128}));
  EXPECT_THAT(fitting_layouts(2048 * 6144, 16 * 48, 2048, 6144), ElementsAre(kFp8));
  EXPECT_THAT(fitting_layouts(2048 * 1536, 2048, 2048, 6144), IsEmpty());  // 2 bits
  EXPECT_THAT(fitting_layouts(2048 * 3072, 2048 * 95, 2048, 6144), IsEmpty());
  // o_proj of GLM-5.2: 48 x 128 blocks are as many scales as rows.
  EXPECT_THAT(fitting_layouts(6144 * 16384, 6144, 6144, 16384), ElementsAre(kInt8, kFp8));
  // Two groups per row of 96 columns.
  EXPECT_THAT(fitting_layouts(10 * 48, 20, 10, 96),
              ElementsAre(IntegerLayout{4, 48}, IntegerLayout{4, 64}));
  EXPECT_THAT(fitting_layouts(0, 0, 0, 0), IsEmpty());
  EXPECT_THAT(fitting_layouts(~0ULL, ~0ULL, ~0ULL, ~0ULL), IsEmpty());
}

/// A checkpoint of integer matrices, in one shard.
class IntegerCheckpoint {
 public:
  IntegerCheckpoint() {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("ft_integers_") +
               testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
               std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ / "config.json") << "{}";
  }
  ~IntegerCheckpoint() { fs::remove_all(folder_); }
  IntegerCheckpoint(const IntegerCheckpoint&) = delete;
  IntegerCheckpoint& operator=(const IntegerCheckpoint&) = delete;
  IntegerCheckpoint(IntegerCheckpoint&&) = delete;
  IntegerCheckpoint& operator=(IntegerCheckpoint&&) = delete;

  void add(const std::string& name, const std::string& codes, const std::vector<float>& scales) {
    entry(name, "U8", codes.size(), codes);
    std::string bytes(scales.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), scales.data(), bytes.size());
    entry(name + ".qs", "F32", scales.size(), bytes);
  }
  Checkpoint open() const {
    const std::string json = "{" + json_ + "}";
    std::string length(8, '\0');
    const std::uint64_t n = json.size();
    std::memcpy(length.data(), &n, 8);
    std::ofstream(folder_ / "out-00000.safetensors", std::ios::binary) << length << json << data_;
    return Checkpoint::open(folder_);
  }

 private:
  void entry(const std::string& name, const char* dtype, std::size_t n, const std::string& bytes) {
    json_ += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                         json_.empty() ? "" : ",",
                         name,
                         dtype,
                         n,
                         data_.size(),
                         data_.size() + bytes.size());
    data_ += bytes;
  }

  fs::path folder_;
  std::string json_;
  std::string data_;
};

std::string random_bytes(std::size_t n) {
  std::mt19937 rng(7);
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng());
  return bytes;
}

std::vector<float> random_scales(std::size_t n) {
  std::mt19937 rng(8);
  std::vector<float> scales(n);
  for (float& scale : scales) scale = static_cast<float>(rng() % 1000 + 1) * 1.7e-5F;
  return scales;
}

/// The matrix in panels, as a load makes it.
struct Panels {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  QuantMatrix view;

  explicit Panels(const IntegerRows& rows) {
    view.format = rows.bits == 8 ? QuantFormat::kQ8 : QuantFormat::kQ4;
    view.scale_dtype = DType::kF32;
    view.n_rows = rows.n_rows;
    view.n_cols = rows.n_cols;
    codes.resize(view.code_bytes());
    scales.resize(view.scale_bytes());
    for (std::size_t p = 0; p < view.n_panels(); ++p) {
      repack_panel(rows,
                   p * kPanelRows,
                   std::min(kPanelRows, rows.n_rows - p * kPanelRows),
                   codes.data() + p * view.code_bytes() / view.n_panels(),
                   scales.data() + p * view.scale_bytes() / view.n_panels());
    }
    view.codes = codes.data();
    view.scales = scales.data();
  }
};

// The definition of colibri's files, written out once more.
float reference(const std::string& codes,
                const std::vector<float>& scales,
                const IntegerLayout& layout,
                std::size_t n_cols,
                std::size_t r,
                std::size_t c) {
  const std::size_t group = layout.group == 0 ? n_cols : layout.group;
  const float scale = scales[r * ((n_cols + group - 1) / group) + c / group];
  if (layout.bits == 8) {
    return static_cast<float>(static_cast<signed char>(codes[r * n_cols + c])) * scale;
  }
  const auto byte = static_cast<unsigned char>(codes[r * ((n_cols + 1) / 2) + c / 2]);
  return static_cast<float>((c % 2 == 0 ? byte % 16 : byte / 16) - 8) * scale;
}

TEST(IntegerRows, EveryElementIsCodeTimesScale_AlsoInPanels) {
  constexpr std::size_t kRows = 37;
  for (const std::size_t n_cols : {640U, 321U}) {
    for (const IntegerLayout layout : {kInt8, kInt4, IntegerLayout{4, 64}, IntegerLayout{4, 128}}) {
      const std::size_t row_bytes = layout.bits == 8 ? n_cols : (n_cols + 1) / 2;
      const std::string codes = random_bytes(kRows * row_bytes);
      const std::size_t group = layout.group == 0 ? n_cols : layout.group;
      const std::vector<float> scales = random_scales(kRows * ((n_cols + group - 1) / group));
      IntegerCheckpoint files;
      files.add("m", codes, scales);
      Checkpoint checkpoint = files.open();
      ASSERT_TRUE(is_integer_matrix(checkpoint, "m"));
      IntegerLayouts layouts;
      layouts.add(checkpoint, "m", kRows, n_cols);
      layouts.decide();
      ASSERT_EQ(layouts.layout("m"), layout);
      checkpoint.map();
      const IntegerRows rows = layouts.rows(checkpoint, "m");
      const Panels panels(rows);
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t c = 0; c < n_cols; ++c) {
          const float expected = reference(codes, scales, layout, n_cols, r, c);
          ASSERT_EQ(rows.at(r, c), expected) << r << " " << c;
          ASSERT_EQ(panels.view.at(r, c), expected) << r << " " << c;
        }
      }
    }
  }
}

std::string message_of(IntegerLayouts& layouts) {
  try {
    layouts.decide();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(IntegerLayouts, OtherMatricesDecideWhatCountsLeaveOpen) {
  IntegerCheckpoint files;
  files.add("plain", std::string(128 * 256, 'x'), std::vector<float>(128, 1));
  files.add("open", std::string(2 * 16384, 'x'), std::vector<float>(128, 1));
  const Checkpoint checkpoint = files.open();
  IntegerLayouts layouts;
  layouts.add(checkpoint, "open", 128, 256);  // 128 rows; or 1 x 2 blocks: no
  layouts.decide();
  EXPECT_EQ(layouts.layout("open"), kInt8);

  // [1, 128]: one row, or one block.
  IntegerCheckpoint more;
  more.add("open", std::string(128, 'x'), {1});
  more.add("plain", std::string(256, 'x'), {1, 1});
  const Checkpoint both = more.open();
  IntegerLayouts alone;
  alone.add(both, "open", 1, 128);
  EXPECT_THAT(message_of(alone),
              AllOf(HasSubstr("tensor 'open' [1, 128] is ambiguous"),
                    HasSubstr("8 bits, one scale per row, or fp8 in blocks"),
                    HasSubstr("out-00000.safetensors")));
  IntegerLayouts together;
  together.add(both, "open", 1, 128);
  together.add(both, "plain", 2, 128);
  EXPECT_EQ(message_of(together), "");
  EXPECT_EQ(together.layout("open"), kInt8);
}

TEST(IntegerLayouts, RefusesByNameWhatPanelsCannotHold) {
  IntegerCheckpoint files;
  files.add("narrow", std::string(4 * 64, 'x'), std::vector<float>(16, 1));
  files.add("odd", std::string(100, 'x'), std::vector<float>(4, 1));
  const Checkpoint checkpoint = files.open();
  IntegerLayouts narrow;
  narrow.add(checkpoint, "narrow", 4, 128);
  EXPECT_THAT(message_of(narrow), HasSubstr("'narrow' is stored with 4 bits in groups of 32"));
  IntegerLayouts odd;
  odd.add(checkpoint, "odd", 4, 128);
  EXPECT_THAT(message_of(odd), HasSubstr("'odd' [4, 128] has 100 bytes and 4 scales"));
}

}  // namespace
}  // namespace ft::checkpoint
