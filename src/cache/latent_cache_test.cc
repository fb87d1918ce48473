#include "cache/latent_cache.h"

#include "base/error.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace ft::cache {
namespace {

LatentLayout layout() {
  return {.key_dim = 3, .index_dim = 2, .has_index_keys = {true, false, true}};
}

/// Column `column` of a row, in a cache of f32.
float& element(std::byte* rows, std::size_t n_columns, std::size_t row, std::size_t column) {
  return reinterpret_cast<float*>(rows)[row * n_columns + column];
}

/// Writes n rows after length() with values that name layer, position, column and `salt`, then
/// appends them.
void write_rows(LatentCache& cache, std::size_t n, float salt) {
  const std::size_t begin = cache.length();
  for (std::size_t layer = 0; layer < cache.layout().n_layers(); ++layer) {
    for (std::size_t position = begin; position < begin + n; ++position) {
      const float value = salt + static_cast<float>(100 * layer + position);
      for (std::size_t c = 0; c < 3; ++c) {
        element(cache.keys(layer), 3, position, c) = value + 0.25F * static_cast<float>(c);
      }
      for (std::size_t c = 0; c < 2 && cache.index_keys(layer) != nullptr; ++c) {
        element(cache.index_keys(layer), 2, position, c) = -value - 0.5F * static_cast<float>(c);
      }
    }
  }
  cache.append(n);
}

std::vector<std::byte> contents(LatentCache& cache) {
  const std::size_t width = element_bytes(cache.dtype());
  std::vector<std::byte> all;
  for (std::size_t layer = 0; layer < cache.layout().n_layers(); ++layer) {
    const std::byte* keys = cache.keys(layer);
    all.insert(all.end(), keys, keys + cache.length() * 3 * width);
    if (const std::byte* index_keys = cache.index_keys(layer); index_keys != nullptr) {
      all.insert(all.end(), index_keys, index_keys + cache.length() * 2 * width);
    }
  }
  return all;
}

TEST(LatentCache, StartsEmptyWithIndexKeysOnlyWhereAsked) {
  LatentCache cache(layout(), {.max_tokens = 5});
  EXPECT_EQ(cache.length(), 0U);
  EXPECT_EQ(cache.max_tokens(), 5U);
  EXPECT_EQ(cache.used_bytes(), 0U);
  EXPECT_NE(cache.index_keys(0), nullptr);
  EXPECT_EQ(cache.index_keys(1), nullptr);
  EXPECT_NE(cache.keys(1), nullptr);
}

TEST(LatentCache, AppendTruncateAppendEqualsNeverHavingAppended) {
  for (std::size_t kept = 0; kept <= 4; ++kept) {
    LatentCache plain(layout(), {.max_tokens = 8});
    write_rows(plain, kept, 0);
    write_rows(plain, 3, 7);
    LatentCache rewound(layout(), {.max_tokens = 8});
    write_rows(rewound, kept, 0);
    write_rows(rewound, 4, 1000);
    EXPECT_EQ(rewound.rollback_limit(), 8U);
    rewound.truncate(kept);
    write_rows(rewound, 3, 7);
    EXPECT_EQ(contents(plain), contents(rewound));
    EXPECT_EQ(plain.used_bytes(), (kept + 3) * (3 * 3 + 2 * 2) * sizeof(float));
  }
}

TEST(LatentCache, RowsBeyondTheLengthLeaveNoTrace) {
  LatentCache cache(layout(), {.max_tokens = 4});
  write_rows(cache, 2, 0);
  const std::vector<std::byte> before = contents(cache);
  element(cache.keys(0), 3, 2, 0) = 9;  // a forward that failed before append()
  EXPECT_EQ(contents(cache), before);
}

TEST(LatentCache, CloneIsIndependent) {
  LatentCache cache(layout(), {.max_tokens = 6});
  write_rows(cache, 3, 0);
  const std::unique_ptr<KvCache> copy = cache.clone();
  auto& clone = dynamic_cast<LatentCache&>(*copy);
  EXPECT_EQ(clone.max_tokens(), 6U);
  EXPECT_EQ(contents(clone), contents(cache));
  write_rows(clone, 1, 50);
  EXPECT_EQ(cache.length(), 3U);
  element(cache.keys(0), 3, 0, 0) = -1;
  EXPECT_NE(element(clone.keys(0), 3, 0, 0), -1);
}

TEST(LatentCache, Bf16TakesHalfTheBytes) {
  LatentCache cache(layout(), {.max_tokens = 6, .dtype = DType::kBF16});
  for (std::size_t layer = 0; layer < 3; ++layer) {
    std::memset(cache.keys(layer), 1 + static_cast<int>(layer), 4 * 3 * 2);
    if (layer != 1) std::memset(cache.index_keys(layer), 7, 4 * 2 * 2);
  }
  cache.append(4);
  EXPECT_EQ(cache.used_bytes(), 4U * (3 * 3 + 2 * 2) * 2);
  const std::unique_ptr<KvCache> copy = cache.clone();
  auto& clone = dynamic_cast<LatentCache&>(*copy);
  EXPECT_EQ(clone.dtype(), DType::kBF16);
  EXPECT_EQ(clone.used_bytes(), cache.used_bytes());
  EXPECT_EQ(contents(clone), contents(cache));
}

TEST(LatentCache, RefusesToGrowBeyondItsLimitsOrToTruncateForward) {
  LatentCache cache(layout(), {.max_tokens = 2});
  EXPECT_THROW(cache.append(3), LogicError);
  cache.append(2);
  EXPECT_THROW(cache.append(1), LogicError);
  EXPECT_THROW(cache.truncate(3), LogicError);
  EXPECT_EQ(cache.length(), 2U);
}

}  // namespace
}  // namespace ft::cache
