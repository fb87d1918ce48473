#include "kernels/probe.h"

#include "base/error.h"
#include "kernels/cpu/probe_kernels.h"

#include <algorithm>
#include <atomic>

namespace ft::kernels {
namespace {

/// Long enough that claiming a piece costs nothing, short enough that threads finish together.
constexpr std::size_t kReadGrain = std::size_t{1} << 20;  // floats
constexpr std::size_t kRoundsPerItem = 20'000;            // about 50 us

const ProbeKernels& kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kRef:
      return ref::kProbeKernels;
    case Isa::kNeon:
#ifdef FT_HAS_NEON
      return neon::probe_kernels();
#else
      break;
#endif
    case Isa::kAvx2:
#ifdef FT_HAS_AVX2
      return avx2::probe_kernels();
#else
      break;
#endif
    case Isa::kAvx512:
#ifdef FT_HAS_AVX512
      return avx512::probe_kernels();
#else
      break;
#endif
  }
  fail("kernels: instruction set '{}' is not part of this build", isa_name(isa));
}

double seconds(std::int64_t us) {
  return static_cast<double>(std::max<std::int64_t>(1, us)) * 1e-6;
}

}  // namespace

Probe::Probe(Isa isa, ThreadPool& pool, const Clock& clock)
    : kernels_(kernels_of(isa)), pool_(pool), clock_(clock) {}

double Probe::read_bytes_per_s(std::span<const float> buffer, std::size_t n_passes) const {
  const std::size_t n = buffer.size() / 256 * 256;
  std::atomic<float> sink = 0;  // a sum that nobody takes would not be computed
  double best = 0;
  for (std::size_t pass = 0; pass < n_passes; ++pass) {
    const std::int64_t start_us = clock_.now_us();
    pool_.parallel_for(n, kReadGrain, [&](std::size_t begin, std::size_t end, std::size_t) {
      sink.store(kernels_.read(buffer.data() + begin, end - begin), std::memory_order_relaxed);
    });
    const double bytes = static_cast<double>(n * sizeof(float));
    best = std::max(best, bytes / seconds(clock_.now_us() - start_us));
  }
  return best;
}

template <typename Run>
double Probe::ops_per_s(std::size_t n_threads,
                        std::size_t ops_per_round,
                        std::size_t budget_us,
                        const Run& run) const {
  const std::int64_t start_us = clock_.now_us();
  std::size_t n_items = 0;
  std::int64_t used_us = 0;
  do {
    // Many items per call, so that a thread that starts late or is held up does not decide alone.
    const std::size_t n = n_threads * 32;
    if (n_threads == 1) {
      for (std::size_t i = 0; i < n; ++i) run();
    } else {
      pool_.parallel_for(n, 1, [&](std::size_t, std::size_t, std::size_t) { run(); });
    }
    n_items += n;
    used_us = clock_.now_us() - start_us;
  } while (used_us < static_cast<std::int64_t>(budget_us));
  return static_cast<double>(n_items * kRoundsPerItem * ops_per_round) / seconds(used_us);
}

double Probe::f32_ops_per_s(std::size_t n_threads, std::size_t budget_us) const {
  FT_CHECK(n_threads == 1 || n_threads == pool_.n_threads());
  std::atomic<float> sink = 0;
  return ops_per_s(n_threads, kernels_.multiply_add_ops, budget_us, [&] {
    sink.store(kernels_.multiply_add(kRoundsPerItem, 0.75F), std::memory_order_relaxed);
  });
}

double Probe::int8_ops_per_s(std::size_t budget_us) const {
  if (kernels_.multiply_add_int8 == nullptr) return 0;
  std::atomic<std::int32_t> sink = 0;
  return ops_per_s(pool_.n_threads(), kernels_.multiply_add_int8_ops, budget_us, [&] {
    sink.store(kernels_.multiply_add_int8(kRoundsPerItem, 0x01020304), std::memory_order_relaxed);
  });
}

}  // namespace ft::kernels
