// Experts on a drive, as many of them in memory as a budget allows. What a lease asks for and is
// not there is read past the page cache, checked, and handed out as it arrives.
#pragma once

#include "base/clock.h"
#include "base/thread_pool.h"
#include "experts/expert_store.h"
#include "experts/residency_policy.h"
#include "io/read_queue.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ft::experts {

/// Layers whose experts share slots of one size: those of the main model, those of draft layers.
enum class Tier : std::uint8_t { kTrunk, kDraft };

/// The experts of one layer in a container: all alike, one behind the other.
struct LayerExtents {
  std::size_t layer = 0;
  Tier tier = Tier::kTrunk;
  std::uint64_t extent_bytes = 0;        // a multiple of io::kBulkAlignment
  std::vector<std::uint64_t> checksums;  // one per expert: XXH3 of its whole extent
  /// Copies of each other, one per model folder; the same number for every layer. Expert i is bytes
  /// [i * extent_bytes, (i + 1) * extent_bytes).
  std::vector<std::filesystem::path> files;
  /// The expert whose extent lies at this address. Called on a thread of the store.
  std::function<Expert(const std::byte*)> view;
};

struct StreamingOptions {
  enum class Lookahead : std::uint8_t { kOff, kOn, kAuto };

  std::vector<LayerExtents> layers;
  std::size_t trunk_slots = 0;  // at least 1 if a layer is of the tier
  std::size_t draft_slots = 0;
  PolicyKind policy = PolicyKind::kLikelihood;
  Lookahead lookahead = Lookahead::kAuto;
  /// What earlier runs learned about the use of experts is read from here; empty: from nowhere.
  std::filesystem::path heat_file;
  bool direct = true;           // past the page cache, where the file system can
  bool uses_page_cache = true;  // small experts that it happens to hold are copied from there
};

struct StreamingDeps {
  const Clock& clock;  // outlives the store
  std::function<std::unique_ptr<io::ReadQueue>(const io::ReadQueueOptions&)> make_queue;
  /// Shares the work of acquire() and next(), which then are for the thread alone that uses the
  /// pool; null: their caller does it.
  ThreadPool* pool = nullptr;
};

/// Memory: n_slots times the largest extent of the tier, for each tier, committed as slots are
/// first filled. While passes have hardly any drafts before them, the main model has most of the
/// draft tier's. Leases must not outlive the store.
class StreamingStore final : public ExpertStore {
 public:
  /// Opens every file. Throws InvalidInput naming one that is missing or of another size, IoError,
  /// ResourceExhausted.
  StreamingStore(StreamingOptions options, const StreamingDeps& deps);
  ~StreamingStore() override;
  StreamingStore(const StreamingStore&) = delete;
  StreamingStore& operator=(const StreamingStore&) = delete;
  StreamingStore(StreamingStore&&) = delete;
  StreamingStore& operator=(StreamingStore&&) = delete;

  ExpertLease acquire(std::size_t layer, std::span<const std::uint32_t> experts) override;
  void prefetch(std::size_t layer, std::span<const std::uint32_t> experts) noexcept override;
  void prefetch_hinted(std::size_t layer, std::span<const std::uint32_t> experts) noexcept override;
  std::size_t n_missing(std::size_t layer, std::span<const std::uint32_t> experts) const override;
  bool forecast_missing(std::span<double> bytes) noexcept override;
  bool begin_pass(std::size_t n_rows) noexcept override;
  void end_pass() noexcept override;
  ExpertStats stats() const override;

  /// Brackets a round of decoding: one pass and what comes before and after it. True: a draft that
  /// names the token after the pass is wanted, for prefetch_hinted(). As with begin_pass(), rounds
  /// with and without are tried, the time of the draft included. A round that failed need not end.
  bool begin_round() noexcept;
  void end_round() noexcept;

  /// Memory is short: at most `n_slots` (at least 1) are the tier's own from now on. Slots in use
  /// go when their leases are done with them, all others at once. It never gets them back.
  void shrink(Tier tier, std::size_t n_slots);

  /// Writes what was learned into the heat file, if there is one. Throws IoError.
  void save_heat() const;
  /// One line if the heat file could not be used, else empty.
  const std::string& heat_warning() const noexcept;

 private:
  class Core;
  class Lease;
  std::unique_ptr<Core> core_;
};

}  // namespace ft::experts
