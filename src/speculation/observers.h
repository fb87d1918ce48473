// What a session's sources want from a forward, and how they are shown what became of it. Internal
// to the round and to prefill.
#pragma once

#include "base/types.h"
#include "speculation/decode_round.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <span>
#include <vector>

namespace ft::speculation {

/// The layers any source taps, each once, ascending: what forward() is asked for.
std::vector<LayerIndex> tapped_layers(std::span<DraftSource* const> sources);

/// Fed and committed positions first_position … first_position + n_rows - 1. taps: one matrix per
/// entry of `layers`, with at least n_rows rows; further rows belong to rejected drafts and are not
/// shown.
struct CommittedRows {
  std::size_t first_position = 0;
  std::size_t n_rows = 0;
  std::span<const LayerIndex> layers;
  std::span<const ConstMatrix> taps;
};

/// Shows state.tokens and the rows to every source, each with its own taps. If one throws, the
/// others still see them; the first exception is passed on afterwards.
void show_all(RoundState& state, const CommittedRows& rows);

/// Undoes a forward whose results are not kept. Leaves the cache as it is if it cannot go back so
/// far.
void roll_back(cache::KvCache& cache, std::size_t old_length);

}  // namespace ft::speculation
