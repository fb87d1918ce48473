// Random checkpoints of the GLM-5 family, small enough to write in a millisecond. Linked by tests
// only. The oracle's own random checkpoints come from tests/oracle/make_model.py; these serve tests
// that need no oracle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ft::testing {

enum class TinyFormat { kF32, kBf16, kFp8 };

struct TinyGlmOptions {
  std::uint32_t seed = 1;
  TinyFormat format = TinyFormat::kF32;
  std::string indexer_types = "FFSSF";  // one letter per layer: full or shared
  std::size_t n_dense = 1;              // first layers without experts
  std::size_t index_topk = 6;
  std::size_t n_heads = 3;
  std::size_t n_shared_experts = 1;
  std::size_t n_groups = 1;
  std::size_t n_kept_groups = 1;
  std::size_t fp8_block = 16;  // rows and columns per scale
  bool has_draft_layer = true;
};

struct TinyTensor {
  std::string dtype;  // safetensors spelling
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

/// A checkpoint in memory. Tests change it before writing it.
struct TinyGlm {
  std::map<std::string, std::string> config;  // key: JSON text of its value
  std::map<std::string, TinyTensor> tensors;

  std::string config_json() const;
  /// Creates the folder and writes config.json and one shard into it.
  void write(const std::filesystem::path& folder) const;
};

inline constexpr std::size_t kTinyVocab = 50;
inline constexpr std::size_t kTinyWidth = 24;  // hidden_size
inline constexpr std::size_t kTinyContext = 128;

/// Matrices are N(0, 1/n_in), so that every part changes the result; the same seed gives the same
/// bytes everywhere.
TinyGlm make_tiny_glm(const TinyGlmOptions& options);

}  // namespace ft::testing
