// A backend with its threads, and names for tests that run on every instruction set. Linked by
// tests only.
#pragma once

#include "kernels/kernels.h"

#include <string>

#include <gtest/gtest.h>

namespace ft::kernels {

/// Half the distance from 1 to the next f32: the relative error of one rounding.
inline constexpr double kUnitRoundoff = 0x1p-24;

struct TestBackend {
  TestBackend(Isa isa, std::size_t n_threads)
      : pool(n_threads), backend(make_cpu_backend(isa, pool)) {}
  ThreadPool pool;
  std::unique_ptr<Backend> backend;
};

inline std::string isa_test_name(const testing::TestParamInfo<Isa>& info) {
  return std::string(isa_name(info.param));
}

}  // namespace ft::kernels
