#include "kernels/cpu/linear_schedule.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

constexpr std::size_t kMin = 100;
constexpr std::size_t kMax = 2000;

TEST(LinearSchedule_Items, CoverEveryStepOnceInOrder) {
  std::mt19937 rng(1);
  for (int trial = 0; trial < 500; ++trial) {
    LinearSchedule schedule;
    std::vector<std::size_t> n_steps(rng() % LinearSchedule::kMaxOps + 1);
    for (std::size_t& n : n_steps) {
      n = rng() % 4 == 0 ? 0 : rng() % 300;
      schedule.add(n, rng() % 50);
    }
    schedule.cut(1 + rng() % 9, kMin, kMax);
    std::vector<std::size_t> next(n_steps.size(), 0);
    std::size_t last_op = 0;
    for (std::size_t item = 0; item < schedule.n_items();) {
      const std::size_t end = std::min<std::size_t>(schedule.n_items(), item + 1 + rng() % 3);
      schedule.for_steps(item, end, [&](std::size_t op, std::size_t first, std::size_t last) {
        EXPECT_GE(op, last_op);
        EXPECT_EQ(first, next[op]);
        EXPECT_LT(first, last);
        next[op] = last;
        last_op = op;
      });
      item = end;
    }
    EXPECT_EQ(next, n_steps);
  }
}

/// Time until the last of n_threads has finished, if each takes the next item when it is free and
/// thread i > 0 starts `late` after the first.
double makespan(const LinearSchedule& schedule,
                std::size_t step_cost,
                std::size_t n_threads,
                double late) {
  std::vector<double> free_at(n_threads, late);
  free_at[0] = 0;
  for (std::size_t item = 0; item < schedule.n_items(); ++item) {
    auto& thread = *std::min_element(free_at.begin(), free_at.end());
    schedule.for_steps(item, item + 1, [&](std::size_t, std::size_t first, std::size_t last) {
      thread += static_cast<double>((last - first) * step_cost);
    });
  }
  return *std::max_element(free_at.begin(), free_at.end());
}

TEST(LinearSchedule_Items, LetThreadsFinishTogether) {
  for (const std::size_t n_threads : {std::size_t{2}, std::size_t{3}, std::size_t{8}}) {
    for (const std::size_t total : {std::size_t{3000}, std::size_t{20000}, std::size_t{1000000}}) {
      for (const double late : {0.0, 0.05, 0.2}) {
        constexpr std::size_t kStep = 20;
        LinearSchedule schedule;
        schedule.add(total / kStep, kStep);
        schedule.cut(n_threads, kMin, kMax);
        const double delay = late * static_cast<double>(total) / static_cast<double>(n_threads);
        const auto threads = static_cast<double>(n_threads);
        const double ideal = (static_cast<double>(total) + delay * (threads - 1)) / threads;
        EXPECT_LE(makespan(schedule, kStep, n_threads, delay), ideal + 1.6 * kMin)
            << n_threads << " threads, total " << total << ", late " << late;
      }
    }
  }
}

TEST(LinearSchedule_Items, AreHalvesOfAShortLineForTwoThreads) {
  LinearSchedule schedule;
  schedule.add(30, 20);
  schedule.add(9, 100);
  schedule.cut(2, kMin, kMax);
  ASSERT_EQ(schedule.n_items(), 2u);
  for (std::size_t item = 0; item < 2; ++item) {
    std::size_t cost = 0;
    schedule.for_steps(item, item + 1, [&](std::size_t op, std::size_t first, std::size_t last) {
      cost += (last - first) * (op == 0 ? 20 : 100);
    });
    EXPECT_NEAR(static_cast<double>(cost), 750, 100);
  }
}

TEST(LinearSchedule_Items, AreOneForOneThreadAndNoneForNothing) {
  LinearSchedule schedule;
  schedule.add(1000, 50);
  schedule.cut(1, kMin, kMax);
  EXPECT_EQ(schedule.n_items(), 1u);
  LinearSchedule empty;
  empty.add(0, 50);
  empty.cut(4, kMin, kMax);
  EXPECT_EQ(empty.n_items(), 0u);
}

}  // namespace
}  // namespace ft::kernels
