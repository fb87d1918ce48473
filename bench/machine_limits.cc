#include "machine_limits.h"

#include <chrono>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ft {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr std::size_t kStretch = std::size_t{1} << 20;
constexpr std::size_t kSums = 24;  // as many as hide the latency of an instruction

std::uint64_t read_plainly(const std::byte* from, std::size_t n) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(from);
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= n / sizeof(std::uint64_t); i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      sums[j] += words[i + j];
    }
  }
  return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
}

[[gnu::target("avx512f")]] std::uint64_t read_avx512(const std::byte* from, std::size_t n) {
  __m512i sums[4] = {};
  for (std::size_t i = 0; i + 256 <= n; i += 256) {
    for (std::size_t j = 0; j < 4; ++j) {
      _mm_prefetch(reinterpret_cast<const char*>(from + i + 64 * j + 4096), _MM_HINT_T0);
      sums[j] = _mm512_add_epi64(sums[j], _mm512_loadu_si512(from + i + 64 * j));
    }
  }
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(
      _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]))));
}

/// Ten milliseconds: as likely to be interrupted as what is measured beside it.
constexpr std::size_t kRounds = 2500000;

/// One instruction on each of kSums registers, written out so that they stay in registers.
#define FT_SPIN(op)                                                                               \
  asm volatile(op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12)   \
                   op(13) op(14) op(15) op(16) op(17) op(18) op(19) op(20) op(21) op(22) op(23):: \
                       : "xmm0",                                                                  \
                         "xmm1",                                                                  \
                         "xmm2",                                                                  \
                         "xmm3",                                                                  \
                         "xmm4",                                                                  \
                         "xmm5",                                                                  \
                         "xmm6",                                                                  \
                         "xmm7",                                                                  \
                         "xmm8",                                                                  \
                         "xmm9",                                                                  \
                         "xmm10",                                                                 \
                         "xmm11",                                                                 \
                         "xmm12",                                                                 \
                         "xmm13",                                                                 \
                         "xmm14",                                                                 \
                         "xmm15",                                                                 \
                         "xmm16",                                                                 \
                         "xmm17",                                                                 \
                         "xmm18",                                                                 \
                         "xmm19",                                                                 \
                         "xmm20",                                                                 \
                         "xmm21",                                                                 \
                         "xmm22",                                                                 \
                         "xmm23")
#define FT_DOT(i) "vpdpbusd %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"
#define FT_FMA(i) "vfmadd231ps %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"
#define FT_CLEAR(i) "vpxorq %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"

[[gnu::target("avx512f,avx512vnni")]] void spin_int8_avx512() {
  FT_SPIN(FT_CLEAR);
  for (std::size_t round = 0; round < kRounds; ++round) {
    FT_SPIN(FT_DOT);
  }
}
[[gnu::target("avx512f")]] void spin_f32_avx512() {
  FT_SPIN(FT_CLEAR);
  for (std::size_t round = 0; round < kRounds; ++round) {
    FT_SPIN(FT_FMA);
  }
}
#endif

double rate(ThreadPool& pool, void (*spin)(), double multiply_adds) {
  const Clock::time_point start = Clock::now();
  pool.parallel_for(pool.n_threads(), 1, [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t i = begin; i < end; ++i) {
      spin();
    }
  });
  return multiply_adds * static_cast<double>(pool.n_threads()) / seconds_since(start);
}

}  // namespace

double read_seconds(ThreadPool& pool, std::span<const std::byte> bytes) {
  auto read = read_plainly;
#if defined(__x86_64__)
  read = has_avx512() ? read_avx512 : read;
#endif
  const Clock::time_point start = Clock::now();
  pool.parallel_for(
      bytes.size() / kStretch, 1, [&](std::size_t begin, std::size_t end, std::size_t) {
        benchmark::DoNotOptimize(read(bytes.data() + begin * kStretch, (end - begin) * kStretch));
      });
  return seconds_since(start);
}

double int8_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  if (has_avx512()) {
    return rate(pool, spin_int8_avx512, double(kRounds * kSums) * 64);
  }
#endif
  return 0;
}

double f32_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  if (has_avx512()) {
    return rate(pool, spin_f32_avx512, double(kRounds * kSums) * 16);
  }
#endif
  return 0;
}

}  // namespace ft
