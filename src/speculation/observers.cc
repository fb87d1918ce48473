#include "speculation/observers.h"

#include "base/error.h"

#include <algorithm>
#include <exception>

namespace ft::speculation {

std::vector<LayerIndex> tapped_layers(std::span<DraftSource* const> sources) {
  std::vector<LayerIndex> layers;
  for (const DraftSource* source : sources) {
    const std::span<const LayerIndex> taps = source->taps();
    layers.insert(layers.end(), taps.begin(), taps.end());
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

void show_all(RoundState& state, const CommittedRows& rows) {
  const StageScope stage(state.meter, Stage::kDraft);
  std::exception_ptr failure;
  std::vector<ConstMatrix> taps;
  for (DraftSource* source : state.sources) {
    taps.clear();
    for (const LayerIndex layer : source->taps()) {
      const auto at = std::lower_bound(rows.layers.begin(), rows.layers.end(), layer);
      FT_CHECK(at != rows.layers.end() && *at == layer);
      ConstMatrix matrix = rows.taps[static_cast<std::size_t>(at - rows.layers.begin())];
      FT_CHECK(matrix.n_rows >= rows.n_rows);
      matrix.n_rows = rows.n_rows;
      taps.push_back(matrix);
    }
    try {
      source->observe({.sequence = *state.tokens,
                       .n_prompt = state.n_prompt,
                       .n_same = state.n_shown,
                       .first_position = rows.first_position,
                       .n_rows = rows.n_rows,
                       .taps = taps});
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  // Rounds only add tokens. After a failure a source may have seen less.
  state.n_shown = failure ? 0 : state.tokens->size();
  if (failure) std::rethrow_exception(failure);
}

void roll_back(cache::KvCache& cache, std::size_t old_length) {
  if (cache.length() - old_length <= cache.rollback_limit()) cache.truncate(old_length);
}

}  // namespace ft::speculation
