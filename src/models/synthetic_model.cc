#include "models/synthetic_model.h"

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/container_writer.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace ft::models {
namespace {

using checkpoint::ContainerIndex;
using checkpoint::ContainerWriter;
using checkpoint::TensorLayout;

/// Bytes that are made before they are written, by all threads.
constexpr std::size_t kChunkBytes = std::size_t{32} << 20;
/// A thread's share of them; a multiple of every element's size.
constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

/// What a tensor is filled with.
struct Fill {
  enum class Kind {
    kCodes,  // random bytes, then scales of +-`value` in bf16
    kBf16,   // of either sign, magnitudes even in [1, 2) times a power of two
    kF8,     // the same with 3 bits
    kF32,    // `value` everywhere, or `values`
    kOnes,   // bf16
    kZeros,
  };
  Kind kind = Kind::kZeros;
  float value = 0;
  std::vector<float> values;
};

struct Entry {
  TensorLayout layout;
  Fill fill;
};

// Standard deviations of the codes of kCodes, and of magnitudes even in [1, 2).
constexpr double kQ8Deviation = 73.9;  // even in -128 ... 127
constexpr double kQ4Deviation = 4.61;  // even in -8 ... 7
constexpr double kUnitDeviation = 1.5275;

/// Of what layers add to the residual, so that all together they add as much as there was: then a
/// layer's input tells most of the next one's, as in trained models.
double residual_gain(const SyntheticShape& shape) {
  return 1 / std::sqrt(2 * static_cast<double>(shape.n_layers));
}

/// Of a weight whose products keep the size of their inputs.
double deviation_for(std::size_t n_in) {
  return 1 / std::sqrt(static_cast<double>(n_in));
}

Entry elements(std::string name, DType dtype, std::vector<std::uint64_t> shape, Fill fill) {
  Entry entry;
  entry.layout.name = std::move(name);
  entry.layout.dtype = dtype;
  entry.layout.shape = std::move(shape);
  entry.fill = std::move(fill);
  return entry;
}

Entry bf16_matrix(std::string name, std::size_t n_out, std::size_t n_in, double deviation) {
  const Fill fill{.kind = Fill::Kind::kBf16, .value = static_cast<float>(deviation), .values = {}};
  return elements(std::move(name), DType::kBF16, {n_out, n_in}, fill);
}

/// All tensors of a model, dense ones in order, experts as one pattern per layer.
class Inventory {
 public:
  explicit Inventory(const SyntheticOptions& options) : options_(options), s_(options.shape) {
    dense_.push_back(bf16_matrix("model.embed_tokens.weight", s_.n_vocab, s_.d_model, 1));
    const std::size_t n_layers = s_.n_layers + (s_.has_mtp ? 1 : 0);
    for (std::size_t layer = 0; layer < n_layers; ++layer) add_layer(layer);
    vector("model.norm.weight", s_.d_model, Fill::Kind::kOnes);
    matrix("lm_head", s_.n_vocab, s_.d_model, options.dense, dense_);
  }

  ContainerIndex index() const {
    ContainerIndex out;
    out.family = "glm_moe_dsa";
    out.converter = options_.converter;
    out.sources = {{.name = fmt::format(
                        "synth --routing-skew {} --seed {}", options_.routing_skew, options_.seed),
                    .bytes = 0,
                    .identity = options_.seed}};
    const std::string dense(target_format_name(options_.dense));
    out.formats = {{"dense", dense},
                   {"experts", std::string(target_format_name(options_.experts))},
                   {"mtp", dense},
                   {"head", dense}};
    for (const Entry& entry : dense_) out.dense.push_back(entry.layout);
    for (const auto& [layer, entries] : experts_) {
      checkpoint::ExpertLayer& to = out.experts.emplace_back();
      to.layer = layer;
      to.file = fmt::format("experts-{:05}.bin", layer);
      to.checksums.resize(s_.n_experts);
      for (const Entry& entry : entries) to.tensors.push_back(entry.layout);
    }
    return out;
  }
  const std::vector<Entry>& dense() const noexcept { return dense_; }
  const std::vector<std::pair<std::size_t, std::vector<Entry>>>& experts() const noexcept {
    return experts_;
  }

 private:
  void add_layer(std::size_t layer) {
    const std::string p = "model.layers." + std::to_string(layer) + ".";
    const bool is_mtp = layer == s_.n_layers;
    if (is_mtp) {
      vector(p + "enorm.weight", s_.d_model, Fill::Kind::kOnes);
      vector(p + "hnorm.weight", s_.d_model, Fill::Kind::kOnes);
      dense_.push_back(bf16_matrix(
          p + "eh_proj.weight", s_.d_model, 2 * s_.d_model, deviation_for(2 * s_.d_model)));
      vector(p + "shared_head.norm.weight", s_.d_model, Fill::Kind::kOnes);
    }
    vector(p + "input_layernorm.weight", s_.d_model, Fill::Kind::kOnes);
    vector(p + "post_attention_layernorm.weight", s_.d_model, Fill::Kind::kOnes);
    add_attention(p + "self_attn.");
    if (s_.has_indexer(layer)) add_indexer(p + "self_attn.indexer.");
    if (s_.is_sparse(layer)) {
      add_experts(layer, p + "mlp.", is_mtp ? options_.dense : options_.experts);
    } else {
      network(p + "mlp.", s_.dense_width, options_.dense, dense_);
    }
  }

  void add_attention(const std::string& p) {
    matrix(p + "q_a_proj", s_.q_rank, s_.d_model, options_.dense, dense_);
    vector(p + "q_a_layernorm.weight", s_.q_rank, Fill::Kind::kOnes);
    matrix(p + "q_b_proj", s_.n_heads * s_.query_dim(), s_.q_rank, options_.dense, dense_);
    matrix(p + "kv_a_proj_with_mqa", s_.key_dim(), s_.d_model, options_.dense, dense_);
    vector(p + "kv_a_layernorm.weight", s_.latent_dim, Fill::Kind::kOnes);
    matrix(p + "o_proj",
           s_.d_model,
           s_.n_heads * s_.value_dim,
           options_.dense,
           dense_,
           residual_gain(s_));
    const QuantFormat* panels = panels_of(options_.dense);
    if (panels == nullptr) {
      matrix(p + "kv_b_proj",
             s_.n_heads * (s_.nope_dim + s_.value_dim),
             s_.latent_dim,
             options_.dense,
             dense_);
      return;
    }
    for (std::size_t head = 0; head < s_.n_heads; ++head) {
      const std::string name = p + "kv_b_proj.head_" + std::to_string(head);
      // As rows of kv_b, both parts multiply latents.
      in_panels(name + ".key_up", s_.latent_dim, s_.nope_dim, s_.latent_dim, *panels, dense_);
      in_panels(name + ".value_up", s_.value_dim, s_.latent_dim, s_.latent_dim, *panels, dense_);
    }
  }

  void add_indexer(const std::string& p) {
    const std::size_t n_query = s_.index_heads * s_.index_dim;
    dense_.push_back(bf16_matrix(p + "wq_b.weight", n_query, s_.q_rank, deviation_for(s_.q_rank)));
    dense_.push_back(
        bf16_matrix(p + "wk.weight", s_.index_dim, s_.d_model, deviation_for(s_.d_model)));
    dense_.push_back(bf16_matrix(
        p + "weights_proj.weight", s_.index_heads, s_.d_model, deviation_for(s_.d_model)));
    vector(p + "k_norm.weight", s_.index_dim, Fill::Kind::kOnes);
    vector(p + "k_norm.bias", s_.index_dim, Fill::Kind::kZeros);
  }

  void add_experts(std::size_t layer, const std::string& p, TargetFormat format) {
    dense_.push_back(
        bf16_matrix(p + "gate.weight", s_.n_experts, s_.d_model, deviation_for(s_.d_model)));
    dense_.push_back(elements(p + "gate.e_score_correction_bias",
                              DType::kF32,
                              {s_.n_experts},
                              {.kind = Fill::Kind::kF32, .value = 0, .values = biases(layer)}));
    network(p + "shared_experts.", s_.expert_width, options_.dense, dense_);
    experts_.emplace_back(layer, std::vector<Entry>());
    network(p + "experts.{}.", s_.expert_width, format, experts_.back().second);
  }

  /// Choosing the largest of beta * ln(weight) plus noise of scale beta takes each choice as often
  /// as its weight says (exactly so for Gumbel noise). The noise here is the spread of sigmoid
  /// scores of unit logits, 0.21 as a standard deviation.
  std::vector<float> biases(std::size_t layer) const {
    constexpr double kScoreDeviation = 0.21;
    const double beta = kScoreDeviation * std::sqrt(6.0) / std::acos(-1.0);
    std::vector<std::size_t> ranks(s_.n_experts);
    std::iota(ranks.begin(), ranks.end(), std::size_t{1});
    for (std::size_t i = ranks.size() - 1; i > 0; --i) {
      const std::uint64_t drawn =
          noise_bits(options_.seed, NoisePurpose::kTarget, layer, static_cast<std::uint32_t>(i));
      std::swap(ranks[i], ranks[drawn % (i + 1)]);
    }
    std::vector<float> out;
    for (const std::size_t rank : ranks) {
      const double log_weight = -options_.routing_skew * std::log(static_cast<double>(rank));
      out.push_back(static_cast<float>(beta * log_weight));
    }
    return out;
  }

  void vector(std::string name, std::size_t n, Fill::Kind kind) {
    dense_.push_back(
        elements(std::move(name), DType::kBF16, {n}, {.kind = kind, .value = 0, .values = {}}));
  }

  /// Gate, up and down.
  void network(const std::string& p,
               std::size_t width,
               TargetFormat format,
               std::vector<Entry>& to) const {
    if (const QuantFormat* panels = panels_of(format); panels != nullptr) {
      in_panels(p + "gate_up_proj.weight", 2 * width, s_.d_model, s_.d_model, *panels, to);
    } else {
      matrix(p + "gate_proj", width, s_.d_model, format, to);
      matrix(p + "up_proj", width, s_.d_model, format, to);
    }
    matrix(p + "down_proj", s_.d_model, width, format, to, residual_gain(s_));
  }

  static const QuantFormat* panels_of(TargetFormat format) {
    static constexpr QuantFormat kQ4 = QuantFormat::kQ4;
    static constexpr QuantFormat kQ8 = QuantFormat::kQ8;
    return format == TargetFormat::kQ4 ? &kQ4 : format == TargetFormat::kQ8 ? &kQ8 : nullptr;
  }

  /// `name` without ".weight".
  static void matrix(const std::string& name,
                     std::size_t n_out,
                     std::size_t n_in,
                     TargetFormat format,
                     std::vector<Entry>& to,
                     double gain = 1) {
    if (const QuantFormat* panels = panels_of(format); panels != nullptr) {
      in_panels(name + ".weight", n_out, n_in, n_in, *panels, to, gain);
    } else if (format == TargetFormat::kBF16) {
      to.push_back(bf16_matrix(name + ".weight", n_out, n_in, gain * deviation_for(n_in)));
    } else {
      constexpr std::size_t kBlock = 128;
      const auto scale = static_cast<float>(gain * deviation_for(n_in) / kUnitDeviation);
      to.push_back(elements(name + ".weight",
                            DType::kF8E4M3,
                            {n_out, n_in},
                            {.kind = Fill::Kind::kF8, .value = 0, .values = {}}));
      to.push_back(elements(name + ".weight_scale_inv",
                            DType::kF32,
                            {(n_out + kBlock - 1) / kBlock, (n_in + kBlock - 1) / kBlock},
                            {.kind = Fill::Kind::kF32, .value = scale, .values = {}}));
    }
  }

  /// n_summed: columns as far as the size of products is concerned.
  static void in_panels(std::string name,
                        std::size_t n_out,
                        std::size_t n_in,
                        std::size_t n_summed,
                        QuantFormat format,
                        std::vector<Entry>& to,
                        double gain = 1) {
    const double deviation = format == QuantFormat::kQ8 ? kQ8Deviation : kQ4Deviation;
    const auto scale = static_cast<float>(gain * deviation_for(n_summed) / deviation);
    Entry entry = elements(std::move(name),
                           DType::kBF16,
                           {n_out, n_in},
                           {.kind = Fill::Kind::kCodes, .value = scale, .values = {}});
    entry.layout.panels = format;
    to.push_back(std::move(entry));
  }

  const SyntheticOptions& options_;
  const SyntheticShape& s_;
  std::vector<Entry> dense_;
  std::vector<std::pair<std::size_t, std::vector<Entry>>> experts_;
};

/// 64 well-mixed bits per counter (the finaliser of SplitMix64, Steele et al. 2014).
std::uint64_t mixed(std::uint64_t counter) noexcept {
  std::uint64_t x = counter * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/// Random bits of which only those in `keep` stay, the others become those of `set`.
void fill_random(std::span<std::byte> to,
                 std::uint64_t counter,
                 std::uint64_t keep,
                 std::uint64_t set) noexcept {
  std::size_t i = 0;
  for (; i + 8 <= to.size(); i += 8) {
    const std::uint64_t bits = (mixed(counter++) & keep) | set;
    std::memcpy(to.data() + i, &bits, 8);
  }
  const std::uint64_t bits = (mixed(counter) & keep) | set;
  std::memcpy(to.data() + i, &bits, to.size() - i);
}

std::uint64_t four_times(std::uint16_t value) noexcept {
  return 0x0001000100010001u * value;
}

/// The power of two that gives magnitudes even in [1, 2) about this standard deviation, as the
/// exponent's bits of a bf16.
std::uint16_t bf16_exponent(float deviation) noexcept {
  const int power = static_cast<int>(std::lround(std::log2(deviation / kUnitDeviation)));
  return static_cast<std::uint16_t>((power + 127) << 7);
}

class Synthesis {
 public:
  Synthesis(const SyntheticOptions& options, ThreadPool& pool, std::stop_token stop)
      : options_(options),
        pool_(pool),
        stop_(std::move(stop)),
        inventory_(options),
        chunk_(kChunkBytes) {}

  std::uint64_t run(const std::filesystem::path& folder) {
    const SyntheticShape& shape = options_.shape;
    std::vector<checkpoint::MetadataText> files;
    files.push_back({"config.json", synthetic_config(shape)});
    files.push_back({"generation_config.json", synthetic_generation_config(shape)});
    files.push_back({"tokenizer.json", synthetic_tokenizer(shape)});
    ContainerWriter writer(folder, inventory_.index(), std::move(files));
    if (writer.state() == ContainerWriter::State::kComplete) return writer.total_bytes();
    writer.start();
    const ContainerIndex& index = writer.index();
    for (std::size_t i = 0; i < inventory_.dense().size(); ++i) {
      unit(writer, i, {&inventory_.dense()[i], 1}, {&index.dense[i], 1});
    }
    for (std::size_t place = 0; place < inventory_.experts().size(); ++place) {
      const std::vector<Entry>& entries = inventory_.experts()[place].second;
      for (std::size_t e = 0; e < options_.shape.n_experts; ++e) {
        unit(writer, writer.expert_unit(place, e), entries, index.experts[place].tensors);
      }
    }
    writer.finish();
    return writer.total_bytes();
  }

 private:
  void unit(ContainerWriter& writer,
            std::size_t number,
            std::span<const Entry> entries,
            std::span<const TensorLayout> layouts) {
    if (writer.is_done(number)) return;
    writer.begin(number);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      // Tensors of 2^48 bytes at most start at counters of their own.
      const std::uint64_t start = mixed(options_.seed ^ mixed(number * 16 + i + 1));
      write_tensor(writer, entries[i], layouts[i].bytes, start);
    }
    writer.end();
    if (options_.progress) options_.progress(writer.done_bytes(), writer.total_bytes());
  }

  void write_tensor(ContainerWriter& writer,
                    const Entry& entry,
                    std::uint64_t bytes,
                    std::uint64_t start) {
    // Scales stand behind all codes.
    const std::uint64_t code_bytes = entry.layout.panels ? codes_of(entry.layout) : bytes;
    for (std::uint64_t at = 0; at < bytes;) {
      if (stop_.stop_requested()) throw Cancelled();
      const std::uint64_t end = at < code_bytes ? code_bytes : bytes;
      const std::size_t n =
          static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, end - at));
      const std::size_t n_pieces = (n + kPieceBytes - 1) / kPieceBytes;
      pool_.parallel_for(n_pieces, 1, [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t piece = first; piece < last; ++piece) {
          const std::size_t from = piece * kPieceBytes;
          const std::size_t size = std::min(kPieceBytes, n - from);
          fill(entry.fill,
               at + from,
               at >= code_bytes,
               start,
               std::span(chunk_).subspan(from, size));
        }
      });
      writer.append(std::span(chunk_).first(n));
      at += n;
    }
  }

  static std::uint64_t codes_of(const TensorLayout& layout) {
    QuantMatrix matrix;
    matrix.format = *layout.panels;
    matrix.n_rows = static_cast<std::size_t>(layout.shape[0]);
    matrix.n_cols = static_cast<std::size_t>(layout.shape[1]);
    return matrix.code_bytes();
  }

  /// Bytes [at, at + to.size()) of a tensor.
  static void fill(const Fill& fill,
                   std::uint64_t at,
                   bool is_scale,
                   std::uint64_t start,
                   std::span<std::byte> to) {
    constexpr std::uint64_t kAll = ~std::uint64_t{0};
    const std::uint64_t counter = start + at / 8;
    switch (fill.kind) {
      case Fill::Kind::kCodes:
        if (is_scale) {
          // Of either sign: codes are even in -8 ... 7, and their mean must not add up.
          fill_random(to, counter, four_times(0x8000), four_times(float_to_bf16(fill.value)));
        } else {
          fill_random(to, counter, kAll, 0);
        }
        return;
      case Fill::Kind::kBf16:
        fill_random(to, counter, four_times(0x807F), four_times(bf16_exponent(fill.value)));
        return;
      case Fill::Kind::kF8:
        fill_random(to, counter, four_times(0x8787), four_times(0x3838));
        return;
      case Fill::Kind::kOnes:
        fill_random(to, counter, 0, four_times(float_to_bf16(1)));
        return;
      case Fill::Kind::kZeros:
        fill_random(to, counter, 0, 0);
        return;
      case Fill::Kind::kF32:
        for (std::size_t i = 0; i < to.size() / sizeof(float); ++i) {
          const std::size_t place = static_cast<std::size_t>(at / sizeof(float)) + i;
          const float value = fill.values.empty() ? fill.value : fill.values[place];
          std::memcpy(to.data() + i * sizeof(float), &value, sizeof(float));
        }
        return;
    }
  }

  const SyntheticOptions& options_;
  ThreadPool& pool_;
  std::stop_token stop_;
  Inventory inventory_;
  std::vector<std::byte> chunk_;
};

void check(const SyntheticOptions& options) {
  for (const TargetFormat format : {options.experts, options.dense}) {
    if (format == TargetFormat::kF16 || format == TargetFormat::kF32) {
      fail("synth: format {} is asked for, expected q4, q8, bf16 or fp8",
           target_format_name(format));
    }
  }
  constexpr double kMostSkew = 4;
  if (!(options.routing_skew >= 0 && options.routing_skew <= kMostSkew)) {
    fail("synth: the routing skew is {}, expected 0 to {}", options.routing_skew, kMostSkew);
  }
}

}  // namespace

std::uint64_t write_synthetic_model(const std::filesystem::path& folder,
                                    const SyntheticOptions& options,
                                    ThreadPool& pool,
                                    const std::stop_token& stop) {
  check(options);
  return Synthesis(options, pool, stop).run(folder);
}

}  // namespace ft::models
