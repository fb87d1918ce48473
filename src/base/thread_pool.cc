// A job is one 32-bit count of unclaimed ranges. A thread claims a range by decrementing it, and
// only then reads the job's description: a claimed range keeps the job, and so the description,
// alive. Late workers therefore need no generation counter, and the caller waits for claimed ranges
// only, never for a worker that was not scheduled.
#include "base/thread_pool.h"

#include "base/error.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <sched.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ft {
namespace {

// Longer than the gaps between the loops of one forward pass (microseconds) and between passes
// (tens of them, with several tokens to hand out), far shorter than a scheduler slice, so that a
// pool on a busy machine gives its core away soon.
constexpr std::chrono::microseconds kSpinTime{100};
// Clock reads cost about 25 ns: one per 32 pauses (about 1.5 us) is noise.
constexpr int kPausesPerClockRead = 32;
// Each contended counter on its own pair of lines: adjacent lines are prefetched together on x86.
constexpr std::size_t kSeparateBytes = 128;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // about 10 ns; `yield` is a no-op on most cores
#endif
}

/// Waits until `counter` differs from `old`, first spinning, then asleep. Returns the new value.
std::uint32_t await_change(const std::atomic<std::uint32_t>& counter, std::uint32_t old) noexcept {
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline{};  // set after the first pauses, as most waits end within them
  while (true) {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      const std::uint32_t value = counter.load(std::memory_order_acquire);
      if (value != old) {
        return value;
      }
      pause();
    }
    const Clock::time_point now = Clock::now();
    if (deadline == Clock::time_point{}) {
      deadline = now + kSpinTime;
    } else if (now >= deadline) {
      counter.wait(old, std::memory_order_acquire);
      return counter.load(std::memory_order_acquire);
    }
  }
}

/// A processor that was taken away since it was chosen binds nothing: the thread runs where it may.
void pin_this_thread(std::int64_t cpu) noexcept {
  cpu_set_t* set = CPU_ALLOC(cpu + 1);
  if (set == nullptr) return;
  const std::size_t set_bytes = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(set_bytes, set);
  CPU_SET_S(cpu, set_bytes, set);
  sched_setaffinity(0, set_bytes, set);  // 0: this thread, not the process
  CPU_FREE(set);
}

}  // namespace

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the padding keeps the counters apart.
struct ThreadPool::Impl {
  using Body = FunctionRef<void(std::size_t, std::size_t, std::size_t)>;
  static constexpr std::uint32_t kStop = std::numeric_limits<std::uint32_t>::max();

  Impl(std::size_t n_threads, std::vector<std::int64_t> cpus_of_threads)
      : cpus(std::move(cpus_of_threads)) {
    workers.reserve(n_threads - 1);
    try {
      for (std::size_t thread = 1; thread < n_threads; ++thread) {
        workers.emplace_back([this, thread] { work(thread); });
      }
    } catch (const std::system_error& error) {
      const std::size_t n_started = workers.size() + 1;
      stop();
      throw ResourceExhausted(
          fmt::format("cannot start thread {} of {}: {}; use fewer (--threads {})",
                      n_started + 1,
                      n_threads,
                      error.what(),
                      n_started));
    }
  }

  void stop() {
    n_unclaimed.store(kStop, std::memory_order_seq_cst);
    n_unclaimed.notify_all();
    workers.clear();  // joins
  }

  void work(std::size_t thread) noexcept {
    if (!cpus.empty()) pin_this_thread(cpus[thread]);
    while (await_change(n_unclaimed, 0) != kStop) {
      run_ranges(thread);
    }
  }

  /// Runs ranges until none is left to claim, then reports them as finished in one step.
  void run_ranges(std::size_t thread) noexcept {
    std::uint32_t n_run = 0;
    std::uint32_t unclaimed = n_unclaimed.load(std::memory_order_acquire);
    while (unclaimed != 0 && unclaimed != kStop) {
      if (!n_unclaimed.compare_exchange_weak(
              unclaimed, unclaimed - 1, std::memory_order_acquire, std::memory_order_acquire)) {
        continue;
      }
      const std::size_t begin = std::size_t{n_ranges - unclaimed} * grain;
      (*body)(begin, std::min(begin + grain, n_items), thread);
      ++n_run;
      unclaimed = n_unclaimed.load(std::memory_order_acquire);
    }
    if (n_run != 0 && n_unfinished.fetch_sub(n_run, std::memory_order_seq_cst) == n_run) {
      n_unfinished.notify_one();
    }
  }

  const std::vector<std::int64_t> cpus;  // of each thread; empty: any

  // The description of the running job; written by the caller while every counter below is 0.
  const Body* body = nullptr;
  std::size_t n_items = 0;
  std::size_t grain = 1;
  std::uint32_t n_ranges = 0;

  alignas(kSeparateBytes) std::atomic<std::uint32_t> n_unclaimed{0};
  alignas(kSeparateBytes) std::atomic<std::uint32_t> n_unfinished{0};
  alignas(kSeparateBytes) std::vector<std::jthread> workers;
};

std::size_t compute_threads(std::size_t n_wanted) {
  // Far above any machine; a larger number is a slip of the finger.
  constexpr std::size_t kMaxThreads = 1024;
  if (n_wanted > kMaxThreads) fail("threads is {}, expected 1 to {}", n_wanted, kMaxThreads);
  return n_wanted == 0 ? usable_cores() : n_wanted;
}

ThreadPool::ThreadPool(std::size_t n_threads, std::vector<std::int64_t> cpus) {
  FT_CHECK(n_threads >= 1 && (cpus.empty() || cpus.size() == n_threads));
  impl_ = std::make_unique<Impl>(n_threads, std::move(cpus));
}

ThreadPool::~ThreadPool() {
  impl_->stop();
}

std::size_t ThreadPool::n_threads() const noexcept {
  return impl_->workers.size() + 1;
}

void ThreadPool::pin_caller() const noexcept {
  if (!impl_->cpus.empty()) pin_this_thread(impl_->cpus.front());
}

void ThreadPool::parallel_for(std::size_t n_items,
                              std::size_t grain,
                              FunctionRef<void(std::size_t, std::size_t, std::size_t)> body) {
  FT_CHECK(grain >= 1);
  const std::size_t n_ranges = n_items / grain + (n_items % grain != 0 ? 1 : 0);
  if (n_ranges <= 1 || impl_->workers.empty()) {
    for (std::size_t begin = 0; begin < n_items; begin += std::min(grain, n_items - begin)) {
      body(begin, begin + std::min(grain, n_items - begin), 0);
    }
    return;
  }
  FT_CHECK(n_ranges < Impl::kStop);
  impl_->body = &body;
  impl_->n_items = n_items;
  impl_->grain = grain;
  impl_->n_ranges = static_cast<std::uint32_t>(n_ranges);
  impl_->n_unfinished.store(impl_->n_ranges, std::memory_order_relaxed);
  // An exchange rather than a store: notify_all() reads the number of sleepers, and that read must
  // not pass the write.
  impl_->n_unclaimed.exchange(impl_->n_ranges, std::memory_order_seq_cst);
  impl_->n_unclaimed.notify_all();
  impl_->run_ranges(0);
  std::uint32_t unfinished = impl_->n_unfinished.load(std::memory_order_acquire);
  while (unfinished != 0) {
    unfinished = await_change(impl_->n_unfinished, unfinished);
  }
}

}  // namespace ft
