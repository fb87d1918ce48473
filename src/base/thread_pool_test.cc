#include "base/thread_pool.h"

#include "base/error.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <fstream>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace ft {
namespace {

// Waits until the kernel says that a thread of this process sleeps: past all spinning.
void await_asleep(pid_t thread) {
  std::string line;
  do {
    std::this_thread::yield();
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::getline(stat, line);
  } while (line.find(") S ") == std::string::npos);
}

std::vector<pid_t> workers_of(ThreadPool& pool) {
  std::vector<pid_t> ids(pool.n_threads());
  std::barrier all_here(static_cast<std::ptrdiff_t>(ids.size()));  // a range for each thread
  pool.parallel_for(ids.size(), 1, [&](std::size_t, std::size_t, std::size_t thread) {
    ids[thread] = gettid();
    all_here.arrive_and_wait();
  });
  ids.erase(ids.begin());
  return ids;
}

TEST(ThreadPool, CoversEveryItemOnce) {
  for (std::size_t n_threads : {1u, 2u, 3u, 5u}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (std::size_t n_items : {0u, 1u, 2u, 7u, 64u, 1000u}) {
      for (std::size_t grain : {1u, 2u, 7u, 2000u}) {
        std::vector<std::atomic<int>> visits(n_items);
        std::atomic<bool> is_well_formed = true;
        pool.parallel_for(
            n_items, grain, [&](std::size_t begin, std::size_t end, std::size_t thread) {
              if (begin % grain != 0 || end <= begin || end > n_items || end - begin > grain ||
                  thread >= n_threads) {
                is_well_formed = false;
              }
              for (std::size_t i = begin; i < end; ++i) {
                visits[i].fetch_add(1, std::memory_order_relaxed);
              }
            });
        EXPECT_TRUE(is_well_formed);
        EXPECT_TRUE(
            std::all_of(visits.begin(), visits.end(), [](const auto& v) { return v == 1; }));
      }
    }
  }
}

TEST(ThreadPool, MakesResultsVisible_BetweenManyShortJobs) {
  // Plain memory: a missing ordering is a wrong sum here, or a report under ThreadSanitizer. A row
  // takes long enough for the workers to get their share.
  constexpr std::size_t kRows = 6;
  constexpr std::size_t kCols = 500;
  ThreadPool pool(3);
  std::vector<std::uint64_t> values(kRows * kCols, 0);
  for (std::uint64_t job = 1; job <= 5000; ++job) {
    ASSERT_EQ(values[job % values.size()], job - 1);
    pool.parallel_for(kRows, 1, [&](std::size_t begin, std::size_t, std::size_t) {
      for (std::size_t i = begin * kCols; i < (begin + 1) * kCols; ++i) {
        ++values[i];
      }
    });
  }
  EXPECT_EQ(values, std::vector<std::uint64_t>(kRows * kCols, 5000));
}

TEST(ThreadPool, WakesSleepingWorkers) {
  // Both must take a range, as each waits for the other.
  ThreadPool pool(2);
  const pid_t worker = workers_of(pool).front();
  for (int round = 0; round < 5; ++round) {
    await_asleep(worker);
    std::atomic<int> n_arrived = 0;
    std::vector<std::size_t> threads(2, 99);
    pool.parallel_for(2, 1, [&](std::size_t begin, std::size_t, std::size_t thread) {
      threads[begin] = thread;
      n_arrived.fetch_add(1);
      while (n_arrived.load() < 2) {
        std::this_thread::yield();
      }
    });
    std::sort(threads.begin(), threads.end());
    EXPECT_EQ(threads, (std::vector<std::size_t>{0, 1}));
  }
}

TEST(ThreadPool, WaitsForAWorkerThatIsSlow) {
  ThreadPool pool(2);
  std::atomic<bool> worker_started = false;
  bool worker_finished = false;
  const pid_t caller = gettid();
  pool.parallel_for(2, 1, [&](std::size_t, std::size_t, std::size_t thread) {
    if (thread == 0) {
      while (!worker_started.load()) {
        std::this_thread::yield();
      }
      return;
    }
    worker_started = true;
    await_asleep(caller);
    worker_finished = true;
  });
  EXPECT_TRUE(worker_finished);
}

TEST(ThreadPool, RunsOnTheCaller_WhenOneRangeIsEnough) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  std::thread::id runner;
  pool.parallel_for(10, 10, [&](std::size_t, std::size_t, std::size_t thread) {
    EXPECT_EQ(thread, 0u);
    runner = std::this_thread::get_id();
  });
  EXPECT_EQ(runner, caller);
}

TEST(ThreadPool, EndsAtOnce_AwakeOrAsleep) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    if (i % 5 == 0) {
      for (const pid_t worker : workers_of(pool)) await_asleep(worker);
    }
  }
}

// The processors that the calling thread may run on.
std::vector<std::int64_t> own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<std::int64_t> cpus;
  for (std::int64_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<std::vector<std::int64_t>> cpus_of_threads(ThreadPool& pool) {
  std::vector<std::vector<std::int64_t>> cpus(pool.n_threads());
  std::barrier all_here(static_cast<std::ptrdiff_t>(cpus.size()));  // a range for each thread
  pool.parallel_for(cpus.size(), 1, [&](std::size_t, std::size_t, std::size_t thread) {
    cpus[thread] = own_cpus();
    all_here.arrive_and_wait();
  });
  return cpus;
}

TEST(ThreadPool, BindsEachThreadToItsProcessor_WhenAsked) {
  // On a thread of its own, as the bond of the caller is not undone.
  std::thread([] {
    const std::vector<std::int64_t> allowed = own_cpus();
    const std::size_t n_threads = std::min<std::size_t>(allowed.size(), 3);
    // Last to first, to tell a bond from the order of a scheduler.
    const std::vector<std::int64_t> cpus(allowed.rbegin(),
                                         allowed.rbegin() + static_cast<std::ptrdiff_t>(n_threads));
    ThreadPool pool(n_threads, cpus);
    std::vector<std::vector<std::int64_t>> expected;
    for (const std::int64_t cpu : cpus) expected.push_back({cpu});
    expected.front() = allowed;
    EXPECT_EQ(cpus_of_threads(pool), expected);
    pool.pin_caller();
    expected.front() = {cpus.front()};
    EXPECT_EQ(cpus_of_threads(pool), expected);
  }).join();
}

TEST(ThreadPool, LeavesThreadsUnbound_WithoutProcessorsOrWithOneThatIsNotThere) {
  std::thread([] {
    const std::vector<std::int64_t> allowed = own_cpus();
    ThreadPool pool(2);
    pool.pin_caller();
    EXPECT_EQ(cpus_of_threads(pool), (std::vector(2, allowed)));
    ThreadPool elsewhere(2, {60000, 60000});
    elsewhere.pin_caller();
    EXPECT_EQ(cpus_of_threads(elsewhere), (std::vector(2, allowed)));
  }).join();
}

TEST(ThreadPool, ComputeThreadsAreWhatWasAskedFor_WithinReason) {
  EXPECT_EQ(compute_threads(0), usable_cores());
  EXPECT_EQ(compute_threads(1024), 1024U);
  EXPECT_THROW(compute_threads(1025), InvalidInput);
}

TEST(ThreadPool, RefusesNonsense) {
  EXPECT_THROW(ThreadPool(0), LogicError);
  EXPECT_THROW(ThreadPool(2, {0}), LogicError);
  ThreadPool pool(2);
  EXPECT_THROW(pool.parallel_for(3, 0, [](std::size_t, std::size_t, std::size_t) {}), LogicError);
}

}  // namespace
}  // namespace ft
