// The small files of a random model: GLM-5.2's config.json with any number of layers and narrower
// widths, and a tokenizer that has a text for every id.
#pragma once

#include <cstddef>
#include <string>

namespace ft::models {

/// GLM-5.2's shape (docs/model.md, section 2.1). What is not here is the released model's.
struct SyntheticShape {
  std::size_t n_layers = 0;
  std::size_t n_dense_layers = 3;  // of these, the first ones
  bool has_mtp = false;            // a next-token layer behind them

  std::size_t d_model = 6144;
  std::size_t n_heads = 64;
  std::size_t q_rank = 2048;
  std::size_t latent_dim = 512;
  std::size_t nope_dim = 192;
  std::size_t rope_dim = 64;
  std::size_t value_dim = 256;
  std::size_t dense_width = 12288;
  std::size_t expert_width = 2048;
  std::size_t n_experts = 256;
  std::size_t n_active = 8;
  std::size_t index_heads = 32;
  std::size_t index_dim = 128;
  std::size_t n_vocab = 154880;

  std::size_t key_dim() const noexcept { return latent_dim + rope_dim; }
  std::size_t query_dim() const noexcept { return nope_dim + rope_dim; }
  bool is_sparse(std::size_t layer) const noexcept { return layer >= n_dense_layers; }
  /// The released schedule: 0, 1, 2, 6, 10, ...; the next-token layer has its own indexer.
  bool has_indexer(std::size_t layer) const noexcept {
    return layer >= n_layers || layer < 3 || (layer - 2) % 4 == 0;
  }
};

/// The released model with `n_layers` layers, and widths, heads and vocabulary of `fraction` (0 <
/// fraction <= 1) of its own, widths in whole multiples of 64; head sizes, experts and their choice
/// stay. Throws InvalidInput for counts and fractions that cannot be.
SyntheticShape synthetic_shape(std::size_t n_layers, double fraction);

std::string synthetic_config(const SyntheticShape& shape);
std::string synthetic_generation_config(const SyntheticShape& shape);
/// Byte-level: every byte is a token, and so are GLM's special tokens at their places from the end
/// of the vocabulary; the ids between have harmless words that no text encodes to.
std::string synthetic_tokenizer(const SyntheticShape& shape);

}  // namespace ft::models
