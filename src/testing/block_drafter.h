// A block drafter without weights: what a trained one (DFlash, DSpark, EAGLE-3) does with the
// target's taps, embedding and output head, and a check of every feature row it reads.
#pragma once

#include "speculation/draft_source.h"
#include "speculation/feature_ring.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::testing {

/// Throws if `row` is not the feature row of `position`, the last one of `tokens`.
using FeatureCheck = std::function<void(TokenSpan tokens, std::span<const float> row)>;

struct BlockDrafterOptions {
  std::vector<LayerIndex> taps = {1, 3};  // one of them the number of layers: after the final norm
  std::size_t block = 4;                  // drafts of a trained block
  std::size_t window = 12;
  FeatureCheck check;  // may be empty
};

/// Every row that FakeModel spells out under these taps.
FeatureCheck fake_feature_check(std::vector<LayerIndex> taps);

/// Looks for the latest position whose token has the pending token's embedding; the final hidden
/// rows from there on are its guess of the rows to come, and all are projected at once.
class BlockDrafter final : public speculation::DraftSource {
 public:
  BlockDrafter(BlockDrafterOptions options, const speculation::SourceContext& context);

  std::string_view name() const noexcept override { return "block"; }
  std::span<const LayerIndex> taps() const noexcept override { return options_.taps; }
  void observe(const speculation::Committed& committed) override;
  speculation::Draft propose(const speculation::DraftRequest& request,
                             std::stop_token stop) override;
  std::unique_ptr<speculation::SourceState> save(std::size_t n_tokens) const override;
  bool restore(const speculation::SourceState& state, std::size_t n_tokens) override;

  const speculation::FeatureRing& ring() const noexcept { return ring_; }
  /// Rows that were read and checked.
  std::size_t n_checked() const noexcept { return n_checked_; }

 private:
  struct State final : speculation::SourceState {
    explicit State(speculation::FeatureRing of) : ring(std::move(of)) {}
    speculation::FeatureRing ring;
  };

  void check_rows();
  std::size_t find_match();

  BlockDrafterOptions options_;
  std::size_t final_tap_ = 0;
  const models::Model& model_;
  sampling::Sampler& sampler_;
  std::unique_ptr<models::Workspace> workspace_;
  speculation::FeatureRing ring_;
  std::size_t n_prompt_ = 0;
  std::size_t n_checked_ = 0;
};

class BlockDraftProvider final : public speculation::DraftProvider {
 public:
  explicit BlockDraftProvider(BlockDrafterOptions options) : options_(std::move(options)) {}
  std::unique_ptr<speculation::DraftSource> open(
      const speculation::SourceContext& context) const override {
    return std::make_unique<BlockDrafter>(options_, context);
  }

 private:
  BlockDrafterOptions options_;
};

}  // namespace ft::testing
