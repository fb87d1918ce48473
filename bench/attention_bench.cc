// Attention, indexer, selection and row verbs as a small mixture-of-experts model and a large one
// call them, at full context. Arguments: rows, threads.
#include "base/buffer.h"
#include "kernels/kernels.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

namespace ft::kernels {
namespace {

/// n floats in [-1, 1) on cache lines of their own, as the cache and the workspace hold them.
class Floats {
 public:
  explicit Floats(std::size_t n) : n_(n), bytes_(n * sizeof(float)) {
    std::mt19937 rng(1);
    for (float& value : bytes_.as<float>(n)) {
      value = static_cast<float>(rng()) * 0x1p-31f - 1;
    }
  }
  float* data() { return bytes_.as<float>(n_).data(); }
  MutableMatrix rows(std::size_t n_rows) { return {data(), n_rows, n_ / n_rows, n_ / n_rows}; }
  std::span<float> span() { return bytes_.as<float>(n_); }

 private:
  std::size_t n_;
  Buffer bytes_;
};

/// Cache rows of either type.
class Keys {
 public:
  Keys(std::size_t n, DType dtype) : bytes_(n * element_bytes(dtype)) {
    Floats floats(n);
    convert_from_float(dtype, floats.span(), {bytes_.data(), bytes_.size()});
  }
  const void* data() const { return bytes_.data(); }

 private:
  Buffer bytes_;
};

void set_counters(benchmark::State& state, double bytes, double multiply_adds) {
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(bytes * iterations * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2 * multiply_adds * iterations * 1e-9, benchmark::Counter::kIsRate);
}

struct Threads {
  Threads(const benchmark::State& state, Isa isa)
      : pool(static_cast<std::size_t>(state.range(1))), backend(make_cpu_backend(isa, pool)) {}
  ThreadPool pool;
  std::unique_ptr<Backend> backend;
};

struct AttendShape {
  std::size_t n_heads;
  std::size_t latent_dim;
  std::size_t key_dim;
  std::size_t n_keys;
  std::size_t n_cached;  // more than n_keys: each row gathers its own keys from so many
};
constexpr AttendShape kSmall = {8, 128, 192, 256, 256};
constexpr AttendShape kSmallGathered = {8, 128, 192, 256, 4096};
constexpr AttendShape kLarge = {64, 512, 576, 2048, 16384};

void attend(benchmark::State& state, Isa isa, AttendShape shape, DType dtype) {
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  Threads threads(state, isa);
  Keys cache(shape.n_cached * shape.key_dim, dtype);
  Floats q(n_rows * shape.n_heads * shape.key_dim);
  Floats z(n_rows * shape.n_heads * shape.latent_dim);
  std::mt19937 rng(2);
  std::vector<std::vector<std::int32_t>> positions(n_rows);
  std::vector<KeySet> sets;
  for (std::vector<std::int32_t>& row : positions) {
    if (shape.n_cached > shape.n_keys) {
      row.resize(shape.n_cached);
      std::iota(row.begin(), row.end(), 0);
      std::shuffle(row.begin(), row.end(), rng);
      row.resize(shape.n_keys);
      std::sort(row.begin(), row.end());
    }
    sets.push_back({cache.data(), row.empty() ? nullptr : row.data(), shape.n_keys, dtype});
  }
  const AttentionArgs args = {.q = q.rows(n_rows),
                              .sets = sets,
                              .n_heads = shape.n_heads,
                              .key_dim = shape.key_dim,
                              .latent_dim = shape.latent_dim,
                              .scale = 1 / std::sqrt(static_cast<float>(shape.key_dim)),
                              .z = z.rows(n_rows)};
  while (state.KeepRunning()) {
    threads.backend->attend(args);
  }
  const std::size_t n_pairs = n_rows * shape.n_keys;
  set_counters(state,
               static_cast<double>(n_pairs * shape.key_dim * element_bytes(dtype)),
               static_cast<double>(n_pairs * shape.n_heads * (shape.key_dim + shape.latent_dim)));
}

void index_scores(
    benchmark::State& state, Isa isa, std::size_t n_heads, std::size_t n_keys, DType dtype) {
  constexpr std::size_t kDim = 128;
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  Threads threads(state, isa);
  Keys keys(n_keys * kDim, dtype);
  Floats q(n_rows * n_heads * kDim);
  Floats gate(n_rows * n_heads);
  Floats scores(n_rows * n_keys);
  const std::vector<KeySet> sets(n_rows, {keys.data(), nullptr, n_keys, dtype});
  while (state.KeepRunning()) {
    threads.backend->index_scores({.q = q.rows(n_rows),
                                   .gate = gate.rows(n_rows),
                                   .sets = sets,
                                   .n_heads = n_heads,
                                   .head_dim = kDim,
                                   .scale = 0.1f,
                                   .scores = scores.rows(n_rows)});
  }
  const std::size_t n_pairs = n_rows * n_keys;
  set_counters(state,
               static_cast<double>(n_pairs * kDim * element_bytes(dtype)),
               static_cast<double>(n_pairs * n_heads * kDim));
}

enum class Scores { kSpread, kHalfZero, kEqual };

void top_k(benchmark::State& state, Isa isa, std::size_t n, std::size_t k, Scores kind) {
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  Threads threads(state, isa);
  Floats scores(n_rows * n);
  for (float& score : scores.span()) {
    score = kind == Scores::kEqual                      ? 0
            : kind == Scores::kHalfZero && score < 0.9f ? 0
                                                        : score * score * score;
  }
  const std::vector<std::size_t> lengths(n_rows, n);
  std::vector<std::int32_t> positions(n_rows * k);
  while (state.KeepRunning()) {
    threads.backend->top_k(
        {.scores = scores.rows(n_rows), .n = lengths, .k = k, .positions = positions.data()});
  }
  set_counters(state, static_cast<double>(n_rows * n * sizeof(float)), 0);
}

void rms_norm(benchmark::State& state, Isa isa, std::size_t n) {
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  Threads threads(state, isa);
  Floats x(n_rows * n);
  Floats y(n_rows * n);
  Floats weight(n);
  while (state.KeepRunning()) {
    threads.backend->rms_norm(y.rows(n_rows), x.rows(n_rows), weight.span(), 1e-5f);
  }
  set_counters(state, static_cast<double>(n_rows * n * sizeof(float) * 2), 0);
}

void moe_combine(benchmark::State& state, Isa isa, std::size_t n) {
  constexpr std::size_t kRanks = 8;
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  Threads threads(state, isa);
  Floats out(n_rows * kRanks * n);
  Floats weights(n_rows * kRanks);
  Floats shared(n_rows * n);
  Floats x(n_rows * n);
  std::vector<std::uint32_t> slots(n_rows * kRanks);
  std::iota(slots.begin(), slots.end(), 0u);
  while (state.KeepRunning()) {
    std::fill(x.span().begin(), x.span().end(), 0.0f);  // else it grows without limit
    threads.backend->moe_combine({.expert_out = out.rows(n_rows * kRanks),
                                  .slots = slots,
                                  .weights = weights.rows(n_rows),
                                  .shared = shared.rows(n_rows),
                                  .x = x.rows(n_rows)});
  }
  set_counters(state, static_cast<double>(n_rows * n * sizeof(float) * (kRanks + 3)), 0);
}

/// The fastest repetition: what is left when other guests of the machine pause.
double fastest(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

benchmark::internal::Benchmark* add(const std::string& name, auto function, auto... args) {
  return benchmark::RegisterBenchmark(name.c_str(), function, args...)
      ->UseRealTime()
      ->ComputeStatistics("min", fastest)
      ->Unit(benchmark::kMicrosecond);
}

void add_isa(Isa isa) {
  const std::string prefix(isa_name(isa));
  for (const auto& [kv, dtype] : {std::pair("f32", DType::kF32), std::pair("bf16", DType::kBF16)}) {
    const std::string attend_name = fmt::format("{}/attend/{}", prefix, kv);
    add(attend_name + "/small", attend, isa, kSmall, dtype)
        ->ArgsProduct({{1, 2, 4, 8, 512}, {1, 2}});
    add(attend_name + "/small_gathered", attend, isa, kSmallGathered, dtype)
        ->ArgsProduct({{1, 4, 64}, {1, 2}});
    add(attend_name + "/large", attend, isa, kLarge, dtype)->ArgsProduct({{1, 4}, {1, 2}});
    const std::string scores_name = fmt::format("{}/index_scores/{}", prefix, kv);
    add(scores_name + "/small", index_scores, isa, 8, 1024, dtype)
        ->ArgsProduct({{1, 4, 512}, {1, 2}});
    add(scores_name + "/large", index_scores, isa, 32, 16384, dtype)->ArgsProduct({{1, 4}, {1, 2}});
  }
  const std::pair<const char*, Scores> kinds[] = {
      {"spread", Scores::kSpread}, {"half_zero", Scores::kHalfZero}, {"equal", Scores::kEqual}};
  for (const auto& [name, kind] : kinds) {
    for (const auto& [n, k] :
         {std::pair(1000, 256), std::pair(4096, 2048), std::pair(131072, 2048)}) {
      add(fmt::format("{}/top_k/{}/{}", prefix, n, name), top_k, isa, n, k, kind)
          ->ArgsProduct({{1}, {1}});
    }
  }
  for (const std::size_t n : {256u, 6144u}) {
    add(fmt::format("{}/rms_norm/{}", prefix, n), rms_norm, isa, n)
        ->ArgsProduct({{1, 4, 512}, {1, 2}});
    add(fmt::format("{}/moe_combine/{}", prefix, n), moe_combine, isa, n)
        ->ArgsProduct({{1, 4, 512}, {1, 2}});
  }
}

const bool kRegistered = [] {
  for (const Isa isa : usable_isas()) {
    add_isa(isa);
  }
  return true;
}();

}  // namespace
}  // namespace ft::kernels
