// Latent attention and indexer scores.
#include "kernels/cpu/ref/ref_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ft::kernels::ref {
namespace {

const float* key_row(const KeySet& set, std::size_t index, std::size_t stride) {
  const std::size_t position =
      set.positions != nullptr ? static_cast<std::size_t>(set.positions[index]) : index;
  return set.keys + position * stride;
}

float dot(const float* a, const float* b, std::size_t n) {
  float sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// A softmax-weighted sum in progress: weights are exp(score - max), `sum` their sum, `z` the
/// weighted keys.
struct Partial {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
  float* z = nullptr;
};

/// One chunk of keys on its own.
void attend_chunk(const AttentionArgs& args,
                  const KeySet& set,
                  const float* q,
                  std::size_t begin,
                  std::size_t end,
                  Partial& partial) {
  float scores[kKeyChunk];
  partial.max = -std::numeric_limits<float>::infinity();
  for (std::size_t j = begin; j < end; ++j) {
    scores[j - begin] = args.scale * dot(q, key_row(set, j, args.key_dim), args.key_dim);
    partial.max = std::max(partial.max, scores[j - begin]);
  }
  partial.sum = 0;
  std::fill(partial.z, partial.z + args.latent_dim, 0.0f);
  for (std::size_t j = begin; j < end; ++j) {
    const float weight = std::exp(scores[j - begin] - partial.max);
    const float* key = key_row(set, j, args.key_dim);
    partial.sum += weight;
    for (std::size_t i = 0; i < args.latent_dim; ++i) {
      partial.z[i] += weight * key[i];
    }
  }
}

/// Adds a chunk to what precedes it. The first chunk meets max = -infinity, whose factor is 0.
void merge(const Partial& chunk, std::size_t latent_dim, Partial& total) {
  const float max = std::max(total.max, chunk.max);
  const float keep = std::exp(total.max - max);
  const float take = std::exp(chunk.max - max);
  total.max = max;
  total.sum = total.sum * keep + chunk.sum * take;
  for (std::size_t i = 0; i < latent_dim; ++i) {
    total.z[i] = total.z[i] * keep + chunk.z[i] * take;
  }
}

}  // namespace

void attend(const AttentionArgs& args, const AttendTask& task) noexcept {
  const KeySet& set = args.sets[task.row];
  for (std::size_t head = task.head_begin; head < task.head_end; ++head) {
    const float* q = args.q.data + task.row * args.q.stride + head * args.key_dim;
    Partial chunk;
    chunk.z = task.scratch;
    Partial total;
    total.z = args.z.data + task.row * args.z.stride + head * args.latent_dim;
    std::fill(total.z, total.z + args.latent_dim, 0.0f);
    for (std::size_t begin = 0; begin < set.n; begin += kKeyChunk) {
      attend_chunk(args, set, q, begin, std::min(begin + kKeyChunk, set.n), chunk);
      merge(chunk, args.latent_dim, total);
    }
    for (std::size_t i = 0; i < args.latent_dim; ++i) {
      total.z[i] /= total.sum;
    }
  }
}

void index_scores(const IndexScoreArgs& args, const IndexScoreTask& task) noexcept {
  const KeySet& set = args.sets[task.row];
  const float* gates = args.gate.data + task.row * args.gate.stride;
  float* scores = args.scores.data + task.row * args.scores.stride;
  for (std::size_t s = task.key_begin; s < task.key_end; ++s) {
    float score = 0;
    for (std::size_t head = 0; head < args.n_heads; ++head) {
      const float* q = args.q.data + task.row * args.q.stride + head * args.head_dim;
      const float product = args.scale * dot(q, set.keys + s * args.head_dim, args.head_dim);
      score += gates[head] * std::max(product, 0.0f);
    }
    scores[s] = score;
  }
}

}  // namespace ft::kernels::ref
