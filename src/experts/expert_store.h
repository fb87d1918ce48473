// Where routed experts live. A layer asks for the union of the experts that its rows chose and gets
// a lease that hands them out as they become ready, in batches. Residency never changes a number:
// callers add results in the router's order, whatever the order of arrival.
#pragma once

#include "experts/latency_histogram.h"
#include "kernels/kernels.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace ft::experts {

/// D(silu(G u) * (U u)); gate and up are packed together.
struct Expert {
  kernels::Weight gate_up;  // [2 * width, d_model]
  kernels::Weight down;     // [d_model, width]
};

/// Counts of the experts that share slots of one size. Every number is of unique experts per lease
/// (an expert that several rows of a call chose counts once).
struct TierStats {
  std::uint64_t hits = 0;             // resident when asked for
  std::uint64_t misses = 0;           // not resident: those being read ahead included
  std::uint64_t bytes_read = 0;       // everything: misses, reads ahead, repeated reads
  std::uint64_t evictions = 0;        // experts that lost their slot to another
  std::uint64_t reads_ahead = 0;      // reads that prefetch() started
  std::uint64_t used_ahead = 0;       // of these, asked for before they were evicted
  std::uint64_t reads_hinted = 0;     // those of reads_ahead that prefetch_hinted() started
  std::uint64_t used_hinted = 0;      // those of used_ahead that were among them
  std::uint64_t dropped_ahead = 0;    // of these, given up under way: the layer chose others
  std::uint64_t failed_reads = 0;     // repeated ones included
  std::uint64_t from_page_cache = 0;  // misses that the page cache had: no byte from the drive
  std::size_t n_slots =
      0;  // now: while nobody drafts the trunk has most of the draft tier's memory
  std::uint64_t slot_bytes = 0;
};

struct ExpertStats {
  bool is_streaming = false;
  TierStats trunk;
  TierStats draft;
  std::int64_t stall_us = 0;        // time that lease holders waited for reads
  LatencyHistogram read_latencies;  // of whole experts, microseconds
};

/// The experts of one acquire(). In use are those that the last next() returned: until the call
/// after it nothing moves, evicts or overwrites them. Move-only; destroying a lease early is fine
/// (a request was cancelled), its reads end on their own.
class ExpertLease {
 public:
  class State {  // a store's side of a lease
   public:
    virtual ~State() = default;
    virtual bool would_wait() const noexcept = 0;
    virtual std::span<const std::uint32_t> next(std::stop_token stop) = 0;
    virtual const Expert& expert(std::uint32_t index) const noexcept = 0;
  };

  explicit ExpertLease(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

  /// Whether next() would block now: time for other work.
  bool would_wait() const noexcept { return state_->would_wait(); }

  /// Indexes into acquire()'s list that are ready and were not returned before; empty when all
  /// were. The first call returns what is resident without waiting, if anything is. Blocks until
  /// one is ready. Throws IoError naming layer, expert and file if it cannot be read or is damaged,
  /// Cancelled when `stop` fires. The span is valid until the next call.
  std::span<const std::uint32_t> next(std::stop_token stop) {
    return state_->next(std::move(stop));
  }
  /// `index`: one of those that the last next() returned.
  const Expert& expert(std::uint32_t index) const noexcept { return state_->expert(index); }

 private:
  std::unique_ptr<State> state_;
};

/// Implementations: ResidentStore, StreamingStore. Thread-safe; a thread holds one lease at a time.
class ExpertStore {
 public:
  virtual ~ExpertStore() = default;

  /// Starts reading what is missing, in the order of the drive. `experts` are distinct; any number:
  /// a union larger than the pool comes in as slots are given back by next().
  virtual ExpertLease acquire(std::size_t layer, std::span<const std::uint32_t> experts) = 0;

  /// A guess what a later acquire() will ask for, the likeliest first; one may stand there several
  /// times. Never waits; evicts nothing that is in use or that a lease is still to return; what
  /// finds no slot is dropped.
  virtual void prefetch(std::size_t layer, std::span<const std::uint32_t> experts) noexcept = 0;

  /// As prefetch(), for the layer's turn in the next pass: called after its turn in this one. Holds
  /// half as many slots at most, and evicts nothing that is rated as high.
  virtual void prefetch_hinted(std::size_t layer,
                               std::span<const std::uint32_t> experts) noexcept = 0;

  /// How many of these are not ready: a lease would have to read them, or to wait for a read.
  virtual std::size_t n_missing(std::size_t layer,
                                std::span<const std::uint32_t> experts) const = 0;

  /// bytes[i]: of the experts of the main model that a forward of i + 1 rows is expected to find
  /// missing, given what is resident now; never falls with i. False, and all 0, if nothing streams
  /// or no pass has shown how many experts a row asks for. Ask right before a pass: what that pass
  /// misses calibrates later forecasts. Allocates nothing; a few multiplications per expert.
  virtual bool forecast_missing(std::span<double> bytes) noexcept = 0;

  /// Brackets one forward of `n_rows` rows. True: prefetch() calls are wanted in this pass; the
  /// store tries passes with and without and keeps what is faster (see LookaheadGate).
  virtual bool begin_pass(std::size_t n_rows) noexcept = 0;
  virtual void end_pass() noexcept = 0;

  virtual ExpertStats stats() const = 0;
};

}  // namespace ft::experts
