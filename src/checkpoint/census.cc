// The comparison of what a model needs with what a checkpoint has.
#include "base/error.h"
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace ft::checkpoint {
namespace {

// Enough for a person to see what is wrong; a list of 60,000 names is not.
constexpr std::size_t kMaxListed = 6;
constexpr std::int64_t kNoLayer = -1;

/// A tensor name with its layer and expert numbers taken out:
/// "model.layers.*.mlp.experts.*.up_proj.weight".
struct NamePattern {
  std::string text;
  std::int64_t layer = kNoLayer;
};

/// Replaces the number between `marker` and the next dot by '*'; returns it, or kNoLayer if there
/// is none.
std::int64_t take_number(std::string& name, std::string_view marker) {
  const std::size_t at = name.find(marker);
  if (at == std::string::npos) {
    return kNoLayer;
  }
  const char* begin = name.data() + at + marker.size();
  const char* end = name.data() + name.size();
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc{} || number < 0 || stop == end || *stop != '.') {
    return kNoLayer;
  }
  name.replace(at + marker.size(), static_cast<std::size_t>(stop - begin), "*");
  return number;
}

NamePattern pattern_of(const std::string& name) {
  NamePattern pattern{.text = name};
  pattern.layer = take_number(pattern.text, ".layers.");
  take_number(pattern.text, ".experts.");
  return pattern;
}

/// {3, 5, 6, 7} as "layers 3, 5-7".
std::string layer_ranges(const std::set<std::int64_t>& layers) {
  std::string text;
  for (auto first = layers.begin(); first != layers.end();) {
    auto last = first;
    auto next = std::next(first);
    while (next != layers.end() && *next == *last + 1) {
      last = next++;
    }
    text += text.empty() ? "" : ", ";
    text += first == last ? std::to_string(*first) : fmt::format("{}-{}", *first, *last);
    first = next;
  }
  return (layers.size() == 1 ? "layer " : "layers ") + text;
}

/// What is missing, folded by layer and by kind of tensor.
class MissingReport {
 public:
  void add(const std::string& name, bool is_present) {
    NamePattern pattern = pattern_of(name);
    Layer& layer = layers_[pattern.layer];
    layer.has_any = layer.has_any || is_present;
    if (!is_present) {
      layer.missing.insert(std::move(pattern.text));
      ++n_missing_;
    }
  }

  std::size_t n_missing() const { return n_missing_; }

  std::string text() const {
    std::vector<std::string> parts;
    std::set<std::int64_t> absent;
    std::map<std::string, std::set<std::int64_t>> partial;
    for (const auto& [layer, content] : layers_) {
      if (layer != kNoLayer && !content.has_any) {
        absent.insert(layer);
        continue;
      }
      for (const std::string& pattern : content.missing) {
        partial[pattern].insert(layer);
      }
    }
    if (!absent.empty()) {
      parts.push_back("everything of " + layer_ranges(absent));
    }
    for (const auto& [pattern, layers] : partial) {
      parts.push_back(in_quotes(pattern) +
                      (layers.contains(kNoLayer) ? "" : " of " + layer_ranges(layers)));
    }
    if (parts.size() > kMaxListed) {
      const std::size_t n_more = parts.size() - kMaxListed;
      parts.resize(kMaxListed);
      parts.push_back(fmt::format("and {} more kinds", n_more));
    }
    return fmt::format("{}", fmt::join(parts, "; "));
  }

 private:
  struct Layer {
    bool has_any = false;
    std::set<std::string> missing;  // patterns
  };
  std::map<std::int64_t, Layer> layers_;
  std::size_t n_missing_ = 0;
};

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string dtype_list(const std::vector<DType>& dtypes) {
  std::vector<std::string_view> names;
  names.reserve(dtypes.size());
  for (const DType dtype : dtypes) {
    names.push_back(dtype_name(dtype));
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

[[noreturn]] void wrong_dtype(const TensorRequirement& required,
                              std::string_view found,
                              const Shard& shard) {
  fail("checkpoint: tensor {} has dtype {}, expected {} (shard {})",
       in_quotes(required.name),
       in_quotes(found),
       dtype_list(required.dtypes),
       in_quotes(shard.path.filename().native()));
}

}  // namespace

void Checkpoint::census(const std::vector<TensorRequirement>& required) const {
  MissingReport report;
  for (const TensorRequirement& requirement : required) {
    const bool is_present =
        find(requirement.name) != nullptr || find_foreign(requirement.name) != nullptr;
    report.add(requirement.name, is_present);
  }
  if (report.n_missing() != 0) {
    fail(
        "checkpoint: {} lacks {} of {} required tensors: {}; the folder is incomplete or its "
        "config.json belongs to another model",
        in_quotes(folder_.native()),
        report.n_missing(),
        required.size(),
        report.text());
  }
  for (const TensorRequirement& requirement : required) {
    if (const ForeignTensor* foreign = find_foreign(requirement.name)) {
      wrong_dtype(requirement, foreign->dtype, shards_[foreign->shard]);
    }
    const TensorInfo& found = *find(requirement.name);
    if (found.shape != requirement.shape) {
      fail("checkpoint: tensor {} has shape {}, expected {} (shard {})",
           in_quotes(found.name),
           shape_text(found.shape),
           shape_text(requirement.shape),
           in_quotes(shards_[found.shard].path.filename().native()));
    }
    if (std::find(requirement.dtypes.begin(), requirement.dtypes.end(), found.dtype) ==
        requirement.dtypes.end()) {
      wrong_dtype(requirement, dtype_name(found.dtype), shards_[found.shard]);
    }
  }
}

}  // namespace ft::checkpoint
