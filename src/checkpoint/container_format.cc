#include "checkpoint/container_format.h"

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "io/file.h"
#include "json/json.h"

#include <algorithm>

namespace ft::checkpoint {
namespace {

// The header: 8 bytes magic, u32 version, u32 zero, u64 length of the JSON text, u64 its checksum,
// zeros up to 64 bytes. Little-endian.
constexpr std::size_t kHeaderBytes = 64;
constexpr std::string_view kMagic{"ftmodel\0", 8};
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kLengthAt = 16;
constexpr std::size_t kChecksumAt = 24;
constexpr std::size_t kUsedHeaderBytes = 32;
// GLM-5.2's index has 3 MB.
constexpr std::size_t kMaxJsonBytes = std::size_t{128} << 20;
constexpr std::size_t kMaxJsonDepth = 8;

/// The size of a tensor, or nullopt beyond 2^62.
std::optional<std::uint64_t> tensor_bytes(const TensorLayout& tensor) {
  std::uint64_t bytes = element_bytes(tensor.dtype);
  const auto multiply = [&bytes](std::uint64_t factor) {
    return !__builtin_mul_overflow(bytes, factor, &bytes);
  };
  if (tensor.panels) {
    const auto up = [](std::uint64_t n, std::uint64_t unit) { return n / unit + (n % unit != 0); };
    std::uint64_t n_blocks = 0;  // of all panels
    if (__builtin_mul_overflow(
            up(tensor.shape[0], kPanelRows), up(tensor.shape[1], kQuantGroup), &n_blocks)) {
      return std::nullopt;
    }
    bytes = bytes * kPanelRows + block_code_bytes(*tensor.panels);
    if (!multiply(n_blocks)) return std::nullopt;
  } else {
    for (const std::uint64_t n : tensor.shape) {
      if (!multiply(n)) return std::nullopt;
    }
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  return bytes <= kMost ? std::optional(bytes) : std::nullopt;
}

/// Places tensors one behind the other from 0; returns the end.
std::uint64_t place(std::vector<TensorLayout>& tensors, std::string_view where) {
  std::uint64_t end = 0;
  for (TensorLayout& tensor : tensors) {
    const std::optional<std::uint64_t> bytes = tensor_bytes(tensor);
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    if (!bytes || end > kMost) {
      fail("{}: tensor {} has more bytes than a file can", where, in_quotes(tensor.name));
    }
    tensor.offset = end;
    tensor.bytes = *bytes;
    end = align_up(end + tensor.bytes, kTensorAlignment);
  }
  return end;
}

void lay_out(ContainerIndex& index, std::string_view where) {
  place(index.dense, where);
  for (ExpertLayer& layer : index.experts) {
    layer.extent_bytes = align_up(place(layer.tensors, where), kExtentAlignment);
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(layer.extent_bytes, layer.checksums.size(), &total) ||
        total > std::uint64_t{1} << 62) {
      fail("{}: layer {} has more bytes than a file can", where, layer.layer);
    }
  }
}

// --- writing ---

void write_tensors(json::Writer& out, const std::vector<TensorLayout>& tensors, bool is_dense) {
  out.begin_array();
  for (const TensorLayout& tensor : tensors) {
    out.begin_object().member("name", tensor.name).member("format", format_name(tensor));
    if (tensor.panels) out.member("scales", dtype_name(tensor.dtype));
    out.key("shape").begin_array();
    for (const std::uint64_t n : tensor.shape) out.value(n);
    out.end_array().member("offset", tensor.offset).member("bytes", tensor.bytes);
    if (is_dense) out.member("xxh3", checksum_text(tensor.checksum));
    out.end_object();
  }
  out.end_array();
}

void write_experts(json::Writer& out, const ExpertLayer& layer) {
  out.begin_object().member("layer", layer.layer).member("file", layer.file);
  out.member("experts", std::uint64_t{layer.checksums.size()});
  out.member("extent_bytes", layer.extent_bytes);
  write_tensors(out.key("tensors"), layer.tensors, false);
  out.key("xxh3").begin_array();
  for (const std::uint64_t checksum : layer.checksums) out.value(checksum_text(checksum));
  out.end_array().end_object();
}

std::string to_json(const ContainerIndex& index) {
  json::Writer out;
  out.begin_object().member("family", index.family).member("converter", index.converter);
  out.member("panel_rows", std::uint64_t{kPanelRows});
  out.member("group_columns", std::uint64_t{kQuantGroup});
  out.key("formats").begin_object();
  for (const auto& [part, format] : index.formats) out.member(part, format);
  out.end_object().key("source").begin_array();
  for (const SourceFile& file : index.sources) {
    out.begin_object().member("file", file.name).member("bytes", file.bytes);
    out.member("identity", checksum_text(file.identity)).end_object();
  }
  out.end_array().key("metadata").begin_array();
  for (const MetadataFile& file : index.metadata) {
    out.begin_object().member("file", file.name).member("bytes", file.bytes);
    out.member("xxh3", checksum_text(file.checksum)).end_object();
  }
  out.end_array().key("dense").begin_object().member("file", kDenseFileName);
  out.member("bytes", index.dense_bytes());
  write_tensors(out.key("tensors"), index.dense, true);
  out.end_object().key("experts").begin_array();
  for (const ExpertLayer& layer : index.experts) write_experts(out, layer);
  out.end_array().end_object();
  return out.text();
}

void put_little_endian(std::string& header, std::size_t at, std::uint64_t value, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) header[at + i] = static_cast<char>(value >> (8 * i));
}

std::uint64_t get_little_endian(std::string_view header, std::size_t at, std::size_t n) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < n; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(header[at + i])} << (8 * i);
  }
  return value;
}

// --- reading ---

/// What lies behind the known fields says nothing yet; a later version may give it a meaning.
void check_reserved(std::string_view header, std::string_view where) {
  for (std::size_t at = 0; at < kHeaderBytes; ++at) {
    const bool is_reserved = (at >= kVersionAt + 4 && at < kLengthAt) || at >= kUsedHeaderBytes;
    if (is_reserved && header[at] != '\0') {
      fail("{}: damaged: byte {} of its header is {:#04x}, expected zero; copy it again",
           where,
           at,
           static_cast<unsigned char>(header[at]));
    }
  }
}

/// One object of the index; every error names it.
class Reader {
 public:
  Reader(const json::Value& value, std::string where) : where_(std::move(where)), value_(value) {
    value.as_object(where_);
  }
  const std::string& where() const { return where_; }

  const json::Value& at(std::string_view key) const {
    const json::Value* member = value_.find(key);
    if (member == nullptr) fail("{} has no {}", where_, key);
    return *member;
  }
  const std::string& text(std::string_view key) const { return at(key).as_string(path(key)); }
  const json::Array& array(std::string_view key) const { return at(key).as_array(path(key)); }
  std::uint64_t number(std::string_view key) const { return number_of(at(key), path(key)); }
  std::uint64_t checksum(std::string_view key) const { return checksum_of(at(key), path(key)); }
  Reader object(std::string_view key) const { return {at(key), path(key)}; }
  /// A name without folders.
  const std::string& file_name(std::string_view key) const {
    const std::string& name = text(key);
    if (name.empty() || name.find('/') != std::string::npos || name.size() > 255 ||
        name.find('\0') != std::string::npos || name == "." || name == ".." ||
        name == kIndexFileName) {
      fail("{} is {}, expected the name of a file of the container", path(key), in_quotes(name));
    }
    return name;
  }

  static std::uint64_t number_of(const json::Value& value, const std::string& where) {
    const std::int64_t number = value.as_integer(where);
    if (number < 0) fail("{} is {}, expected a value >= 0", where, number);
    return static_cast<std::uint64_t>(number);
  }
  static std::uint64_t checksum_of(const json::Value& value, const std::string& where) {
    const std::string& text = value.as_string(where);
    const std::optional<std::uint64_t> checksum = checksum_from_text(text);
    if (!checksum) fail("{} is {}, expected 16 hex digits", where, in_quotes(text));
    return *checksum;
  }

 private:
  std::string path(std::string_view key) const { return fmt::format("{}: {}", where_, key); }

  std::string where_;
  const json::Value& value_;
};

/// A small index must not stand for much memory: every expert's tensors get a descriptor. GLM-5.2
/// has about 60,000 of them.
constexpr std::uint64_t kMaxExpertTensors = std::uint64_t{1} << 20;
constexpr std::size_t kMaxNameBytes = 512;

TensorLayout read_tensor(const json::Value& value, const std::string& list, bool is_dense) {
  const Reader at(value, list);
  TensorLayout tensor;
  tensor.name = at.text("name");
  if (tensor.name.size() > kMaxNameBytes) {
    fail("{}: a tensor's name has {} bytes, at most {} are read",
         list,
         tensor.name.size(),
         kMaxNameBytes);
  }
  const Reader in(value, fmt::format("{}: tensor {}", list, in_quotes(tensor.name)));
  const std::string& format = in.text("format");
  tensor.panels = quant_format_from_name(format);
  const std::string& element = tensor.panels ? in.text("scales") : format;
  const std::optional<DType> dtype = dtype_from_name(element);
  const bool is_scale_type = dtype == DType::kBF16 || dtype == DType::kF32;
  if (!dtype || (tensor.panels && !is_scale_type)) {
    fail("{}: {} {} is not known; was the file made by a newer version?",
         in.where(),
         tensor.panels ? "type of scales" : "format",
         in_quotes(element));
  }
  tensor.dtype = *dtype;
  constexpr std::size_t kMaxDimensions = 8;
  for (const json::Value& n : in.array("shape")) {
    tensor.shape.push_back(Reader::number_of(n, in.where() + ": shape"));
  }
  if (tensor.panels ? tensor.shape.size() != 2 : tensor.shape.size() > kMaxDimensions) {
    fail("{}: shape has {} dimensions", in.where(), tensor.shape.size());
  }
  tensor.offset = in.number("offset");
  tensor.bytes = in.number("bytes");
  if (is_dense) tensor.checksum = in.checksum("xxh3");
  return tensor;
}

std::vector<TensorLayout> read_tensors(const Reader& in, bool is_dense) {
  std::vector<TensorLayout> tensors;
  for (const json::Value& value : in.array("tensors")) {
    tensors.push_back(read_tensor(value, in.where(), is_dense));
  }
  return tensors;
}

ExpertLayer read_experts(const json::Value& value, const std::string& where) {
  const Reader in(value, where);
  ExpertLayer layer;
  layer.layer = in.number("layer");
  layer.file = in.file_name("file");
  layer.extent_bytes = in.number("extent_bytes");
  layer.tensors = read_tensors(in, false);
  for (const TensorLayout& tensor : layer.tensors) {
    const std::size_t first = tensor.name.find("{}");
    if (first == std::string::npos || tensor.name.find("{}", first + 2) != std::string::npos) {
      fail("{}: tensor {} must have one '{{}}' for the expert", where, in_quotes(tensor.name));
    }
  }
  for (const json::Value& checksum : in.array("xxh3")) {
    layer.checksums.push_back(Reader::checksum_of(checksum, where + ": xxh3"));
  }
  if (in.number("experts") != layer.checksums.size() || layer.checksums.empty() ||
      layer.tensors.empty()) {
    fail("{}: layer {} has {} experts, {} tensors each and {} checksums",
         where,
         layer.layer,
         in.number("experts"),
         layer.tensors.size(),
         layer.checksums.size());
  }
  return layer;
}

void check_same_place(const std::vector<TensorLayout>& found,
                      const std::vector<TensorLayout>& expected,
                      std::string_view where) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].offset == expected[i].offset && found[i].bytes == expected[i].bytes) continue;
    fail("{}: tensor {} has {} bytes at {}, its shape and place ask for {} at {}",
         where,
         in_quotes(found[i].name),
         found[i].bytes,
         found[i].offset,
         expected[i].bytes,
         expected[i].offset);
  }
}

/// Places everything anew: what is written must be that.
void check_layout(const ContainerIndex& index, std::uint64_t dense_bytes, std::string_view where) {
  ContainerIndex expected = index;
  lay_out(expected, where);
  check_same_place(index.dense, expected.dense, where);
  if (dense_bytes != expected.dense_bytes()) {
    fail("{}: dense has {} bytes, its tensors {}", where, dense_bytes, expected.dense_bytes());
  }
  for (std::size_t i = 0; i < index.experts.size(); ++i) {
    check_same_place(index.experts[i].tensors, expected.experts[i].tensors, where);
    if (index.experts[i].extent_bytes != expected.experts[i].extent_bytes) {
      fail("{}: layer {} has extents of {} bytes, its tensors ask for {}",
           where,
           index.experts[i].layer,
           index.experts[i].extent_bytes,
           expected.experts[i].extent_bytes);
    }
  }
}

void check_unique(std::vector<std::string> names, std::string_view what, std::string_view where) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail("{}: {} {} is listed twice", where, what, in_quotes(*twice));
}

void check_names(const ContainerIndex& index, std::string_view where) {
  std::vector<std::string> tensors;
  std::vector<std::string> files{std::string(kDenseFileName)};
  std::vector<std::string> layers;
  for (const TensorLayout& tensor : index.dense) tensors.push_back(tensor.name);
  for (const MetadataFile& file : index.metadata) files.push_back(file.name);
  for (const ExpertLayer& layer : index.experts) {
    files.push_back(layer.file);
    layers.push_back(std::to_string(layer.layer));
    for (const TensorLayout& tensor : layer.tensors) tensors.push_back(tensor.name);
  }
  check_unique(std::move(tensors), "tensor", where);
  check_unique(std::move(files), "file", where);
  check_unique(std::move(layers), "layer", where);
}

ContainerIndex from_json(std::string_view text, std::string_view where) {
  const json::Value root =
      json::parse(text, where, {.max_bytes = kMaxJsonBytes, .max_depth = kMaxJsonDepth});
  const Reader in(root, std::string(where));
  ContainerIndex index;
  index.family = in.text("family");
  index.converter = in.text("converter");
  if (in.number("panel_rows") != kPanelRows || in.number("group_columns") != kQuantGroup) {
    fail("{}: panels of {} rows and groups of {} columns are not read, expected {} and {}",
         where,
         in.number("panel_rows"),
         in.number("group_columns"),
         kPanelRows,
         kQuantGroup);
  }
  const Reader formats = in.object("formats");
  for (const auto& [part, format] : in.at("formats").as_object(formats.where())) {
    index.formats.emplace_back(part, format.as_string(formats.where()));
  }
  for (const json::Value& value : in.array("source")) {
    const Reader file(value, in.where() + ": source");
    index.sources.push_back({file.text("file"), file.number("bytes"), file.checksum("identity")});
  }
  for (const json::Value& value : in.array("metadata")) {
    const Reader file(value, in.where() + ": metadata");
    index.metadata.push_back({file.file_name("file"), file.number("bytes"), file.checksum("xxh3")});
  }
  const Reader dense = in.object("dense");
  if (dense.text("file") != kDenseFileName) {
    fail("{}: file is {}, expected {}",
         dense.where(),
         in_quotes(dense.text("file")),
         kDenseFileName);
  }
  index.dense = read_tensors(dense, true);
  std::uint64_t n_expert_tensors = 0;
  for (const json::Value& value : in.array("experts")) {
    index.experts.push_back(read_experts(value, in.where() + ": experts"));
    n_expert_tensors +=
        std::uint64_t{index.experts.back().tensors.size()} * index.experts.back().checksums.size();
    if (n_expert_tensors > kMaxExpertTensors) {
      fail("{}: more than {} tensors of experts", in.where(), kMaxExpertTensors);
    }
  }
  check_names(index, where);
  check_layout(index, dense.number("bytes"), where);
  return index;
}

}  // namespace

void refuse_unfinished(const std::filesystem::path& folder) {
  if (!io::is_there(folder / kIndexFileName) && io::is_there(folder / kJournalFileName)) {
    fail(
        "checkpoint: {} is a conversion that did not finish; run the same command again (convert "
        "or synth, the same options), it goes on where it was stopped",
        in_quotes(folder.native()));
  }
}

std::string_view format_name(const TensorLayout& tensor) noexcept {
  return tensor.panels ? quant_format_name(*tensor.panels) : dtype_name(tensor.dtype);
}

std::uint64_t ContainerIndex::dense_bytes() const noexcept {
  return dense.empty() ? 0 : align_up(dense.back().offset + dense.back().bytes, kTensorAlignment);
}

void lay_out(ContainerIndex& index) {
  lay_out(index, "container");
}

std::string write_container_index(const ContainerIndex& index) {
  const std::string text = to_json(index);
  std::string header(kHeaderBytes, '\0');
  kMagic.copy(header.data(), kMagic.size());
  put_little_endian(header, kVersionAt, kContainerVersion, 4);
  put_little_endian(header, kLengthAt, text.size(), 8);
  put_little_endian(header, kChecksumAt, checksum_of(std::as_bytes(std::span(text))), 8);
  return header + text;
}

ContainerIndex parse_container_index(std::string_view bytes, std::string_view where) {
  if (bytes.size() < kHeaderBytes || !bytes.starts_with(kMagic)) {
    fail("{}: not the index of a container (its first bytes are wrong)", where);
  }
  const std::uint64_t version = get_little_endian(bytes, kVersionAt, 4);
  if (version != kContainerVersion) {
    fail("{}: container version {}, this program reads version {}",
         where,
         version,
         kContainerVersion);
  }
  check_reserved(bytes, where);
  const std::string_view text = bytes.substr(kHeaderBytes);
  const std::uint64_t length = get_little_endian(bytes, kLengthAt, 8);
  if (length != text.size()) {
    fail("{}: damaged: its header announces {} bytes of index, the file has {}; copy it again",
         where,
         length,
         text.size());
  }
  if (checksum_of(std::as_bytes(std::span(text))) != get_little_endian(bytes, kChecksumAt, 8)) {
    fail("{}: damaged: its checksum is wrong; copy it again", where);
  }
  return from_json(text, where);
}

}  // namespace ft::checkpoint
