// What one sequence asks of a forward and what it gets of it. A forward may be shared: the rows of
// a sequence do not depend on those of the others, so each takes its own and never learns who else
// was there.
#pragma once

#include "base/clock.h"
#include "base/types.h"
#include "base/work_meter.h"
#include "experts/expert_store.h"
#include "models/model.h"
#include "speculation/cost_curve.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace ft::speculation {

/// A sequence's part in the next forward. Views of whoever asks, until the forward is done.
struct ForwardPart {
  models::SequenceSlice slice;
  std::span<const LayerIndex> layers;  // taps it needs, ascending; the forward may have more
  TokenSpan hints = {};                // not fed: tokens that may come next
};

/// A sequence's rows of a forward. Views that die at the next one.
struct ForwardShare {
  ConstMatrix logits;                  // of its last n_logits rows
  std::span<const LayerIndex> layers;  // all taps of the forward, ascending; dies with the forward
  std::vector<ConstMatrix> taps;       // by layer, its own rows
  // What the forward took; of a shared one, an equal part of what no row adds and, of the rest,
  // what its rows are of all rows: together the sharers pay for it once.
  std::int64_t forward_us = 0;
  std::int64_t stall_us = 0;        // of it: computing waited for experts
  std::uint64_t missing_bytes = 0;  // of the experts that had to be read
};

/// What a forward runs on.
struct ForwardContext {
  const models::Model& model;
  models::Workspace& workspace;
  const Clock& clock;
  const experts::ExpertStore* store = nullptr;  // null: experts are resident
  WorkMeter* meter = nullptr;                   // told of the work; null: nobody is
  ForwardCosts* costs = nullptr;                // of forwards on this machine, which this one adds
                                                // to; null: nothing is known of them
};

/// One forward for all its parts.
class SharedForward {
 public:
  /// Runs it. At least one part, each of another cache; those whose rows want no logits come best
  /// first: a model may leave out what nobody sees of the rows at the front. Hints count for a lone
  /// part. Throws what Model::forward throws; every cache is then at its old length.
  SharedForward(const ForwardContext& context,
                std::span<const ForwardPart> parts,
                const std::stop_token& stop);

  /// That of part i.
  const ForwardShare& share(std::size_t i) const noexcept { return shares_[i]; }

 private:
  void share_out(const models::ForwardOutput& out, std::span<const ForwardPart> parts);
  void share_costs(ForwardCosts* costs, std::span<const ForwardPart> parts);

  std::vector<LayerIndex> layers_;
  std::vector<ForwardShare> shares_;
  std::int64_t forward_us_ = 0;
  std::int64_t stall_us_ = 0;
  std::uint64_t missing_bytes_ = 0;
};

}  // namespace ft::speculation
