// Matrix products as a small mixture-of-experts model and a large one call them. Weights rotate
// through more memory than the caches hold unless a benchmark says otherwise. Arguments: rows,
// threads.
#include "base/buffer.h"
#include "kernels/kernels.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace ft::kernels {
namespace {

/// More than any cache share of one guest.
constexpr std::size_t kColdBytes = std::size_t{96} << 20;

/// One stored matrix of plausible weights and its scales.
class StoredBytes {
 public:
  StoredBytes(DType dtype, std::size_t n_rows, std::size_t n_cols)
      : bytes_(n_rows * n_cols * element_bytes(dtype)),
        scales_(((n_rows + 127) / 128) * ((n_cols + 127) / 128), 0.01f) {
    std::mt19937 rng(1);
    const std::size_t width = element_bytes(dtype);
    const std::size_t n = n_rows * n_cols;
    const std::size_t n_random = std::min<std::size_t>(n, 65536);
    for (std::size_t i = 0; i < n_random; ++i) {
      // A sign, a middling exponent, any mantissa.
      const auto r = static_cast<std::uint32_t>(rng());
      std::uint32_t bits = 0;
      switch (dtype) {
        case DType::kF32:
          bits = (r & 0x807FFFFFu) | 0x3C000000u;
          break;
        case DType::kBF16:
          bits = (r & 0x807Fu) | 0x3C00u;
          break;
        case DType::kF16:
          bits = (r & 0x83FFu) | 0x2400u;
          break;
        case DType::kF8E4M3:
          bits = (r & 0xBFu);
          break;
      }
      std::memcpy(bytes_.data() + i * width, &bits, width);
    }
    for (std::size_t i = n_random; i < n; i += n_random) {
      std::memcpy(bytes_.data() + i * width, bytes_.data(), std::min(n_random, n - i) * width);
    }
    matrix_ = {.dtype = dtype,
               .data = bytes_.data(),
               .n_rows = n_rows,
               .n_cols = n_cols,
               .row_stride = n_cols};
    if (dtype == DType::kF8E4M3) {
      matrix_.scales = reinterpret_cast<const std::byte*>(scales_.data());
      matrix_.block_rows = 128;
      matrix_.block_cols = 128;
      matrix_.scale_row_stride = (n_cols + 127) / 128;
    }
  }
  const StoredMatrix& matrix() const { return matrix_; }

 private:
  Buffer bytes_;
  std::vector<float> scales_;
  StoredMatrix matrix_;
};

struct Packed {
  Buffer bytes;
  Weight weight;
};

Packed pack_plain(const Backend& backend, const StoredMatrix& matrix) {
  Packed packed;
  packed.bytes = Buffer(backend.packed_bytes({&matrix, 1}));
  packed.weight = backend.pack({&matrix, 1}, {packed.bytes.data(), packed.bytes.size()});
  return packed;
}

Packed pack_pair(const Backend& backend, const StoredMatrix& gate, const StoredMatrix& up) {
  Packed packed;
  packed.bytes = Buffer(backend.packed_gate_up_bytes(gate, up));
  packed.weight = backend.pack_gate_up(gate, up, {packed.bytes.data(), packed.bytes.size()});
  return packed;
}

std::vector<float> inputs(std::size_t n) {
  std::mt19937 rng(2);
  std::vector<float> x(n);
  for (float& value : x) {
    value = static_cast<float>(rng()) * 0x1p-31f - 1;
  }
  return x;
}

/// Independent products of one call, each with its own output.
struct Call {
  std::vector<MatmulOp> products;
  std::vector<SwigluOp> gated;
  std::size_t weight_bytes = 0;

  void run(Backend& backend) const {
    if (!products.empty()) {
      backend.matmul(products);
    }
    if (!gated.empty()) {
      backend.swiglu(gated);
    }
  }
};

/// A machine for building calls over packed weights that it keeps.
class Workload {
 public:
  Workload(Isa isa, std::size_t n_threads, std::size_t n_rows)
      : pool_(n_threads),
        backend_(make_cpu_backend(isa, pool_)),
        n_rows_(n_rows),
        x_(inputs(n_rows * 16384)) {}

  Backend& backend() { return *backend_; }

  void add_product(Call& call, DType dtype, std::size_t n_out, std::size_t n_in) {
    const StoredBytes stored(dtype, n_out, n_in);
    packed_.push_back(std::make_unique<Packed>(pack_plain(*backend_, stored.matrix())));
    const Weight& weight = packed_.back()->weight;
    call.products.push_back(
        {.y = output(n_out), .x = {x_.data(), n_rows_, n_in, n_in}, .weight = &weight});
    call.weight_bytes += packed_.back()->bytes.size();
  }
  void add_gated(Call& call, DType dtype, std::size_t n_hidden, std::size_t n_in) {
    const StoredBytes stored(dtype, n_hidden, n_in);
    packed_.push_back(
        std::make_unique<Packed>(pack_pair(*backend_, stored.matrix(), stored.matrix())));
    const Weight& weight = packed_.back()->weight;
    call.gated.push_back(
        {.y = output(n_hidden), .x = {x_.data(), n_rows_, n_in, n_in}, .weight = &weight});
    call.weight_bytes += packed_.back()->bytes.size();
  }

 private:
  MutableMatrix output(std::size_t n_out) {
    outputs_.push_back(std::make_unique<std::vector<float>>(n_rows_ * n_out));
    return {outputs_.back()->data(), n_rows_, n_out, n_out};
  }

  ThreadPool pool_;
  std::unique_ptr<Backend> backend_;
  std::size_t n_rows_;
  std::vector<float> x_;
  std::vector<std::unique_ptr<Packed>> packed_;
  std::vector<std::unique_ptr<std::vector<float>>> outputs_;
};

void set_counters(benchmark::State& state, double bytes, double multiply_adds) {
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(bytes * iterations * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2 * multiply_adds * iterations * 1e-9, benchmark::Counter::kIsRate);
}

enum class Caches { kCold, kWarm };

/// One matrix; warm means that one copy is used again and again.
void product(benchmark::State& state,
             Isa isa,
             DType dtype,
             std::size_t n_out,
             std::size_t n_in,
             Caches caches) {
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  Workload workload(isa, static_cast<std::size_t>(state.range(1)), n_rows);
  std::vector<Call> calls;
  std::size_t bytes = 0;
  do {
    calls.emplace_back();
    workload.add_product(calls.back(), dtype, n_out, n_in);
    bytes += calls.back().weight_bytes;
  } while (caches == Caches::kCold && bytes < kColdBytes && calls.size() < 200);
  std::size_t i = 0;
  for (auto _ : state) {
    calls[i].run(workload.backend());
    i = i + 1 == calls.size() ? 0 : i + 1;
  }
  set_counters(state,
               static_cast<double>(calls[0].weight_bytes),
               static_cast<double>(n_rows * n_out * n_in));
}

/// The products of one token of a model of ten million parameters, four of 32 experts active, as
/// its layers call them.
void small_model_token(benchmark::State& state, Isa isa) {
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  Workload workload(isa, static_cast<std::size_t>(state.range(1)), n_rows);
  constexpr std::size_t kModels = 4;  // rotated, so that nothing is warm
  constexpr DType kWeights = DType::kF8E4M3;
  std::vector<std::vector<Call>> models(kModels);
  std::size_t bytes = 0;
  for (std::vector<Call>& calls : models) {
    for (std::size_t layer = 0; layer < 8; ++layer) {
      const bool has_indexer = layer < 3 || layer == 6;
      Call& down_projections = calls.emplace_back();
      workload.add_product(down_projections, kWeights, 128, 256);
      workload.add_product(down_projections, kWeights, 192, 256);
      if (has_indexer) {
        workload.add_product(down_projections, kWeights, 128, 256);
        workload.add_product(down_projections, DType::kBF16, 8, 256);
      }
      Call& queries = calls.emplace_back();
      workload.add_product(queries, kWeights, 1024, 128);
      if (has_indexer) {
        workload.add_product(queries, kWeights, 1024, 128);
      }
      Call& absorb = calls.emplace_back();
      Call& values = calls.emplace_back();
      for (int head = 0; head < 8; ++head) {
        workload.add_product(calls[calls.size() - 2], kWeights, 128, 64);
        workload.add_product(values, kWeights, 64, 128);
      }
      static_cast<void>(absorb);
      workload.add_product(calls.emplace_back(), kWeights, 256, 512);
      if (layer == 0) {
        workload.add_gated(calls.emplace_back(), kWeights, 768, 256);
        workload.add_product(calls.emplace_back(), kWeights, 256, 768);
        continue;
      }
      workload.add_product(calls.emplace_back(), DType::kBF16, 32, 256);
      Call& gated = calls.emplace_back();
      for (int expert = 0; expert < 5; ++expert) {
        workload.add_gated(gated, kWeights, 96, 256);
      }
      Call& down = calls.emplace_back();
      for (int expert = 0; expert < 5; ++expert) {
        workload.add_product(down, kWeights, 256, 96);
      }
    }
    workload.add_product(calls.emplace_back(), DType::kBF16, 6144, 256);
  }
  for (const Call& call : models[0]) {
    bytes += call.weight_bytes;
  }
  std::size_t i = 0;
  for (auto _ : state) {
    for (const Call& call : models[i]) {
      call.run(workload.backend());
    }
    i = (i + 1) % kModels;
  }
  state.counters["calls"] = static_cast<double>(models[0].size());
  set_counters(state, static_cast<double>(bytes), 0);
}

/// Half a gibibyte of weights in matrices of a large model.
void stream(benchmark::State& state, Isa isa, DType dtype) {
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  Workload workload(isa, static_cast<std::size_t>(state.range(1)), n_rows);
  Call call;
  const std::size_t n_in = 4096;
  const std::size_t n_out = (std::size_t{1} << 29) / 8 / n_in / element_bytes(dtype);
  for (int i = 0; i < 8; ++i) {
    workload.add_product(call, dtype, n_out, n_in);
  }
  for (auto _ : state) {
    call.run(workload.backend());
  }
  set_counters(state,
               static_cast<double>(call.weight_bytes),
               static_cast<double>(8 * n_rows * n_out * n_in));
}

/// Reading memory alone, for comparison.
void read_memory(benchmark::State& state) {
  ThreadPool pool(static_cast<std::size_t>(state.range(0)));
  const std::size_t n = std::size_t{1} << 27;
  Buffer buffer(n * sizeof(std::uint64_t));
  std::memset(buffer.data(), 1, buffer.size());
  const std::span<const std::uint64_t> words = buffer.as<std::uint64_t>(n);
  for (auto _ : state) {
    pool.parallel_for(n, n / 256, [&](std::size_t begin, std::size_t end, std::size_t) {
      std::uint64_t sums[8] = {};
      for (std::size_t i = begin; i < end; i += 8) {
        for (std::size_t j = 0; j < 8; ++j) {
          sums[j] += words[i + j];
        }
      }
      benchmark::DoNotOptimize(sums);
    });
  }
  set_counters(state, static_cast<double>(buffer.size()), 0);
}

/// Packing cold fp8 matrices, expert-sized, into fresh but touched memory.
void pack_speed(benchmark::State& state, Isa isa, bool is_transposed) {
  ThreadPool pool(1);
  const auto backend = make_cpu_backend(isa, pool);
  const StoredBytes stored(DType::kF8E4M3, 1024, 128);
  const StoredMatrix matrix = is_transposed ? stored.matrix().transposed() : stored.matrix();
  Buffer to(backend->packed_bytes({&matrix, 1}));
  for (auto _ : state) {
    benchmark::DoNotOptimize(backend->pack({&matrix, 1}, {to.data(), to.size()}));
  }
  set_counters(state, 1024 * 128, 0);
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

void add_products(const std::string& prefix, Isa isa, DType dtype) {
  const std::pair<std::size_t, std::size_t> shapes[] = {
      {128, 256}, {1024, 128}, {256, 96}, {256, 512}, {6144, 256}, {2048, 2048}};
  for (const auto& [n_out, n_in] : shapes) {
    const std::string name =
        std::string(dtype_name(dtype)) + "/" + std::to_string(n_out) + "x" + std::to_string(n_in);
    add(prefix + "/cold/" + name, product, isa, dtype, n_out, n_in, Caches::kCold)
        ->ArgsProduct({{1, 4}, {1, 2}});
    add(prefix + "/warm/" + name, product, isa, dtype, n_out, n_in, Caches::kWarm)
        ->ArgsProduct({{1, 2, 4, 6, 8, 12, 16, 64, 512}, {1, 2}});
  }
}

const bool kRegistered = [] {
  add("read_memory", read_memory)->Arg(1)->Arg(2);
  for (const Isa isa : usable_isas()) {
    if (isa == Isa::kRef) {
      continue;
    }
    const std::string prefix(isa_name(isa));
    add(prefix + "/small_model_token", small_model_token, isa)
        ->ArgsProduct({{1, 2, 3, 4, 6, 8}, {1, 2}});
    for (const DType dtype : {DType::kF8E4M3, DType::kBF16, DType::kF16, DType::kF32}) {
      add(prefix + "/stream/" + std::string(dtype_name(dtype)), stream, isa, dtype)
          ->ArgsProduct({{1, 2, 4, 8}, {1, 2}});
      add_products(prefix, isa, dtype);
    }
    add(prefix + "/pack/rows", pack_speed, isa, false);
    add(prefix + "/pack/transposed", pack_speed, isa, true);
  }
  return true;
}();

}  // namespace
}  // namespace ft::kernels
