// What tests of StreamingStore share: layers of small made-up experts on the real file system, read
// through a scripted queue.
#pragma once

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "experts/slot_tiers.h"
#include "experts/streaming_store.h"
#include "io/file.h"
#include "testing/fake_clock.h"
#include "testing/faulty_read_queue.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace ft::experts {

class StreamingTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kExtentBytes = 2 * io::kBulkAlignment;
  static constexpr std::size_t kDraftBytes = 3 * io::kBulkAlignment;
  static constexpr std::size_t kLayers = 3;  // 0 is dense, 1 and 2 are trunk, 3 is draft
  static constexpr std::size_t kExperts = 12;

  StreamingTest() {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("ft_experts_") + test.name() + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    for (std::size_t layer = 1; layer <= kLayers; ++layer) write_layer(file(layer), layer);
  }
  ~StreamingTest() override { std::filesystem::remove_all(folder_); }

  static std::size_t extent_bytes(std::size_t layer) {
    return layer == 3 ? kDraftBytes : kExtentBytes;
  }
  /// The bytes of an expert: any two differ everywhere.
  static std::vector<std::byte> bytes_of(std::size_t layer, std::size_t expert) {
    std::vector<std::byte> bytes(extent_bytes(layer));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>((layer * kExperts + expert) * 5 + i % 5);
    }
    return bytes;
  }
  static void write_layer(const std::filesystem::path& path, std::size_t layer) {
    std::ofstream out(path, std::ios::binary);
    for (std::size_t expert = 0; expert < kExperts; ++expert) {
      const std::vector<std::byte> bytes = bytes_of(layer, expert);
      out.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
    }
  }
  std::filesystem::path file(std::size_t layer, std::size_t mirror = 0) const {
    return folder_ / ("layer" + std::to_string(layer) + "." + std::to_string(mirror));
  }
  /// Writes a copy of every layer.
  void add_mirror() {
    for (std::size_t layer = 1; layer <= kLayers; ++layer) {
      write_layer(file(layer, n_mirrors_), layer);
    }
    ++n_mirrors_;
  }

  /// Of the draft slots, none to lend unless more are asked for.
  StreamingOptions options(std::size_t trunk_slots,
                           std::size_t draft_slots = SlotTiers::kKeptSlots) const {
    StreamingOptions options;
    for (std::size_t layer = 1; layer <= kLayers; ++layer) {
      LayerExtents extents;
      extents.layer = layer;
      extents.tier = layer == 3 ? Tier::kDraft : Tier::kTrunk;
      extents.extent_bytes = extent_bytes(layer);
      for (std::size_t expert = 0; expert < kExperts; ++expert) {
        extents.checksums.push_back(checkpoint::checksum_of(bytes_of(layer, expert)));
      }
      for (std::size_t mirror = 0; mirror < n_mirrors_; ++mirror) {
        extents.files.push_back(file(layer, mirror));
      }
      extents.view = [](const std::byte* data) {
        Expert expert;
        expert.down.data = data;
        return expert;
      };
      options.layers.push_back(std::move(extents));
    }
    options.trunk_slots = trunk_slots;
    options.draft_slots = draft_slots;
    options.uses_page_cache = false;  // everything goes through the script
    return options;
  }
  StreamingDeps deps() {
    return {.clock = clock_, .make_queue = [this](const io::ReadQueueOptions&) {
              return std::make_unique<testing::FaultyReadQueue>(script_);
            }};
  }

  using Ids = std::vector<std::uint32_t>;
  static Ids all_experts() {
    Ids ids(kExperts);
    std::iota(ids.begin(), ids.end(), 0U);
    return ids;
  }
  static bool is_intact(const ExpertLease& lease,
                        std::uint32_t index,
                        std::size_t layer,
                        std::uint32_t expert) {
    const std::vector<std::byte> expected = bytes_of(layer, expert);
    return std::memcmp(lease.expert(index).down.data, expected.data(), expected.size()) == 0;
  }
  /// One batch: the experts in it, each compared with its bytes.
  static Ids next_batch(ExpertLease& lease, std::size_t layer, const Ids& wanted) {
    Ids batch;
    for (const std::uint32_t index : lease.next({})) {
      EXPECT_TRUE(is_intact(lease, index, layer, wanted[index])) << "expert " << wanted[index];
      batch.push_back(wanted[index]);
    }
    return batch;
  }
  /// Uses all of them, one batch after the other; every one must come once.
  static void use(ExpertStore& store, std::size_t layer, const Ids& wanted) {
    ExpertLease lease = store.acquire(layer, wanted);
    Ids seen;
    for (Ids batch = next_batch(lease, layer, wanted); !batch.empty();
         batch = next_batch(lease, layer, wanted)) {
      seen.insert(seen.end(), batch.begin(), batch.end());
    }
    Ids expected = wanted;
    std::ranges::sort(seen);
    std::ranges::sort(expected);
    EXPECT_EQ(seen, expected);
  }
  static Ids resident(const ExpertStore& store, std::size_t layer) {
    Ids ids;
    for (std::uint32_t expert = 0; expert < kExperts; ++expert) {
      if (store.n_missing(layer, std::array{expert}) == 0) ids.push_back(expert);
    }
    return ids;
  }
  /// For what another thread of the store brings about, when nothing can be waited on.
  template <typename Condition>
  static void await(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }
  static std::string error_of(ExpertLease& lease) {
    try {
      while (!lease.next({}).empty()) {
      }
    } catch (const IoError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
  std::size_t n_mirrors_ = 1;
  testing::FakeClock clock_;
  testing::ReadScript script_;
};

}  // namespace ft::experts
