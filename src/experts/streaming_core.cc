#include "experts/streaming_core.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace ft::experts {

// --- leases ---

StreamingStore::Lease::Lease(Core& core,
                             std::size_t layer_index,
                             std::span<const std::uint32_t> experts)
    : core_(core), layer_index_(layer_index), items_(experts.size()), n_open_(experts.size()) {
  wanted_.reserve(experts.size());
  batch_.reserve(experts.size());
  for (std::size_t i = 0; i < experts.size(); ++i) {
    items_[i].expert = core.expert_id(layer_index, experts[i]);
  }
}

StreamingStore::Lease::~Lease() {
  core_.close(*this);
}

bool StreamingStore::Lease::would_wait() const noexcept {
  return core_.would_wait(*this);
}

std::span<const std::uint32_t> StreamingStore::Lease::next(std::stop_token stop) {
  return core_.next(*this, stop);
}

const Expert& StreamingStore::Lease::expert(std::uint32_t index) const noexcept {
  return core_.pool_of(layer_index_).view(items_[index].slot);
}

void StreamingStore::Core::open(Lease& lease) {
  std::unique_lock lock(mutex_);
  TierState& tier = tier_of(lease.layer_index_);
  leases_.push_back(&lease);
  count_uses(lease);
  for (std::uint32_t i = 0; i < lease.items_.size(); ++i) {
    Lease::Item& item = lease.items_[i];
    item.slot = tier.pool.slot_of(item.expert);
    const bool is_hit = item.slot != kNoSlot && tier.pool.is_ready(item.slot);
    ++(is_hit ? tier.stats.hits : tier.stats.misses);
    if (item.slot == kNoSlot) {
      lease.wanted_.push_back(i);
    } else {
      claim(tier, item);
    }
  }
  lapse_guesses(lease.layer_index_);
  const Layer& layer = layers_[lease.layer_index_];
  usage_.reached(layer.first_expert + static_cast<ExpertId>(layer.n_experts));
  std::ranges::sort(lease.wanted_, {}, [&](std::uint32_t i) { return lease.items_[i].expert; });
  give_slots();
  hand_over(lock, pool_);
}

// Before any of them is claimed.
void StreamingStore::Core::count_uses(Lease& lease) {
  const Layer& layer = layers_[lease.layer_index_];
  const SlotPool& pool = tier_of(lease.layer_index_).pool;
  n_asked_in_pass_ += lease.items_.size();
  if (layer.tier == Tier::kTrunk) {
    std::size_t n_missing = 0;
    forecast_.begin_turn(usage_, layer.range());
    for (const Lease::Item& item : lease.items_) {
      const std::uint32_t slot = pool.slot_of(item.expert);
      if (slot == kNoSlot || !pool.is_ready(slot)) ++n_missing;
      forecast_.asked(item.expert);
    }
    forecast_.end_turn(n_missing);
  } else if (!is_hint_trial_ || !lending_.is_lent()) {
    lending_.asked();
  }
  for (const Lease::Item& item : lease.items_) usage_.used(item.expert);
}

void StreamingStore::Core::close(Lease& lease) noexcept {
  std::unique_lock lock(mutex_);
  TierState& tier = tier_of(lease.layer_index_);
  for (const Lease::Item& item : lease.items_) {
    const bool is_held =
        item.progress == Lease::Progress::kClaimed || item.progress == Lease::Progress::kInUse;
    if (is_held) tier.pool.release(item.slot);
  }
  std::erase(leases_, &lease);
  give_slots();
  hand_over(lock, nullptr);
}

bool StreamingStore::Core::would_wait(const Lease& lease) const noexcept {
  const std::lock_guard lock(mutex_);
  if (lease.n_open_ == 0) return false;
  const SlotPool& pool = pool_of(lease.layer_index_);
  return std::none_of(lease.items_.begin(), lease.items_.end(), [&](const Lease::Item& item) {
    return item.progress == Lease::Progress::kClaimed && pool.is_ready(item.slot);
  });
}

std::span<const std::uint32_t> StreamingStore::Core::next(Lease& lease,
                                                          const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (stop.stop_requested()) throw Cancelled();
  release_batch(lease);
  if (lease.n_open_ == 0) return {};
  give_slots();
  hand_over(lock, pool_);
  lock.lock();
  collect_ready(lease);
  if (lease.batch_.empty() && lease.error_.empty()) {
    const std::int64_t start_us = clock_.now_us();
    const bool has_changed = changed_.wait(lock, stop, [&] {
      collect_ready(lease);
      return !lease.batch_.empty() || !lease.error_.empty();
    });
    stall_us_ += clock_.now_us() - start_us;
    if (!has_changed) throw Cancelled();
  }
  if (!lease.error_.empty()) throw IoError(lease.error_);
  return lease.batch_;
}

void StreamingStore::Core::lapse_guesses(std::size_t layer_index) noexcept {
  TierState& tier = tier_of(layer_index);
  SlotPool& pool = tier.pool;
  if (pool.n_ahead() == 0) return;
  const Layer& layer = layers_[layer_index];
  for (ExpertId i = 0; i < layer.n_experts; ++i) {
    const std::uint32_t slot = pool.slot_of(layer.first_expert + i);
    if (slot == kNoSlot || !pool.is_ahead(slot)) continue;
    pool.lapse(slot);
    if (!pool.is_ready(slot)) reader_.drop(tier.first_tag + slot);
  }
}

void StreamingStore::Core::release_batch(Lease& lease) noexcept {
  for (const std::uint32_t i : lease.batch_) {
    tier_of(lease.layer_index_).pool.release(lease.items_[i].slot);
    lease.items_[i].progress = Lease::Progress::kDone;
    --lease.n_open_;
  }
  lease.batch_.clear();
}

void StreamingStore::Core::collect_ready(Lease& lease) {
  const SlotPool& pool = pool_of(lease.layer_index_);
  // While some still wait for slots, half of the pool is handed out at most: the other half is read
  // into while the caller computes.
  const bool is_scarce = lease.first_wanted_ < lease.wanted_.size();
  const std::size_t most =
      is_scarce ? std::max<std::size_t>(pool.n_slots() / 2, 1) : lease.items_.size();
  for (std::uint32_t i = 0; i < lease.items_.size() && lease.batch_.size() < most; ++i) {
    Lease::Item& item = lease.items_[i];
    if (item.progress != Lease::Progress::kClaimed || !pool.is_ready(item.slot)) continue;
    item.progress = Lease::Progress::kInUse;
    lease.batch_.push_back(i);
  }
}

// --- slots and reads ---

ExpertId StreamingStore::Core::expert_id(std::size_t layer_index, std::uint32_t expert) const {
  const Layer& layer = layers_[layer_index];
  FT_CHECK(expert < layer.n_experts);
  return layer.first_expert + expert;
}

void StreamingStore::Core::claim(TierState& tier, Lease::Item& item) {
  item.progress = Lease::Progress::kClaimed;
  tier.pool.hold(item.slot);
  if (!tier.pool.is_ahead(item.slot)) return;
  ++tier.stats.used_ahead;
  tier.stats.used_hinted += tier.pool.guess(item.slot) == Guess::kHint ? 1 : 0;
  tier.pool.clear_ahead(item.slot);
  if (!tier.pool.is_ready(item.slot)) reader_.promote(tier.first_tag + item.slot);
}

void StreamingStore::Core::give_slots() {
  slots_.settle();
  for (Lease* lease : leases_) {
    if (lease->first_wanted_ < lease->wanted_.size() && lease->error_.empty()) {
      give_slots_to(*lease);
    }
  }
}

void StreamingStore::Core::hand_over(std::unique_lock<std::mutex>& lock, ThreadPool* pool) {
  const std::vector<ExtentRead> reads = std::exchange(reads_, {});
  lock.unlock();
  reader_.start(reads, pool);
}

void StreamingStore::Core::give_slots_to(Lease& lease) {
  TierState& tier = tier_of(lease.layer_index_);
  // What another lease has asked for meanwhile.
  std::size_t last = lease.first_wanted_;
  for (std::size_t k = lease.first_wanted_; k < lease.wanted_.size(); ++k) {
    Lease::Item& item = lease.items_[lease.wanted_[k]];
    item.slot = tier.pool.slot_of(item.expert);
    if (item.slot != kNoSlot) {
      claim(tier, item);
    } else {
      lease.wanted_[last++] = lease.wanted_[k];
    }
  }
  lease.wanted_.resize(last);

  taken_.clear();
  tier.pool.take(last - lease.first_wanted_, *policy_, usage_, taken_);
  for (const std::uint32_t slot : taken_) {
    Lease::Item& item = lease.items_[lease.wanted_[lease.first_wanted_++]];
    item.slot = slot;
    tier.pool.start_loading(slot, item.expert, Guess::kNone);
    claim(tier, item);
    add_read(lease.layer_index_, item.expert, slot, io::ReadPriority::kDemand);
  }
}

void StreamingStore::Core::add_read(std::size_t layer_index,
                                    ExpertId expert,
                                    std::uint32_t slot,
                                    io::ReadPriority priority) {
  TierState& tier = tier_of(layer_index);
  reads_.push_back({.tag = tier.first_tag + slot,
                    .layer_index = layer_index,
                    .expert = expert - layers_[layer_index].first_expert,
                    .destination = tier.pool.memory(slot),
                    .priority = priority});
}

void StreamingStore::Core::prefetch(std::size_t layer_index,
                                    std::span<const std::uint32_t> experts,
                                    Guess guess) {
  std::unique_lock lock(mutex_);
  TierState& tier = tier_of(layer_index);
  const bool is_hint = guess == Guess::kHint;
  const std::size_t most = tier.pool.n_slots() / 2;
  for (const std::uint32_t expert : experts) {
    if (tier.pool.n_ahead() >= most || (is_hint && tier.pool.n_hinted() >= most / 2)) break;
    const ExpertId id = expert_id(layer_index, expert);
    if (tier.pool.slot_of(id) != kNoSlot) continue;
    taken_.clear();
    if (is_hint) {
      usage_.hinted(id);
      double worth = 0;
      policy_->rate(usage_, {&id, 1}, {&worth, 1});
      tier.pool.take_below(worth, *policy_, usage_, taken_);
    } else {
      tier.pool.take(1, *policy_, usage_, taken_);
      if (!taken_.empty()) usage_.guessed(id);
    }
    if (taken_.empty()) break;
    ++tier.stats.reads_ahead;
    tier.stats.reads_hinted += is_hint ? 1 : 0;
    tier.pool.start_loading(taken_.front(), id, guess);
    add_read(layer_index, id, taken_.front(), io::ReadPriority::kAhead);
  }
  hand_over(lock, nullptr);
}

void StreamingStore::Core::on_read(const ExtentOutcome& outcome) {
  const ExtentRead& read = outcome.read;
  const bool is_good = outcome.error.empty();
  Expert view;
  if (is_good) view = layers_[read.layer_index].view(read.destination.data());

  std::unique_lock lock(mutex_);
  TierState& tier = tier_of(read.layer_index);
  const auto slot = static_cast<std::uint32_t>(read.tag - tier.first_tag);
  tier.stats.bytes_read += outcome.bytes_read;
  tier.stats.failed_reads += outcome.n_failed;
  tier.stats.dropped_ahead += outcome.was_dropped ? 1 : 0;
  if (is_good) {
    if (outcome.was_cached) {
      ++tier.stats.from_page_cache;
    } else {
      latencies_.add(outcome.latency_us);
    }
    tier.pool.loaded(slot, view);
  } else if (outcome.was_guess && tier.pool.is_held(slot)) {
    // A lease came to want it while the guess failed: as a demand it gets its repetition.
    reads_.push_back(read);
    reads_.back().priority = io::ReadPriority::kDemand;
  } else {
    fail_holders(tier, slot, outcome.error);
    tier.pool.failed(slot);
  }
  give_slots();
  changed_.notify_all();
  hand_over(lock, nullptr);
}

void StreamingStore::Core::fail_holders(const TierState& tier,
                                        std::uint32_t slot,
                                        const std::string& error) {
  for (Lease* lease : leases_) {
    if (&tier_of(lease->layer_index_) != &tier) continue;
    for (Lease::Item& item : lease->items_) {
      if (item.progress != Lease::Progress::kClaimed || item.slot != slot) continue;
      item.progress = Lease::Progress::kDone;
      lease->error_ = error;
    }
  }
}

std::size_t StreamingStore::Core::n_missing(std::size_t layer_index,
                                            std::span<const std::uint32_t> experts) const {
  const std::scoped_lock lock(mutex_);
  const SlotPool& pool = pool_of(layer_index);
  return static_cast<std::size_t>(std::ranges::count_if(experts, [&](std::uint32_t expert) {
    const std::uint32_t slot = pool.slot_of(expert_id(layer_index, expert));
    return slot == kNoSlot || !pool.is_ready(slot);
  }));
}

bool StreamingStore::Core::forecast_missing(std::span<double> bytes) noexcept {
  std::ranges::fill(bytes, 0.0);
  const std::scoped_lock lock(mutex_);
  const SlotPool& pool = tiers_[static_cast<std::size_t>(Tier::kTrunk)].pool;
  forecast_.begin();
  for (const Layer& layer : layers_) {
    if (layer.tier != Tier::kTrunk) continue;
    const std::span<float> chances = forecast_.chances(usage_, layer.range());
    for (std::size_t i = 0; i < chances.size(); ++i) {
      const std::uint32_t slot = pool.slot_of(layer.first_expert + static_cast<ExpertId>(i));
      if (slot != kNoSlot && pool.is_ready(slot)) chances[i] = 0;
    }
    forecast_.add(bytes);
  }
  const bool is_known = forecast_.finish(bytes);
  for (double& n : bytes) n *= static_cast<double>(pool.slot_bytes());
  return is_known;
}

bool StreamingStore::Core::begin_pass(std::size_t n_rows) {
  const std::scoped_lock lock(mutex_);
  n_asked_in_pass_ = 0;
  forecast_.begin_pass(n_rows);
  const bool is_advised = gate_.begin_pass(n_rows, clock_.now_us());
  switch (lookahead_) {
    case StreamingOptions::Lookahead::kOff:
      return false;
    case StreamingOptions::Lookahead::kOn:
      return n_rows <= LookaheadGate::kMaxRows;
    case StreamingOptions::Lookahead::kAuto:
      return is_advised;
  }
  return false;
}

void StreamingStore::Core::end_pass() {
  const std::scoped_lock lock(mutex_);
  gate_.end_pass(n_asked_in_pass_, clock_.now_us());
  n_asked_in_round_ = n_asked_in_pass_;
  forecast_.end_pass();
  usage_.end_pass();
  lending_.end_pass();
  slots_.set_lent(lending_.is_lent());
}

bool StreamingStore::Core::begin_round() {
  const std::scoped_lock lock(mutex_);
  n_asked_in_round_ = 0;
  is_hint_trial_ = false;
  switch (lookahead_) {
    case StreamingOptions::Lookahead::kOff:
      return false;
    case StreamingOptions::Lookahead::kOn:
      return true;
    case StreamingOptions::Lookahead::kAuto:
      // One trial at a time: neither would know whose gain it measures.
      if (gate_.is_trying()) return false;
      is_hint_trial_ = hint_gate_.is_trying();
      return hint_gate_.begin_pass(1, clock_.now_us());
  }
  return false;
}

void StreamingStore::Core::end_round() {
  const std::scoped_lock lock(mutex_);
  hint_gate_.end_pass(n_asked_in_round_, clock_.now_us());
  is_hint_trial_ = false;
}

void StreamingStore::Core::shrink(Tier tier, std::size_t n_slots) {
  const std::scoped_lock lock(mutex_);
  slots_.shrink(tier, n_slots);
}

}  // namespace ft::experts
