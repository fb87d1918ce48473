// What StreamingStore does when the drive does not: every kind of failure, at every read.
#include "experts/streaming_test_fixture.h"

#include <array>
#include <fstream>
#include <random>
#include <thread>

#include <gmock/gmock.h>

namespace ft::experts {
namespace {

using ::testing::HasSubstr;
using testing::ReadFault;
using testing::ReadOrder;
using ::testing::StartsWith;

ReadFault fault_of(ReadFault::Kind kind, std::size_t n_bytes = 0) {
  ReadFault fault;
  fault.kind = kind;
  fault.n_bytes = n_bytes;
  return fault;
}

class StreamingFaultsTest : public StreamingTest {
 protected:
  const std::array<ReadFault, 5> kFaults = {
      fault_of(ReadFault::Kind::kFails),
      fault_of(ReadFault::Kind::kTruncated, 0),
      fault_of(ReadFault::Kind::kTruncated, io::kBulkAlignment),
      fault_of(ReadFault::Kind::kFlipped, 0),
      fault_of(ReadFault::Kind::kFlipped, kExtentBytes - 1),
  };
  void flip_on_drive(const std::filesystem::path& path, std::size_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(~file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
};

TEST_F(StreamingFaultsTest, OneFailureAtAnyReadIsRepeatedAndNobodyNotices) {
  for (const ReadFault& fault : kFaults) {
    for (std::uint64_t k = 0; k < kExperts; ++k) {
      StreamingStore store(options(5), deps());
      script_.on_request(script_.n_submitted() + k, fault);
      use(store, 1, all_experts());
      EXPECT_EQ(store.stats().trunk.failed_reads, 1U);
      EXPECT_EQ(store.stats().trunk.bytes_read, (kExperts + 1) * kExtentBytes);
      script_.clear();
    }
  }
}

TEST_F(StreamingFaultsTest, TwoFailuresAtAnyReadFailOneLeaseAndTheStoreGoesOn) {
  for (const ReadFault& fault : kFaults) {
    StreamingStore store(options(5), deps());
    for (std::uint32_t expert = 0; expert < kExperts; ++expert) {
      script_.on_request(script_.n_submitted(), fault);
      script_.on_request(script_.n_submitted() + 1, fault);
      const bool is_damage = fault.kind == ReadFault::Kind::kFlipped;
      const std::string name = "expert " + std::to_string(expert) + " of layer 1";
      {
        ExpertLease lease = store.acquire(1, std::array{expert});
        const std::string error = error_of(lease);
        EXPECT_THAT(error, StartsWith(is_damage ? name : "cannot read " + name + ": '"));
        EXPECT_THAT(error, HasSubstr(file(1).string()));
        EXPECT_EQ(error_of(lease), error);  // and it stays so
      }
      EXPECT_EQ(store.n_missing(1, std::array{expert}), 1U);
      use(store, 1, {expert});
    }
    EXPECT_EQ(store.stats().trunk.failed_reads, 2 * kExperts);
  }
}

TEST_F(StreamingFaultsTest, TheMessageSaysWhatIsWrongAndWhatToDo) {
  StreamingStore store(options(5), deps());
  flip_on_drive(file(2), 3 * kExtentBytes + 100);
  ExpertLease damaged = store.acquire(2, Ids{3});
  EXPECT_EQ(error_of(damaged),
            "expert 3 of layer 2 in '" + file(2).string() +
                "' is damaged: its checksum differs; copy the file again or run inspect --verify");
  std::filesystem::resize_file(file(1), 4 * kExtentBytes + 100);
  ExpertLease cut = store.acquire(1, Ids{4});
  EXPECT_THAT(error_of(cut),
              StartsWith("cannot read expert 4 of layer 1: '" + file(1).string() +
                         "': wanted 8192 bytes at offset 32768, got "));
  use(store, 1, {0, 1, 2, 3});
  use(store, 2, {0, 1, 2, 4});
}

TEST_F(StreamingFaultsTest, AFailureLeavesOtherLeasesAlone) {
  StreamingStore store(options(8), deps());
  flip_on_drive(file(1), 3 * kExtentBytes);
  ReadFault held;
  held.is_held = true;
  script_.on_all(held);
  const Ids bad{2, 3};
  const Ids good{2, 4};
  ExpertLease failing = store.acquire(1, bad);
  ExpertLease fine = store.acquire(1, good);
  script_.clear();
  EXPECT_THAT(error_of(failing), HasSubstr("expert 3 of layer 1"));
  Ids seen;
  for (Ids batch = next_batch(fine, 1, good); !batch.empty(); batch = next_batch(fine, 1, good)) {
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(StreamingFaultsTest, AFailedUnionLargerThanThePoolGivesItsSlotsBack) {
  for (std::size_t n_slots = 1; n_slots < 5; ++n_slots) {
    flip_on_drive(file(1), 6 * kExtentBytes);
    StreamingStore store(options(n_slots), deps());
    {
      const Ids wanted = all_experts();
      ExpertLease lease = store.acquire(1, wanted);
      EXPECT_THAT(error_of(lease), HasSubstr("expert 6 of layer 1"));
    }
    use(store, 2, all_experts());
    flip_on_drive(file(1), 6 * kExtentBytes);
    use(store, 1, all_experts());
  }
}

TEST_F(StreamingFaultsTest, AFailedGuessIsOnlyCounted) {
  for (const ReadFault& fault : kFaults) {
    StreamingStore store(options(8), deps());
    script_.on_request(script_.n_submitted(), fault);
    store.prefetch(1, Ids{3});
    await([&] { return store.stats().trunk.failed_reads == 1; });
    EXPECT_EQ(store.n_missing(1, Ids{3}), 1U);
    use(store, 1, {3, 4});
    EXPECT_EQ(store.stats().trunk.failed_reads, 1U);
    EXPECT_EQ(store.stats().trunk.used_ahead, 0U);
  }
}

TEST_F(StreamingFaultsTest, AFailedGuessThatIsWantedMeanwhileIsRepeated) {
  for (ReadFault fault : kFaults) {
    script_.clear();
    StreamingStore store(options(8), deps());
    fault.is_held = true;
    const std::uint64_t first = script_.n_submitted();
    script_.on_request(first, fault);
    store.prefetch(1, Ids{3});
    script_.await_submitted(first + 1);
    const Ids wanted{3};
    ExpertLease lease = store.acquire(1, wanted);
    script_.release(first);
    EXPECT_EQ(next_batch(lease, 1, wanted), wanted);
    EXPECT_EQ(store.stats().trunk.failed_reads, 1U);
  }
}

// --- a queue that fails itself ---

TEST_F(StreamingFaultsTest, AQueueThatFailsFailsItsReadsAndTheStoreLivesOn) {
  StreamingStore store(options(8), deps());
  use(store, 1, {0});
  ReadFault held;
  held.is_held = true;
  script_.on_all(held);
  const std::uint64_t before = script_.n_submitted();
  store.prefetch(1, Ids{5, 6});
  ExpertLease lease = store.acquire(1, Ids{0, 3, 6});
  script_.await_submitted(before + 3);
  EXPECT_EQ(next_batch(lease, 1, {0, 3, 6}), Ids{0});
  script_.fail_queues("the ring is gone");
  const std::string error =
      "cannot read expert 3 of layer 1: the ring is gone; open the model again";
  EXPECT_THAT(error_of(lease), ::testing::AnyOf(error, HasSubstr("expert 6 of layer 1: the ring")));
  ExpertLease later = store.acquire(2, Ids{3});
  EXPECT_EQ(error_of(later),
            "cannot read expert 3 of layer 2: the ring is gone; open the model again");
  store.prefetch(2, Ids{4});  // fails at once, and is only counted
  EXPECT_EQ(store.n_missing(2, Ids{4}), 1U);
  use(store, 1, {0});  // what is resident stays of use
}

// --- mirrors ---

TEST_F(StreamingFaultsTest, AnotherMirrorTakesOverWhatOneCannotRead) {
  add_mirror();
  for (std::size_t bad = 0; bad < 2; ++bad) {
    for (const ReadFault& fault : kFaults) {
      script_.clear();
      for (std::size_t layer = 1; layer <= 2; ++layer) script_.on_file(file(layer, bad), fault);
      StreamingStore store(options(5), deps());
      for (int i = 0; i < 3; ++i) {
        use(store, 1, all_experts());
        use(store, 2, all_experts());
      }
      EXPECT_LE(store.stats().trunk.failed_reads, 12U);  // then it is left alone
    }
  }
}

TEST_F(StreamingFaultsTest, MirrorsShareTheReads) {
  add_mirror();
  StreamingStore store(options(12), deps());
  use(store, 1, all_experts());
  std::array<std::size_t, 2> n{};
  for (const auto& seen : script_.seen()) ++n[seen.file == file(1, 0) ? 0 : 1];
  EXPECT_EQ(n[0], 6U);
  EXPECT_EQ(n[1], 6U);
}

// --- everything at once ---

TEST_F(StreamingFaultsTest, ThreadsFaultsShrinkingAndLendingTogetherNeverGiveWrongBytes) {
  add_mirror();
  script_.set_order(ReadOrder::kShuffled);
  const StreamingOptions all = options(7, 5);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    script_.clear();
    const std::uint64_t first = script_.n_submitted();
    std::mt19937_64 dice(seed);
    for (std::uint64_t k = 0; k < 4000; ++k) {
      if (dice() % 4 == 0) script_.on_request(first + k, kFaults[dice() % kFaults.size()]);
    }
    StreamingStore store(all, deps());
    const auto work = [&](std::uint64_t thread) {
      std::mt19937_64 random(seed * 100 + thread);
      for (int round = 0; round < 120; ++round) {
        const std::size_t layer = 1 + random() % 3;
        Ids wanted = all_experts();
        for (std::size_t i = kExperts; i > 1; --i) std::swap(wanted[i - 1], wanted[random() % i]);
        wanted.resize(random() % (kExperts + 1));
        if (random() % 3 == 0) store.prefetch(1 + random() % 3, wanted);
        // Nobody seems to draft for long, then somebody does again.
        for (std::uint64_t n = random() % 30 == 0 ? 32 : random() % 3; n > 0; --n) store.end_pass();
        if (random() % 40 == 0) store.shrink(Tier::kTrunk, 7 - random() % 7);
        try {
          ExpertLease lease = store.acquire(layer, wanted);
          const std::size_t n_batches = random() % 12;
          for (std::size_t i = 0; i < n_batches; ++i) {
            if (next_batch(lease, layer, wanted).empty()) break;
          }
        } catch (const IoError&) {
          // Two failures of one read: allowed; wrong bytes are not.
        }
      }
    };
    {
      std::jthread other([&] { work(1); });
      work(2);
    }
    script_.clear();
    for (std::size_t layer = 1; layer <= 3; ++layer) {
      const Ids wanted = all_experts();
      await([&] {  // reads ahead still under way may have failed twice
        ExpertLease lease = store.acquire(layer, wanted);
        return error_of(lease) == "no error";
      });
      use(store, layer, wanted);
    }
  }
}

}  // namespace
}  // namespace ft::experts
