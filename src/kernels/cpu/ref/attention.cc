// Latent attention and indexer scores.
#include "kernels/cpu/ref/ref_kernels.h"
#include "tensor/formats/float_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ft::kernels::ref {
namespace {

/// Where the converted row of a cache that is not f32 lies in a task's scratch memory.
constexpr std::size_t kRowOffset = kMaxKeyDim;
static_assert(kRowOffset + kMaxKeyDim <= kScratchFloats);

/// Row `index` of `rows` in f32: in place, or converted into `scratch`.
const float* row_of(
    const void* rows, DType dtype, std::size_t index, std::size_t n_columns, float* scratch) {
  const std::size_t row_bytes = n_columns * element_bytes(dtype);
  const std::byte* row = static_cast<const std::byte*>(rows) + index * row_bytes;
  if (dtype == DType::kF32) {
    return static_cast<const float*>(rows) + index * n_columns;
  }
  convert_to_float(dtype, {row, row_bytes}, {scratch + kRowOffset, n_columns});
  return scratch + kRowOffset;
}

const float* key_row(const AttendTask& task, std::size_t index) {
  const KeySet& set = task.set;
  const std::size_t position =
      set.positions != nullptr ? static_cast<std::size_t>(set.positions[index]) : index;
  return row_of(set.keys, set.dtype, position, task.key_dim, task.scratch);
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
void attend_chunk(
    const AttendTask& task, const float* q, std::size_t begin, std::size_t end, Partial& partial) {
  float scores[kKeyChunk];
  partial.max = -std::numeric_limits<float>::infinity();
  for (std::size_t j = begin; j < end; ++j) {
    scores[j - begin] = task.scale * dot(q, key_row(task, j), task.key_dim);
    partial.max = std::max(partial.max, scores[j - begin]);
  }
  partial.sum = 0;
  std::fill(partial.z, partial.z + task.latent_dim, 0.0f);
  for (std::size_t j = begin; j < end; ++j) {
    const float weight = std::exp(scores[j - begin] - partial.max);
    const float* key = key_row(task, j);
    partial.sum += weight;
    for (std::size_t i = 0; i < task.latent_dim; ++i) {
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

void attend(const AttendTask& task) noexcept {
  for (std::size_t head = 0; head < task.n_heads; ++head) {
    const float* q = task.q + head * task.key_dim;
    Partial chunk;
    chunk.z = task.scratch;
    Partial total;
    total.z = task.z + head * task.latent_dim;
    std::fill(total.z, total.z + task.latent_dim, 0.0f);
    for (std::size_t begin = 0; begin < task.set.n; begin += kKeyChunk) {
      attend_chunk(task, q, begin, std::min(begin + kKeyChunk, task.set.n), chunk);
      merge(chunk, task.latent_dim, total);
    }
    for (std::size_t i = 0; i < task.latent_dim; ++i) {
      total.z[i] /= total.sum;
    }
  }
}

void widen(const std::uint16_t* from, std::size_t n, float* to) noexcept {
  std::transform(from, from + n, to, bf16_to_float);
}

void index_scores(const IndexScoreTask& task) noexcept {
  for (std::size_t s = 0; s < task.n_keys; ++s) {
    const float* key = row_of(task.keys, task.dtype, s, task.head_dim, task.scratch);
    float score = 0;
    for (std::size_t head = 0; head < task.n_heads; ++head) {
      const float product = task.scale * dot(task.q + head * task.head_dim, key, task.head_dim);
      score += task.gates[head] * std::max(product, 0.0f);
    }
    task.scores[s] = score;
  }
}

}  // namespace ft::kernels::ref
