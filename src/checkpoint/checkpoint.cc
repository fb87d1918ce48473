#include "checkpoint/checkpoint.h"

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

namespace ft::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShardExtension = ".safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
// The index of GLM-5.2 has 6 MB, its config.json 10 kB.
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxListedShards = 4;

std::string name_of(const fs::path& path) {
  return in_quotes(path.native());
}
std::string file_name_of(const fs::path& path) {
  return in_quotes(path.filename().native());
}

json::Value read_json(const fs::path& path, std::size_t max_bytes) {
  json::Value value = json::parse(io::read_text(path, max_bytes), name_of(path));
  value.as_object(name_of(path));
  return value;
}

/// `some_missing`: the first of n_missing, at most kMaxListedShards are shown.
[[noreturn]] void missing_shards(const fs::path& folder,
                                 std::vector<std::string> some_missing,
                                 std::size_t n_missing,
                                 std::size_t n_shards) {
  if (n_missing > kMaxListedShards) {
    some_missing.resize(kMaxListedShards);
    some_missing.emplace_back("...");
  }
  fail("checkpoint: {} lacks {} of its {} shards: {}; download what is missing into this folder",
       name_of(folder),
       n_missing,
       n_shards,
       fmt::join(some_missing, ", "));
}

/// model.safetensors.index.json: which shard holds which tensor.
class ShardIndex {
 public:
  explicit ShardIndex(const fs::path& path)
      : where_(name_of(path)), root_(read_json(path, kMaxIndexBytes)) {
    const json::Value* map = root_.find("weight_map");
    if (map == nullptr) {
      fail("{} has no weight_map", where_);
    }
    for (const auto& [tensor, value] : map->as_object(where_ + ": weight_map")) {
      const std::string& shard = value.as_string(fmt::format("{}: {}", where_, in_quotes(tensor)));
      if (fs::path(shard).filename() != fs::path(shard) || !shard.ends_with(kShardExtension)) {
        fail("{}: tensor {} is said to be in {}, expected the name of a {} file",
             where_,
             in_quotes(tensor),
             in_quotes(shard),
             kShardExtension);
      }
      tensors_of_shard_[shard].push_back(&tensor);
    }
    if (tensors_of_shard_.empty()) {
      fail("{}: weight_map is empty", where_);
    }
  }

  /// The shards it names, by name. Throws if one is missing.
  std::vector<fs::path> shard_paths(const fs::path& folder) const {
    std::vector<fs::path> paths;
    std::vector<std::string> missing;
    for (const auto& [shard, tensors] : tensors_of_shard_) {
      paths.push_back(folder / shard);
      if (!io::is_there(paths.back())) {
        missing.push_back(in_quotes(shard));
      }
    }
    if (!missing.empty()) {
      const std::size_t n_missing = missing.size();
      missing_shards(folder, std::move(missing), n_missing, paths.size());
    }
    return paths;
  }

  const std::string& where() const { return where_; }
  const std::map<std::string, std::vector<const std::string*>>& tensors_of_shard() const {
    return tensors_of_shard_;
  }

 private:
  std::string where_;
  json::Value root_;  // owns the names below
  std::map<std::string, std::vector<const std::string*>> tensors_of_shard_;
};

/// "model-00002-of-00003" as (2, 3).
std::optional<std::pair<std::size_t, std::size_t>> numbered_shard(std::string_view stem) {
  const auto take_last_number = [&stem](std::string_view separator) -> std::optional<std::size_t> {
    const std::size_t at = stem.rfind(separator);
    if (at == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view digits = stem.substr(at + separator.size());
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
      return std::nullopt;
    }
    stem = stem.substr(0, at);
    return number;
  };
  const auto total = take_last_number("-of-");
  const auto number = total ? take_last_number("-") : std::nullopt;
  return number ? std::optional(std::pair(*number, *total)) : std::nullopt;
}

/// Without an index only the names "...-00002-of-00003" can tell that a shard is missing.
void refuse_missing_numbers(const fs::path& folder, const std::vector<fs::path>& paths) {
  std::set<std::size_t> numbers;
  std::size_t total = 0;
  for (const fs::path& path : paths) {
    if (const auto numbered = numbered_shard(path.stem().native())) {
      numbers.insert(numbered->first);
      total = std::max(total, numbered->second);
    }
  }
  if (numbers.size() >= total) {
    return;
  }
  std::vector<std::string> some_missing;
  for (std::size_t number = 1; number <= total && some_missing.size() <= kMaxListedShards;
       ++number) {
    if (!numbers.contains(number)) {
      some_missing.push_back(fmt::format("number {}", number));
    }
  }
  missing_shards(folder, std::move(some_missing), total - numbers.size(), total);
}

std::vector<fs::path> all_shards(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == kShardExtension) {
      paths.push_back(entry.path());
    }
  }
  if (error) {
    throw IoError(fmt::format("cannot list {}: {}", name_of(folder), error.message()));
  }
  if (paths.empty()) {
    fail("checkpoint: {} holds no {} file", name_of(folder), kShardExtension);
  }
  std::sort(paths.begin(), paths.end());
  refuse_missing_numbers(folder, paths);
  return paths;
}

template <typename T>
const T* find_by_name(const std::vector<T>& sorted, std::string_view name) noexcept {
  const auto at =
      std::lower_bound(sorted.begin(), sorted.end(), name, [](const T& t, std::string_view n) {
        return t.name < n;
      });
  return at != sorted.end() && at->name == name ? &*at : nullptr;
}

[[noreturn]] void twice(const std::string& name, const fs::path& first, const fs::path& second) {
  fail("checkpoint: tensor {} is in two shards, {} and {}",
       in_quotes(name),
       file_name_of(first),
       file_name_of(second));
}

/// Sorts by name and refuses a name that two shards hold.
template <typename T>
void sort_by_name(std::vector<T>& tensors, const std::vector<Shard>& shards) {
  std::sort(tensors.begin(), tensors.end(), [](const T& a, const T& b) {
    return std::tie(a.name, a.shard) < std::tie(b.name, b.shard);
  });
  const auto pair = std::adjacent_find(
      tensors.begin(), tensors.end(), [](const T& a, const T& b) { return a.name == b.name; });
  if (pair != tensors.end()) {
    twice(pair->name, shards[pair->shard].path, shards[std::next(pair)->shard].path);
  }
}

/// FNV-1a, 64 bits: enough to tell checkpoints apart, and a byte costs about a nanosecond.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      hash_ = (hash_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
    }
  }
  void add(std::uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  void add(std::string_view text) {
    add(text.size());  // so that ("ab", "c") and ("a", "bc") differ
    add(std::as_bytes(std::span(text)));
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& path) {
  io::refuse_unreachable("checkpoint:", path);
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const bool is_index = !is_folder && path.filename() == kIndexFileName;
  if (!is_folder && !is_index && path.extension() != kShardExtension) {
    fail("checkpoint: {} {}, expected a model folder or a {} file",
         name_of(path),
         io::is_there(path) ? "is a file" : "does not exist",
         kShardExtension);
  }
  Checkpoint checkpoint;
  checkpoint.folder_ = is_folder ? path : path.parent_path();
  if (checkpoint.folder_.empty()) checkpoint.folder_ = ".";
  const fs::path& folder = checkpoint.folder_;
  if (is_index || (is_folder && io::is_there(folder / kIndexFileName))) {
    checkpoint.read_container();
    return checkpoint;
  }
  if (is_folder) refuse_unfinished(folder);
  checkpoint.read_metadata();
  std::optional<ShardIndex> index;
  if (is_folder && io::is_there(folder / kIndexName)) {
    index.emplace(folder / kIndexName);
  }
  std::vector<fs::path> paths = {path};
  if (is_folder) {
    paths = index ? index->shard_paths(folder) : all_shards(folder);
  }
  for (const fs::path& shard : paths) {
    checkpoint.read_shard(shard);
  }
  checkpoint.sort_tensors();
  if (index) {
    for (const auto& [shard, names] : index->tensors_of_shard()) {
      for (const std::string* name : names) {
        checkpoint.check_place(*name, shard, index->where());
      }
    }
  }
  return checkpoint;
}

void Checkpoint::read_metadata() {
  if (!io::is_there(folder_ / "config.json")) {
    fail("checkpoint: {} holds no config.json, so it is no model folder", name_of(folder_));
  }
  config_ = read_json(folder_ / "config.json", kMaxConfigBytes);
  if (io::is_there(folder_ / "generation_config.json")) {
    generation_config_ = read_json(folder_ / "generation_config.json", kMaxConfigBytes);
  }
}

void Checkpoint::read_shard(const std::filesystem::path& path) {
  io::File file = io::File::open(path);
  const std::string shard_name = name_of(path);
  std::array<std::byte, 8> first_bytes{};
  const std::size_t n_first = std::min<std::uint64_t>(first_bytes.size(), file.size_bytes());
  file.read_exactly(std::span(first_bytes).first(n_first), 0);
  const std::uint64_t length = header_bytes(first_bytes, file.size_bytes(), shard_name);
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read_exactly(std::as_writable_bytes(std::span(text)), first_bytes.size());
  Header header = parse_header(text, file.size_bytes(), shard_name);
  for (TensorInfo& tensor : header.tensors) {
    tensor.shard = shards_.size();
    tensors_.push_back(std::move(tensor));
  }
  for (ForeignTensor& tensor : header.foreign) {
    tensor.shard = shards_.size();
    foreign_.push_back(std::move(tensor));
  }
  shards_.push_back({.path = path, .size_bytes = file.size_bytes()});
  files_.push_back(std::move(file));
}

void Checkpoint::sort_tensors() {
  sort_by_name(tensors_, shards_);
  sort_by_name(foreign_, shards_);
  sort_by_name(panels_, shards_);
  for (const ForeignTensor& foreign : foreign_) {
    if (const TensorInfo* other = find(foreign.name)) {
      twice(foreign.name, shards_[foreign.shard].path, shards_[other->shard].path);
    }
  }
}

void Checkpoint::check_place(const std::string& name,
                             const std::string& shard,
                             const std::string& index_name) const {
  const TensorInfo* tensor = find(name);
  const ForeignTensor* foreign = tensor == nullptr ? find_foreign(name) : nullptr;
  if (tensor == nullptr && foreign == nullptr) {
    fail("{}: tensor {} should be in shard {}, which lacks it",
         index_name,
         in_quotes(name),
         in_quotes(shard));
  }
  const fs::path& found = shards_[tensor != nullptr ? tensor->shard : foreign->shard].path;
  if (found.filename() != shard) {
    fail("{}: tensor {} should be in shard {}, but is in {}",
         index_name,
         in_quotes(name),
         in_quotes(shard),
         file_name_of(found));
  }
}

const TensorInfo* Checkpoint::find(std::string_view name) const noexcept {
  return find_by_name(tensors_, name);
}

const ForeignTensor* Checkpoint::find_foreign(std::string_view name) const noexcept {
  return find_by_name(foreign_, name);
}

const PanelTensor* Checkpoint::find_panels(std::string_view name) const noexcept {
  return find_by_name(panels_, name);
}

void Checkpoint::map() {
  if (!mappings_.empty()) return;
  mappings_.reserve(files_.size());
  for (const io::File& file : files_) {
    mappings_.emplace_back(file);
  }
}

std::span<const std::byte> Checkpoint::mapped(std::size_t shard,
                                              std::uint64_t at,
                                              std::uint64_t n) const {
  FT_CHECK(shard < mappings_.size());
  return mappings_[shard].bytes().subspan(static_cast<std::size_t>(at),
                                          static_cast<std::size_t>(n));
}

std::span<const std::byte> Checkpoint::bytes(const TensorInfo& tensor) const {
  return mapped(tensor.shard, tensor.offset_bytes, tensor.size_bytes);
}

std::span<const std::byte> Checkpoint::bytes(const ForeignTensor& tensor) const {
  return mapped(tensor.shard, tensor.offset_bytes, tensor.size_bytes);
}

void Checkpoint::read(std::size_t shard,
                      std::uint64_t offset,
                      std::span<std::byte> destination) const {
  files_[shard].read_exactly(destination, offset);
}

std::string Checkpoint::fingerprint() const {
  if (index_) return checksum_text(index_checksum_);
  Fingerprint print;
  // From the middle: the first rows may be padding or rare tokens.
  const auto add_sample = [&print](std::span<const std::byte> all) {
    constexpr std::size_t kSampleBytes = 512;
    const std::size_t n = std::min(all.size(), kSampleBytes);
    print.add(all.subspan((all.size() - n) / 2, n));
  };
  for (const TensorInfo& tensor : tensors_) {
    print.add(tensor.name);
    print.add(dtype_name(tensor.dtype));
    print.add(tensor.shape.size());
    for (const std::uint64_t dimension : tensor.shape) {
      print.add(dimension);
    }
    add_sample(bytes(tensor));
  }
  for (const ForeignTensor& tensor : foreign_) {  // integers by rows among them
    print.add(tensor.name);
    print.add(tensor.dtype);
    add_sample(bytes(tensor));
  }
  return print.text();
}

}  // namespace ft::checkpoint
