// A model whose experts come from the drive against the same model with all of them in memory.
#include "base/error.h"
#include "cache/latent_cache.h"
#include "experts/routing_memory.h"
#include "experts/streaming_store.h"
#include "models/conversion.h"
#include "models/expert_extents.h"
#include "models/glm_test_model.h"
#include "models/memory_needs.h"
#include "testing/fake_clock.h"
#include "testing/faulty_read_queue.h"
#include "testing/tiny_glm.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::models {
namespace {

namespace fs = std::filesystem;
using experts::StreamingOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadFault;

/// A model on a store of its own, read through a scripted queue.
struct StreamedModel {
  testing::FakeClock clock;
  testing::ReadScript script;
  ThreadPool pool;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<experts::StreamingStore> store;
  std::unique_ptr<Model> model;

  StreamedModel(const fs::path& folder, std::size_t n_threads, StreamingOptions options)
      : pool(n_threads), backend(kernels::make_cpu_backend(kernels::usable_isas().front(), pool)) {
    checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(folder);
    options.layers = expert_extents(checkpoint, {}, *backend);
    store = std::make_unique<experts::StreamingStore>(
        std::move(options),
        experts::StreamingDeps{.clock = clock, .make_queue = [this](const io::ReadQueueOptions&) {
                                 return std::make_unique<testing::FaultyReadQueue>(script);
                               }});
    LoadOptions load;
    load.store = store.get();
    model = load_model(std::move(checkpoint), *backend, pool, load);
  }
};

StreamingOptions slots(std::size_t trunk, std::size_t draft) {
  StreamingOptions options;
  options.trunk_slots = trunk;
  options.draft_slots = draft;
  options.uses_page_cache = false;  // everything goes through the script
  return options;
}

class StreamedModelTest : public ::testing::Test {
 protected:
  StreamedModelTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("ft_streamed_") + info->name() + "_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    testing::make_tiny_glm({.format = testing::TinyFormat::kBf16}).write(folder_ / "source");
    ThreadPool pool(1);
    const ConversionOptions options{.formats = {}, .converter = "test", .progress = {}};
    convert_model(checkpoint::Checkpoint::open(folder_ / "source"), container(), options, pool, {});
    for (std::size_t i = 0; i < 60; ++i) {
      tokens_.push_back(static_cast<Token>((i * i * 7 + i * 3 + 1) % testing::kTinyVocab));
    }
  }
  ~StreamedModelTest() override { fs::remove_all(folder_); }

  fs::path container() const { return folder_ / "container"; }

  /// Logits of every row, then those of three drafts.
  RowCopy run(const Model& model, std::size_t chunk) const {
    const auto cache = model.new_cache({.max_tokens = tokens_.size()});
    const Fed fed = feed(model, *cache, tokens_, chunk);
    RowCopy all = fed.logits;
    const auto draft_cache = model.draft_head()->new_cache({.max_tokens = tokens_.size() + 4});
    const TokenSpan next = TokenSpan(tokens_).subspan(1);
    all.add(draft(*model.draft_head(), *draft_cache, fed.hidden.view(0, next.size()), next, 3)
                .logits.view(0, 3));
    return all;
  }
  /// Of all tokens in one forward.
  std::string error_of(const Model& model, cache::KvCache& cache) const {
    const auto workspace = model.new_workspace();
    const SequenceSlice slice{&cache, tokens_, 1};
    try {
      model.forward({&slice, 1}, {}, {}, *workspace);
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
  std::vector<Token> tokens_;
};

TEST_F(StreamedModelTest, EqualsTheResidentModelBitForBit) {
  const LoadedModel resident(container(), kernels::usable_isas().front(), 1);
  const RowCopy expected = run(*resident.model, tokens_.size());
  for (const std::size_t n_threads : {1, 2}) {
    for (const std::size_t n_slots : {1, 2, 3, 5, 20}) {
      for (const std::size_t chunk : {1, 7, 60}) {
        StreamedModel streamed(container(), n_threads, slots(n_slots, n_slots));
        streamed.script.set_order(testing::ReadOrder::kShuffled);
        EXPECT_EQ(run(*streamed.model, chunk), expected)
            << n_threads << " threads, " << n_slots << " slots, chunks of " << chunk;
        EXPECT_EQ(streamed.model->config().weights_hash, resident.model->config().weights_hash);
        EXPECT_GT(streamed.store->stats().trunk.misses, 0U);
        EXPECT_GT(streamed.store->stats().draft.misses, 0U);
      }
    }
  }
}

TEST_F(StreamedModelTest, LooksAheadWithoutChangingANumber) {
  const LoadedModel resident(container(), kernels::usable_isas().front(), 1);
  const RowCopy expected = run(*resident.model, 1);
  for (const std::size_t n_slots : {2, 4, 12}) {
    StreamingOptions options = slots(n_slots, 2);
    options.lookahead = StreamingOptions::Lookahead::kOn;
    StreamedModel streamed(container(), 2, std::move(options));
    EXPECT_EQ(run(*streamed.model, 1), expected) << n_slots;
    // The smallest pool has no room for guesses.
    if (n_slots > 2) {
      EXPECT_GT(streamed.store->stats().trunk.reads_ahead, 0U);
    }
  }
}

/// What one-token forwards of a sequence gave and asked of the drive, under hints.
struct HintedRun {
  RowCopy logits;
  experts::TierStats trunk;
  std::uint64_t n_demanded = 0;  // reads that were not begun ahead
};

/// hint_of: the token that is said to come after position i; -1: nothing is said.
template <typename HintOf>
HintedRun run_hinted(const fs::path& container, TokenSpan tokens, HintOf hint_of) {
  StreamingOptions options = slots(16, 2);                // not all that are asked for
  options.lookahead = StreamingOptions::Lookahead::kOff;  // no guesses but hints
  StreamedModel streamed(container, 1, std::move(options));
  experts::RoutingMemory memory(streamed.model->config().n_layers,
                                streamed.model->config().n_active);
  const auto workspace = streamed.model->new_workspace();
  workspace->set_routing_memory(&memory);
  const auto cache = streamed.model->new_cache({.max_tokens = tokens.size()});
  HintedRun out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token hint = hint_of(i);
    workspace->set_hints(hint < 0 ? TokenSpan() : TokenSpan(&hint, 1));
    const SequenceSlice slice{cache.get(), tokens.subspan(i, 1), 1};
    out.logits.add(streamed.model->forward({&slice, 1}, {}, {}, *workspace).logits);
    workspace->set_hints({});
    // Reads are quick or slow as the machine likes: here all that were begun have come.
    streamed.script.await_ended(streamed.script.n_submitted());
  }
  out.trunk = streamed.store->stats().trunk;
  out.n_demanded = streamed.script.n_submitted() - out.trunk.reads_ahead;
  return out;
}

TEST_F(StreamedModelTest, HintsOfTheRightTokenTurnMissesIntoHits) {
  std::vector<Token> tokens;  // that come again and again
  for (std::size_t i = 0; i < 40; ++i) tokens.push_back(static_cast<Token>(3 + i * i % 7));
  const auto none = [](std::size_t) { return Token{-1}; };
  const auto right = [&](std::size_t i) { return i + 1 < tokens.size() ? tokens[i + 1] : -1; };
  const auto wrong = [](std::size_t i) { return static_cast<Token>(20 + i % 9); };
  const HintedRun plain = run_hinted(container(), tokens, none);
  EXPECT_EQ(plain.trunk.reads_hinted, 0U);

  const HintedRun told = run_hinted(container(), tokens, right);
  EXPECT_EQ(told.logits, plain.logits);
  EXPECT_GT(told.trunk.used_hinted, 0U);
  EXPECT_LT(told.n_demanded, plain.n_demanded);
  EXPECT_EQ(told.trunk.reads_ahead, told.trunk.reads_hinted);

  const HintedRun unknown = run_hinted(container(), tokens, wrong);  // of tokens never seen
  EXPECT_EQ(unknown.logits, plain.logits);
  EXPECT_EQ(unknown.trunk.reads_hinted, 0U);

  const HintedRun random = run_hinted(
      container(), tokens, [&](std::size_t i) { return tokens[i * 31 % tokens.size()]; });
  EXPECT_EQ(random.logits, plain.logits);
  EXPECT_GT(random.trunk.reads_hinted, random.trunk.used_hinted);
}

TEST_F(StreamedModelTest, ReadsEachExpertOncePerChunk) {
  constexpr std::size_t kChunk = 20;
  StreamedModel streamed(container(), 1, slots(2, 2));
  const auto cache = streamed.model->new_cache({.max_tokens = tokens_.size()});
  const auto workspace = streamed.model->new_workspace();
  for (std::size_t begin = 0; begin < tokens_.size(); begin += kChunk) {
    const std::size_t n_before = streamed.script.seen().size();
    const SequenceSlice slice{cache.get(), TokenSpan(tokens_).subspan(begin, kChunk), 1};
    streamed.model->forward({&slice, 1}, {}, {}, *workspace);
    std::map<std::pair<fs::path, std::uint64_t>, int> reads;
    const std::vector<testing::ReadScript::Seen> seen = streamed.script.seen();
    for (std::size_t i = n_before; i < seen.size(); ++i) {
      EXPECT_EQ(++reads[std::pair(seen[i].file, seen[i].offset)], 1) << seen[i].file;
    }
    EXPECT_GT(reads.size(), 4U);
  }
}

TEST_F(StreamedModelTest, AFailedReadFailsOneForwardAndLeavesTheCacheAsItWas) {
  const LoadedModel resident(container(), kernels::usable_isas().front(), 1);
  const RowCopy expected = run(*resident.model, tokens_.size());
  // Requests of a first pass, so that every one of them can fail in turn.
  std::uint64_t n_reads = 0;
  {
    StreamedModel counting(container(), 1, slots(4, 4));
    const auto cache = counting.model->new_cache({.max_tokens = tokens_.size()});
    EXPECT_EQ(error_of(*counting.model, *cache), "");
    n_reads = counting.script.n_submitted();
  }
  ASSERT_GT(n_reads, 8U);
  for (const ReadFault::Kind kind :
       {ReadFault::Kind::kFails, ReadFault::Kind::kTruncated, ReadFault::Kind::kFlipped}) {
    for (std::uint64_t failing = 0; failing < n_reads; ++failing) {
      StreamedModel streamed(container(), 1, slots(4, 4));
      streamed.script.on_request(failing, {.kind = kind, .n_bytes = 100});
      // Once more is tried at once: one fault is not felt.
      EXPECT_EQ(run(*streamed.model, tokens_.size()), expected) << failing;
      EXPECT_GE(streamed.store->stats().trunk.failed_reads, 1U);
    }
    StreamedModel streamed(container(), 2, slots(4, 4));
    const auto cache = streamed.model->new_cache({.max_tokens = tokens_.size()});
    streamed.script.on_all({.kind = kind, .n_bytes = 100});
    EXPECT_THAT(error_of(*streamed.model, *cache),
                AllOf(HasSubstr("expert"), HasSubstr("layer 1")));
    EXPECT_EQ(cache->length(), 0U);
    // What the failed forward had under way ends first: the next one would share its fate.
    while (streamed.store->stats().trunk.failed_reads < streamed.script.n_submitted()) {
      std::this_thread::yield();
    }
    streamed.script.clear();
    EXPECT_EQ(run(*streamed.model, tokens_.size()), expected);
  }
}

TEST_F(StreamedModelTest, IsCancelledWhileItWaitsForTheDrive) {
  StreamedModel streamed(container(), 1, slots(4, 4));
  streamed.script.on_all({.is_held = true});
  const auto cache = streamed.model->new_cache({.max_tokens = tokens_.size()});
  const auto workspace = streamed.model->new_workspace();
  const SequenceSlice slice{cache.get(), tokens_, 1};
  std::stop_source stop;
  std::jthread canceller([&] {
    streamed.script.await_submitted(1);
    stop.request_stop();
  });
  EXPECT_THROW(streamed.model->forward({&slice, 1}, {}, stop.get_token(), *workspace), Cancelled);
  EXPECT_EQ(cache->length(), 0U);
  streamed.script.clear();
  EXPECT_EQ(error_of(*streamed.model, *cache), "");
}

TEST_F(StreamedModelTest, WhatCannotStreamIsRefused) {
  ThreadPool pool(1);
  const auto backend = kernels::make_cpu_backend(kernels::Isa::kRef, pool);
  const auto refusal = [&](const fs::path& folder, const std::vector<fs::path>& mirrors) {
    try {
      expert_extents(checkpoint::Checkpoint::open(folder), mirrors, *backend);
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(folder_ / "source", {}),
              AllOf(HasSubstr("is no container"), HasSubstr("foretoken convert")));
  ConversionOptions stored{.formats = {}, .converter = "test", .progress = {}};
  stored.formats.experts = TargetFormat::kStored;
  const fs::path other = folder_ / "other";
  convert_model(checkpoint::Checkpoint::open(folder_ / "source"), other, stored, pool, {});
  EXPECT_THAT(refusal(other, {}), HasSubstr("the experts of layer 1 are not stored as q4 or q8"));
  EXPECT_THAT(refusal(container(), {other}), HasSubstr("is not a copy of"));
  EXPECT_THAT(refusal(container(), {folder_ / "source"}), HasSubstr("is not a copy of"));
  fs::copy(container(), folder_ / "copy");
  EXPECT_EQ(refusal(container(), {folder_ / "copy"}), "");
}

TEST_F(StreamedModelTest, NeedsWhatItThenTakes) {
  ThreadPool pool(1);
  const auto backend = kernels::make_cpu_backend(kernels::Isa::kRef, pool);
  checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(container());
  MemoryUse use;
  use.n_rows = 8;
  use.n_logits = 1;
  use.context = 100;
  const MemoryNeeds needs = memory_needs(checkpoint, *backend, use);
  EXPECT_EQ(needs.trunk.n_layers, 4U);  // the first of five is dense
  EXPECT_EQ(needs.draft.n_layers, 1U);
  EXPECT_EQ(needs.trunk.slot_bytes, 4096U);  // tiny experts fill one page
  EXPECT_EQ(needs.trunk.packed_bytes, 0U);
  const auto cache =
      LoadedModel(container(), kernels::Isa::kRef, 1).model->new_cache({.max_tokens = 100});
  EXPECT_EQ(needs.kv_bytes, [&] {
    dynamic_cast<cache::LatentCache&>(*cache).append(100);
    return cache->used_bytes();
  }());
  // From bf16 elements every expert is packed.
  checkpoint::Checkpoint source = checkpoint::Checkpoint::open(folder_ / "source");
  const MemoryNeeds stored = memory_needs(source, *backend, use);
  EXPECT_EQ(stored.trunk.slot_bytes, 0U);
  EXPECT_GT(stored.trunk.packed_bytes, stored.draft.packed_bytes);
}

}  // namespace
}  // namespace ft::models
