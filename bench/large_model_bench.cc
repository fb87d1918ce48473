// Products of a large model against what the machine can do, measured in turns with them: every
// iteration first takes the limit, then runs the kernel, and `of_limit` is the median of the
// ratios. Arguments: rows, threads.
#include "base/buffer.h"
#include "base/clock.h"
#include "kernels/kernels.h"
#include "kernels/probe.h"
#include "tensor/formats/quantized_matrix.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace ft::kernels {
namespace {

using Timer = std::chrono::steady_clock;

/// As likely to be interrupted as what is measured beside it.
constexpr std::size_t kPeakUs = 10'000;

/// How the weights of a case are stored and used.
struct Kind {
  const char* name;
  DType dtype;     // of packed weights
  int quant = -1;  // or a QuantFormat
  Activation activation = Activation::kFloat;
};
constexpr Kind kKinds[] = {{"q8", DType::kF32, 0, Activation::kInt8},
                           {"q4", DType::kF32, 1, Activation::kInt8},
                           {"q8_float", DType::kF32, 0},
                           {"q4_float", DType::kF32, 1},
                           {"bf16", DType::kBF16},
                           {"fp8", DType::kF8E4M3}};

/// Bytes that look like weights: no NaN codes, and exponents for sums that stay normal, which costs
/// far less than subnormal ones.
void fill(Buffer& buffer, bool is_bf16) {
  constexpr std::size_t kPeriod = std::size_t{1} << 20;
  std::mt19937 rng(1);
  const std::size_t n = std::min(kPeriod, buffer.size());
  for (std::size_t i = 0; i < n; ++i) {
    const auto r = static_cast<unsigned>(rng());
    buffer.data()[i] =
        static_cast<std::byte>(is_bf16 && i % 2 == 1 ? (r & 0x80u) | 0x3Cu : r & 0xBBu);
  }
  for (std::size_t i = n; i < buffer.size(); i += n) {
    std::memcpy(buffer.data() + i, buffer.data(), std::min(n, buffer.size() - i));
  }
}

/// bf16 values about 0.01.
void fill_scales(std::span<std::byte> scales) {
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = static_cast<std::byte>(i % 2 == 0 ? i * 37 : 0x3C);
  }
}

/// Matrices of one shape, at least so many bytes of them, touched.
class Weights {
 public:
  Weights(const Backend& backend,
          const Kind& kind,
          std::size_t n_out,
          std::size_t n_in,
          std::size_t n_bytes) {
    QuantMatrix quant;
    quant.format = kind.quant == 1 ? QuantFormat::kQ4 : QuantFormat::kQ8;
    quant.n_rows = n_out;
    quant.n_cols = n_in;
    StoredMatrix stored = {
        .dtype = kind.dtype, .n_rows = n_out, .n_cols = n_in, .row_stride = n_in};
    const bool is_quant = kind.quant >= 0;
    Buffer source(is_quant ? 0 : n_out * n_in * element_bytes(kind.dtype));
    if (!is_quant) {
      fill(source, kind.dtype == DType::kBF16);
      stored.data = source.data();
    }
    const std::size_t codes = quant.code_bytes();
    each_ = is_quant ? codes + quant.scale_bytes() : backend.packed_bytes({&stored, 1});
    const std::size_t n = std::max<std::size_t>(1, (n_bytes + each_ - 1) / each_);
    bytes_ = Buffer(n * each_);
    if (is_quant) {
      fill(bytes_, false);
    }
    for (std::size_t i = 0; i < n; ++i) {
      std::byte* at = bytes_.data() + i * each_;
      if (is_quant) {
        quant.codes = at;
        quant.scales = at + codes;
        fill_scales({at + codes, quant.scale_bytes()});
        weights_.push_back(backend.view(quant, kind.activation));
      } else {
        weights_.push_back(backend.pack({&stored, 1}, {at, each_}));
      }
    }
  }

  std::span<const Weight> all() const { return weights_; }
  std::span<const std::byte> bytes() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::size_t each_ = 0;
  Buffer bytes_;
  std::vector<Weight> weights_;
};

/// One at a time: a few gibibytes that take seconds to touch, kept for the cases that follow.
const Weights& weights_of(const Backend& backend,
                          const Kind& kind,
                          std::size_t n_out,
                          std::size_t n_in,
                          std::size_t n_bytes) {
  static std::string held;
  static std::unique_ptr<Weights> weights;
  const std::string key = std::string(backend.name()) + kind.name + std::to_string(n_out) + "x" +
                          std::to_string(n_in) + ":" + std::to_string(n_bytes);
  if (held != key) {
    weights.reset();
    weights = std::make_unique<Weights>(backend, kind, n_out, n_in, n_bytes);
    held = key;
  }
  return *weights;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Runs the call in turns with `limit`, which returns the seconds the call would take at best.
template <typename Limit>
void measure(benchmark::State& state,
             Backend& backend,
             std::span<const MatmulOp> ops,
             const Limit& limit) {
  backend.matmul(ops);
  std::vector<double> shares;
  for (auto _ : state) {
    const double before = limit();
    const Timer::time_point start = Timer::now();
    backend.matmul(ops);
    const double seconds = std::chrono::duration<double>(Timer::now() - start).count();
    state.SetIterationTime(seconds);
    shares.push_back((before + limit()) / 2 / seconds);
  }
  state.counters["of_limit"] = median(shares);
}

struct Operands {
  std::vector<float> x;
  std::vector<float> y;
  std::vector<MatmulOp> ops;

  Operands(std::span<const Weight> weights, std::size_t n_rows) {
    const std::size_t n_in = weights[0].n_in;
    const std::size_t n_out = weights[0].n_out;
    std::mt19937 rng(2);
    x.resize(n_rows * n_in);
    for (float& value : x) {
      value = static_cast<float>(rng()) * 0x1p-31f - 1;
    }
    y.resize(weights.size() * n_rows * n_out);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ops.push_back({.y = {y.data() + i * n_rows * n_out, n_rows, n_out, n_out},
                     .x = {x.data(), n_rows, n_in, n_in},
                     .weight = &weights[i]});
    }
  }
};

/// More than a gibibyte of weights, few rows: the limit is reading them.
void stream(benchmark::State& state, Isa isa, Kind kind) {
  ThreadPool pool(static_cast<std::size_t>(state.range(1)));
  const auto backend = make_cpu_backend(isa, pool);
  const Weights& weights = weights_of(*backend, kind, 12288, 6144, std::size_t{1} << 30);
  const Operands operands(weights.all(), static_cast<std::size_t>(state.range(0)));
  const SteadyClock clock;
  const Probe probe(isa, pool, clock);
  const std::span<const std::byte> bytes = weights.bytes();
  const std::span<const float> buffer{reinterpret_cast<const float*>(bytes.data()),
                                      bytes.size() / sizeof(float)};
  measure(state, *backend, operands.ops, [&] {
    return static_cast<double>(bytes.size()) / probe.read_bytes_per_s(buffer, 1);
  });
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(bytes.size()) * 1e-9 * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

/// Many rows: the limit is multiplying.
void prefill(benchmark::State& state, Isa isa, Kind kind, std::size_t n_out, std::size_t n_in) {
  ThreadPool pool(static_cast<std::size_t>(state.range(1)));
  const auto backend = make_cpu_backend(isa, pool);
  const Weights& weights = weights_of(*backend, kind, n_out, n_in, 0);
  const auto n_rows = static_cast<std::size_t>(state.range(0));
  const Operands operands(weights.all(), n_rows);
  const double ops = 2 * static_cast<double>(n_rows) * double(n_out) * double(n_in);
  const SteadyClock clock;
  const Probe probe(isa, pool, clock);
  measure(state, *backend, operands.ops, [&] {
    const double rate = kind.activation == Activation::kInt8
                            ? probe.int8_ops_per_s(kPeakUs)
                            : probe.f32_ops_per_s(pool.n_threads(), kPeakUs);
    return rate == 0 ? 0 : ops / rate;
  });
  state.counters["GOP/s"] = benchmark::Counter(ops * 1e-9 * static_cast<double>(state.iterations()),
                                               benchmark::Counter::kIsRate);
}

void limits(benchmark::State& state) {
  ThreadPool pool(static_cast<std::size_t>(state.range(0)));
  const SteadyClock clock;
  const Probe probe(usable_isas().front(), pool, clock);
  std::vector<double> int8;
  std::vector<double> f32;
  for (auto _ : state) {
    int8.push_back(probe.int8_ops_per_s(kPeakUs));
    f32.push_back(probe.f32_ops_per_s(pool.n_threads(), kPeakUs));
  }
  state.counters["int8_GOP/s"] = 1e-9 * median(int8);
  state.counters["f32_GFLOP/s"] = 1e-9 * median(f32);
}

benchmark::internal::Benchmark* add(const std::string& name, auto function, auto... args) {
  return benchmark::RegisterBenchmark(name.c_str(), function, args...)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

const bool kRegistered = [] {
  benchmark::RegisterBenchmark("limits", limits)->Arg(1)->Arg(2)->Iterations(7);
  const std::pair<std::size_t, std::size_t> int8_shapes[] = {
      {6144, 2048}, {2048, 6144}, {12288, 6144}, {6144, 12288}, {16384, 6144}, {6144, 16384}};
  const std::pair<std::size_t, std::size_t> float_shapes[] = {
      {2048, 6144}, {16384, 2048}, {576, 6144}};
  for (const Isa isa : usable_isas()) {
    if (isa == Isa::kRef) {
      continue;
    }
    const std::string prefix = std::string(isa_name(isa)) + "/large/";
    for (const Kind& kind : kKinds) {
      add(prefix + "stream/" + kind.name, stream, isa, kind)
          ->ArgsProduct({{1, 2, 4, 8}, {1, 2}})
          ->Iterations(7);
      const bool is_int8 = kind.activation == Activation::kInt8;
      const auto shapes = is_int8
                              ? std::span<const std::pair<std::size_t, std::size_t>>(int8_shapes)
                              : std::span<const std::pair<std::size_t, std::size_t>>(float_shapes);
      for (const auto& [n_out, n_in] : shapes) {
        add(prefix + "prefill/" + kind.name + "/" + std::to_string(n_out) + "x" +
                std::to_string(n_in),
            prefill,
            isa,
            kind,
            n_out,
            n_in)
            ->ArgsProduct({{16, 64, 256, 512}, {1, 2}})
            ->Iterations(7);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace ft::kernels
