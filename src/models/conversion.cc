#include "models/conversion.h"

#include "base/error.h"
#include "checkpoint/container_writer.h"
#include "checkpoint/metadata_files.h"
#include "models/family.h"
#include "models/tensor_encoder.h"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace ft::models {
namespace {

using checkpoint::ContainerWriter;
using checkpoint::TensorLayout;

/// Bytes that are encoded before they are written: enough for all threads, little memory.
constexpr std::size_t kChunkBytes = std::size_t{32} << 20;

constexpr std::array<std::pair<TargetFormat, std::string_view>, 6> kFormatNames{{
    {TargetFormat::kQ4, "q4"},
    {TargetFormat::kQ8, "q8"},
    {TargetFormat::kBF16, "bf16"},
    {TargetFormat::kF16, "f16"},
    {TargetFormat::kF32, "f32"},
    {TargetFormat::kStored, "fp8"},
}};

std::optional<QuantFormat> panels_of(TargetFormat format) {
  if (format == TargetFormat::kQ4) return QuantFormat::kQ4;
  if (format == TargetFormat::kQ8) return QuantFormat::kQ8;
  return std::nullopt;
}

/// nullopt: as stored, or panels.
std::optional<DType> elements_of(TargetFormat format) {
  switch (format) {
    case TargetFormat::kBF16:
      return DType::kBF16;
    case TargetFormat::kF16:
      return DType::kF16;
    case TargetFormat::kF32:
      return DType::kF32;
    case TargetFormat::kQ4:
    case TargetFormat::kQ8:
    case TargetFormat::kStored:
      return std::nullopt;
  }
  return std::nullopt;
}

/// How one tensor of the container is made.
struct Recipe {
  enum class Kind { kQuantize, kRepack, kWeightAsF32, kConvert, kCopy };
  Kind kind = Kind::kCopy;
  const Packing* packing = nullptr;  // the first three
  std::string name;                  // the other two
  QuantFormat panels = QuantFormat::kQ8;
  DType elements = DType::kF32;
};

struct PlannedTensor {
  TensorLayout layout;
  Recipe recipe;
};

/// Everything a container will hold.
struct Contents {
  std::vector<PlannedTensor> dense;
  std::map<std::size_t, std::vector<std::vector<PlannedTensor>>> experts;  // by layer, expert
};

class Planner {
 public:
  Planner(const WeightPlan& plan, const ConversionFormats& formats)
      : plan_(plan), formats_(formats) {}

  Contents contents() {
    for (const std::string& name : plan_.tables()) table(name);
    for (const Packing& packing : plan_.packings()) {
      std::vector<PlannedTensor>& to = place_of(packing);
      if (packing.origin == Packing::Origin::kIntegers) {
        integers(packing, to);
      } else {
        elements(packing, to);
      }
    }
    for (const std::string& name : plan_.vectors()) copy(name, out_.dense);
    return std::move(out_);
  }

 private:
  TargetFormat target_of(const Packing& packing) const {
    switch (packing.belongs_to) {
      case WeightPart::kDense:
        return formats_.dense;
      case WeightPart::kExperts:
        return formats_.experts;
      case WeightPart::kMtp:
        return formats_.mtp;
      case WeightPart::kHead:
        return formats_.head;
    }
    return TargetFormat::kStored;
  }

  std::vector<PlannedTensor>& place_of(const Packing& packing) {
    if (!packing.expert) return out_.dense;
    auto& experts = out_.experts[packing.expert->layer];
    experts.resize(std::max(experts.size(), packing.expert->expert + 1));
    return experts[packing.expert->expert];
  }

  void table(const std::string& name) {
    const auto integers = plan_.integers().matrices().find(name);
    if (integers == plan_.integers().matrices().end()) {
      copy(name, out_.dense);
      return;
    }
    // A packing that stands for the rows of the table.
    Packing& rows = table_packings_[name];
    rows.name = rows.part.entry = name;
    rows.n_rows = rows.part.n_rows = static_cast<std::size_t>(integers->second.n_rows);
    rows.n_cols = static_cast<std::size_t>(integers->second.n_cols);
    repack(rows, out_.dense);
  }

  void elements(const Packing& packing, std::vector<PlannedTensor>& to) {
    const TargetFormat target =
        may_be_quantized(packing.use) ? target_of(packing) : TargetFormat::kStored;
    if (const std::optional<QuantFormat> panels = panels_of(target)) {
      add_panels(packing, *panels, DType::kBF16, Recipe::Kind::kQuantize, to);
      return;
    }
    for (const std::string* name : {&packing.name, &packing.up_name}) {
      if (name->empty() || emitted_.contains(*name)) continue;
      const std::optional<DType> wanted = elements_of(target);
      if (!wanted || *wanted == plan_.checkpoint().find(*name)->dtype) {
        copy(*name, to);
      } else {
        convert(*name, plan_.checkpoint().find(*name)->shape, *wanted, to);
      }
    }
  }

  void integers(const Packing& packing, std::vector<PlannedTensor>& to) {
    const std::optional<DType> wanted =
        may_be_quantized(packing.use) ? elements_of(target_of(packing)) : std::nullopt;
    if (!wanted) {
      repack(packing, to);
      return;
    }
    for (const std::string* name : {&packing.name, &packing.up_name}) {
      if (name->empty() || emitted_.contains(*name)) continue;
      const auto& matrix = plan_.integers().matrices().find(*name)->second;
      convert(*name, {matrix.n_rows, matrix.n_cols}, *wanted, to);
    }
  }

  /// The same integers in panels; a transposed part has no such form and becomes f32.
  void repack(const Packing& packing, std::vector<PlannedTensor>& to) {
    if (packing.part.orientation == MatrixPart::Orientation::kTransposed) {
      PlannedTensor tensor;
      tensor.layout.name = packing.part.entry;
      tensor.layout.shape = {packing.n_rows, packing.n_cols};
      tensor.recipe = {.kind = Recipe::Kind::kWeightAsF32, .packing = &packing, .name = ""};
      to.push_back(std::move(tensor));
      return;
    }
    const unsigned bits = plan_.integers().layout(packing.name).bits;
    const QuantFormat panels = bits == 8 ? QuantFormat::kQ8 : QuantFormat::kQ4;
    add_panels(packing, panels, DType::kF32, Recipe::Kind::kRepack, to);
  }

  static void add_panels(const Packing& packing,
                         QuantFormat panels,
                         DType scales,
                         Recipe::Kind kind,
                         std::vector<PlannedTensor>& to) {
    PlannedTensor tensor;
    tensor.layout.name = packing.part.entry;
    tensor.layout.panels = panels;
    tensor.layout.dtype = scales;
    tensor.layout.shape = {packing.n_rows, packing.n_cols};
    tensor.recipe = {.kind = kind, .packing = &packing, .name = "", .panels = panels};
    to.push_back(std::move(tensor));
  }

  void convert(const std::string& name,
               std::vector<std::uint64_t> shape,
               DType elements,
               std::vector<PlannedTensor>& to) {
    PlannedTensor tensor;
    tensor.layout.name = name;
    tensor.layout.dtype = elements;
    tensor.layout.shape = std::move(shape);
    tensor.recipe.kind = Recipe::Kind::kConvert;
    tensor.recipe.name = name;
    tensor.recipe.elements = elements;
    emitted_.insert(name);
    to.push_back(std::move(tensor));
  }

  void copy(const std::string& name, std::vector<PlannedTensor>& to) {
    if (!emitted_.insert(name).second) return;
    const checkpoint::TensorInfo& found = *plan_.checkpoint().find(name);
    PlannedTensor tensor;
    tensor.layout.name = name;
    tensor.layout.dtype = found.dtype;
    tensor.layout.shape = found.shape;
    tensor.recipe.name = name;
    to.push_back(std::move(tensor));
    if (found.dtype == DType::kF8E4M3) copy(name + "_scale_inv", to);
  }

  const WeightPlan& plan_;
  const ConversionFormats& formats_;
  Contents out_;
  std::set<std::string> emitted_;  // tensors that several packings share
  std::map<std::string, Packing> table_packings_ = {};
};

/// "model.layers.3.mlp.experts.17.down_proj.weight" with "{}" for the expert.
std::string expert_pattern(const std::string& name, std::size_t expert) {
  const std::string marker = fmt::format(".experts.{}.", expert);
  const std::size_t at = name.find(marker);
  FT_CHECK(at != std::string::npos);
  std::string pattern = name;
  return pattern.replace(at, marker.size(), ".experts.{}.");
}

checkpoint::ExpertLayer expert_layer(std::size_t layer,
                                     const std::vector<std::vector<PlannedTensor>>& experts) {
  checkpoint::ExpertLayer out;
  out.layer = layer;
  out.file = fmt::format("experts-{:05}.bin", layer);
  out.checksums.resize(experts.size());
  for (std::size_t e = 0; e < experts.size(); ++e) {
    std::vector<TensorLayout> tensors;
    for (const PlannedTensor& tensor : experts[e]) {
      tensors.push_back(tensor.layout);
      tensors.back().name = expert_pattern(tensor.layout.name, e);
    }
    const auto is_alike = [](const TensorLayout& a, const TensorLayout& b) {
      return a.name == b.name && a.panels == b.panels && a.dtype == b.dtype && a.shape == b.shape;
    };
    if (e == 0)
      out.tensors = std::move(tensors);
    else if (!std::equal(tensors.begin(),
                         tensors.end(),
                         out.tensors.begin(),
                         out.tensors.end(),
                         is_alike)) {
      fail(
          "convert: expert {} of layer {} is stored in other types than expert 0; choose a format "
          "that is not the stored one (q4, q8, bf16, f32)",
          e,
          layer);
    }
  }
  return out;
}

class Conversion {
 public:
  Conversion(const WeightPlan& plan,
             const ConversionOptions& options,
             ThreadPool& pool,
             std::stop_token stop)
      : plan_(plan),
        options_(options),
        pool_(pool),
        stop_(std::move(stop)),
        planner_(plan, options.formats),
        contents_(planner_.contents()),
        scratch_(pool.n_threads()) {}

  ConversionResult run(const std::filesystem::path& folder, std::string family) {
    const checkpoint::Checkpoint& source = plan_.checkpoint();
    ContainerWriter writer(
        folder, index(std::move(family)), checkpoint::read_metadata_files(source.folder()));
    ConversionResult result{.total_bytes = writer.total_bytes(),
                            .resumed_bytes = writer.done_bytes()};
    if (writer.state() == ContainerWriter::State::kComplete) {
      result.was_complete = true;
      return result;
    }
    writer.start();
    report(writer);
    for (std::size_t i = 0; i < contents_.dense.size(); ++i) {
      write_unit(writer, i, {&contents_.dense[i], 1});
    }
    std::size_t place = 0;
    for (const auto& [layer, experts] : contents_.experts) {
      for (std::size_t e = 0; e < experts.size(); ++e) {
        write_unit(writer, writer.expert_unit(place, e), experts[e]);
      }
      ++place;
    }
    writer.finish();
    return result;
  }

 private:
  checkpoint::ContainerIndex index(std::string family) const {
    checkpoint::ContainerIndex index;
    index.family = std::move(family);
    index.converter = options_.converter;
    const ConversionFormats& f = options_.formats;
    index.formats = {{"dense", std::string(target_format_name(f.dense))},
                     {"experts", std::string(target_format_name(f.experts))},
                     {"mtp", std::string(target_format_name(f.mtp))},
                     {"head", std::string(target_format_name(f.head))}};
    index.sources = plan_.checkpoint().identify_shards();
    for (const PlannedTensor& tensor : contents_.dense) index.dense.push_back(tensor.layout);
    for (const auto& [layer, experts] : contents_.experts) {
      index.experts.push_back(expert_layer(layer, experts));
    }
    return index;
  }

  void report(const ContainerWriter& writer) const {
    if (options_.progress) options_.progress(writer.done_bytes(), writer.total_bytes());
  }

  TensorEncoder encoder_of(const Recipe& recipe) const {
    switch (recipe.kind) {
      case Recipe::Kind::kQuantize:
        return TensorEncoder::quantized(plan_, *recipe.packing, recipe.panels);
      case Recipe::Kind::kRepack:
        return TensorEncoder::repacked(plan_, *recipe.packing);
      case Recipe::Kind::kWeightAsF32:
        return TensorEncoder::weight_as_f32(plan_, *recipe.packing);
      case Recipe::Kind::kConvert:
        return TensorEncoder::converted(plan_, recipe.name, recipe.elements);
      case Recipe::Kind::kCopy:
        break;
    }
    return TensorEncoder::copied(plan_.checkpoint(), recipe.name);
  }

  void write_unit(ContainerWriter& writer,
                  std::size_t unit,
                  std::span<const PlannedTensor> tensors) {
    if (writer.is_done(unit)) return;
    writer.begin(unit);
    for (const PlannedTensor& tensor : tensors) write_tensor(writer, encoder_of(tensor.recipe));
    writer.end();
    report(writer);
  }

  void write_tensor(ContainerWriter& writer, const TensorEncoder& encoder) {
    const std::size_t n_strips = encoder.n_strips();
    if (n_strips == 0) return;
    const TensorEncoder::Strip largest = encoder.strip(0);
    const std::size_t per_chunk =
        std::max(pool_.n_threads(), kChunkBytes / std::max<std::size_t>(largest.head_bytes, 1));
    head_.resize(std::min(per_chunk, n_strips) * largest.head_bytes);
    tail_.resize(n_strips * largest.tail_bytes);
    for (std::size_t begin = 0; begin < n_strips; begin += per_chunk) {
      if (stop_.stop_requested()) throw Cancelled();
      const std::size_t end = std::min(begin + per_chunk, n_strips);
      encode(encoder, begin, end, largest);
      const std::size_t n_full = end - begin - 1;
      writer.append(
          std::span(head_).first(n_full * largest.head_bytes + encoder.strip(end - 1).head_bytes));
    }
    writer.append(tail_);
  }

  void encode(const TensorEncoder& encoder,
              std::size_t begin,
              std::size_t end,
              const TensorEncoder::Strip& largest) {
    std::mutex mutex;
    std::size_t first_bad = std::numeric_limits<std::size_t>::max();
    std::exception_ptr error;  // of the first bad strip, so that threads do not change the message
    pool_.parallel_for(end - begin, 1, [&](std::size_t from, std::size_t to, std::size_t thread) {
      for (std::size_t i = from; i < to; ++i) {
        try {
          encoder.encode(begin + i,
                         head_.data() + i * largest.head_bytes,
                         tail_.data() + (begin + i) * largest.tail_bytes,
                         scratch_[thread]);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (i < first_bad) {
            first_bad = i;
            error = std::current_exception();
          }
        }
      }
    });
    if (error) std::rethrow_exception(error);
  }

  const WeightPlan& plan_;
  const ConversionOptions& options_;
  ThreadPool& pool_;
  std::stop_token stop_;
  Planner planner_;  // owns packings of tables
  Contents contents_;
  std::vector<RowScratch> scratch_;
  std::vector<std::byte> head_;
  std::vector<std::byte> tail_;
};

}  // namespace

std::string_view target_format_name(TargetFormat format) noexcept {
  for (const auto& [known, name] : kFormatNames) {
    if (known == format) return name;
  }
  return "";
}

std::optional<TargetFormat> target_format_from_name(std::string_view name) noexcept {
  for (const auto& [format, known] : kFormatNames) {
    if (known == name) return format;
  }
  return std::nullopt;
}

ConversionResult convert_model(const checkpoint::Checkpoint& checkpoint,
                               const std::filesystem::path& folder,
                               const ConversionOptions& options,
                               ThreadPool& pool,
                               const std::stop_token& stop) {
  if (checkpoint.container() != nullptr) {
    fail("convert: {} is a container already; convert the original checkpoint",
         in_quotes(checkpoint.folder().native()));
  }
  const DeclaredWeights declared = family_of(checkpoint).declare(checkpoint);
  const std::string family = checkpoint.config().find("model_type")->as_string("model_type");
  return Conversion(declared.plan, options, pool, stop).run(folder, family);
}

}  // namespace ft::models
