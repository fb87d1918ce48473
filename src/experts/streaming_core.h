// The inside of StreamingStore: its lock, slots, leases and what they wait for.
//
// One lock guards everything but the bytes in slots; it is never held while a byte is read, checked
// or viewed. Whenever a slot may have become free, give_slots() gives slots to the leases that
// still want some, the oldest lease first; hand_over() starts their reads.
#pragma once

#include "experts/draft_lending.h"
#include "experts/extent_reader.h"
#include "experts/latency_histogram.h"
#include "experts/lookahead_gate.h"
#include "experts/miss_forecast.h"
#include "experts/slot_tiers.h"
#include "experts/streaming_store.h"

#include <array>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

namespace ft::experts {

class StreamingStore::Lease final : public ExpertLease::State {
 public:
  Lease(Core& core, std::size_t layer_index, std::span<const std::uint32_t> experts);
  ~Lease() override;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Lease(Lease&&) = delete;
  Lease& operator=(Lease&&) = delete;

  bool would_wait() const noexcept override;
  std::span<const std::uint32_t> next(std::stop_token stop) override;
  const Expert& expert(std::uint32_t index) const noexcept override;

 private:
  friend class StreamingStore::Core;
  enum class Progress : std::uint8_t {
    kWanted,   // neither here nor being read, as far as this lease knows
    kClaimed,  // held for this lease: ready, or being read
    kInUse,    // returned by the last next(); held
    kDone,
  };
  struct Item {
    ExpertId expert = kNoExpert;
    std::uint32_t slot = kNoSlot;
    Progress progress = Progress::kWanted;
  };

  Core& core_;
  std::size_t layer_index_;
  // Below: guarded by the core's lock, but for what expert() reads, which stands still meanwhile.
  std::vector<Item> items_;            // as asked for
  std::vector<std::uint32_t> wanted_;  // items, in the order of the file
  std::size_t first_wanted_ = 0;       // those from here on are kWanted
  std::vector<std::uint32_t> batch_;   // items kInUse
  std::size_t n_open_;                 // items not kDone
  std::string error_;                  // why an expert will not come
};

class StreamingStore::Core {
 public:
  Core(StreamingOptions options, const StreamingDeps& deps);

  std::size_t layer_index(std::size_t layer) const;
  void prefetch(std::size_t layer_index, std::span<const std::uint32_t> experts, Guess guess);
  std::size_t n_missing(std::size_t layer_index, std::span<const std::uint32_t> experts) const;
  bool forecast_missing(std::span<double> bytes) noexcept;
  bool begin_pass(std::size_t n_rows);
  void end_pass();
  bool begin_round();
  void end_round();
  ExpertStats stats() const;
  void shrink(Tier tier, std::size_t n_slots);
  void save_heat() const;
  const std::string& heat_warning() const noexcept { return heat_warning_; }

  void open(Lease& lease);
  void close(Lease& lease) noexcept;
  bool would_wait(const Lease& lease) const noexcept;
  std::span<const std::uint32_t> next(Lease& lease, const std::stop_token& stop);
  const SlotPool& pool_of(std::size_t layer_index) const { return tier_of(layer_index).pool; }

 private:
  friend class StreamingStore::Lease;
  struct TierState {
    SlotPool& pool;
    TierStats stats;  // counts; sizes are the pool's
    std::uint64_t first_tag = 0;
  };
  struct Layer {
    std::size_t layer = 0;
    Tier tier = Tier::kTrunk;
    ExpertId first_expert = 0;
    std::size_t n_experts = 0;
    std::function<Expert(const std::byte*)> view;

    MissForecast::Layer range() const noexcept { return {first_expert, n_experts}; }
  };

  static TierSize tier_size(const StreamingOptions& options, Tier tier);
  static StreamingOptions::Lookahead effective_lookahead(const StreamingOptions& options);
  static std::vector<ExtentFiles> open_files(const StreamingOptions& options);
  TierState& tier_of(std::size_t layer_index) {
    return tiers_[static_cast<std::size_t>(layers_[layer_index].tier)];
  }
  const TierState& tier_of(std::size_t layer_index) const {
    return tiers_[static_cast<std::size_t>(layers_[layer_index].tier)];
  }
  void load_heat();
  ExpertId expert_id(std::size_t layer_index, std::uint32_t expert) const;

  // With the lock held:
  void count_uses(Lease& lease);
  void claim(TierState& tier, Lease::Item& item);
  void lapse_guesses(std::size_t layer_index) noexcept;
  void release_batch(Lease& lease) noexcept;
  void collect_ready(Lease& lease);
  void give_slots();
  void give_slots_to(Lease& lease);
  void add_read(std::size_t layer_index,
                ExpertId expert,
                std::uint32_t slot,
                io::ReadPriority priority);
  void fail_holders(const TierState& tier, std::uint32_t slot, const std::string& error);

  /// Unlocks, then starts what was added.
  void hand_over(std::unique_lock<std::mutex>& lock, ThreadPool* pool);
  void on_read(const ExtentOutcome& outcome);

  const Clock& clock_;
  ThreadPool* const pool_;
  std::vector<Layer> layers_;
  std::vector<std::size_t> index_of_layer_;  // by number of the layer
  std::unique_ptr<ResidencyPolicy> policy_;
  StreamingOptions::Lookahead lookahead_;
  std::filesystem::path heat_file_;
  std::string heat_warning_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;  // a slot became ready or a lease failed
  SlotTiers slots_;
  std::array<TierState, 2> tiers_;  // by Tier
  DraftLending lending_;
  ExpertUsage usage_;
  MissForecast forecast_;       // of the trunk
  std::vector<Lease*> leases_;  // the oldest first
  LatencyHistogram latencies_;
  std::int64_t stall_us_ = 0;
  LookaheadGate gate_;
  LookaheadGate hint_gate_;     // of rounds
  bool is_hint_trial_ = false;  // this round asks for a hint to see what that gains
  std::uint64_t n_asked_in_pass_ = 0;
  std::uint64_t n_asked_in_round_ = 0;  // of its pass
  std::vector<std::uint32_t> taken_;    // scratch
  std::vector<ExtentRead> reads_;       // to be started

  ExtentReader reader_;  // last: its threads use all of the above
};

}  // namespace ft::experts
