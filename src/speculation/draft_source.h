// Where drafts come from. A provider lives as long as the model and owns draft weights; a source
// belongs to one session and owns draft-side state only: it never touches the target, the grammar
// or the history.
#pragma once

#include "base/types.h"
#include "base/work_meter.h"
#include "cache/kv_cache.h"
#include "models/draft_head.h"
#include "models/model.h"
#include "sampling/sampler.h"
#include "speculation/offer.h"
#include "tensor/matrix.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

namespace ft::speculation {

/// What the sequence is now. Delivered after every prefill chunk (with the whole prompt as
/// `sequence`), after the first token (no rows) and after every round.
struct Committed {
  TokenSpan sequence;  // the whole committed sequence, the pending token included
  std::size_t n_prompt = 0;
  /// So many leading tokens are known to be those of the last call for this sequence; what is
  /// behind them may have changed. Saves a source the comparison, nothing else.
  std::size_t n_same = 0;
  std::size_t first_position = 0;  // of the tapped rows
  std::size_t n_rows =
      0;  // fed and committed positions first_position … first_position + n_rows - 1
  std::span<const ConstMatrix>
      taps;  // one [n_rows, d_model] per entry of taps(); die at the next forward
};

/// What a round wants of a source.
struct DraftRequest {
  std::size_t max_tokens = 0;
  /// Drafts of another source in the same window: the wanted ones follow them. A source that cannot
  /// go on behind tokens it did not draft returns none.
  TokenSpan ahead = {};
  /// Ratio mode: a draft that is sampled is drawn with the noise of `attempt`, and comes with its
  /// law. Else it is drawn with the target's own noise, without.
  bool wants_laws = false;
  std::uint64_t attempt = 0;
};

/// Tokens that may follow the committed sequence and the request's `ahead`.
struct Draft {
  std::vector<Token> tokens;
  /// [tokens.size(), n_vocab]: the law each was drawn from, as it was sampled. Empty: the tokens
  /// follow from what is before them without a draw.
  std::vector<float> laws;
};

/// What a source keeps that does not follow from the committed tokens, apart from the source: a
/// value that nobody changes.
class SourceState {
 public:
  virtual ~SourceState() = default;
};

/// propose() in pieces, of a source whose drafts come from steps of the model's next-token head:
/// between them the head works, for this sequence alone or for many at once.
class HeadDrafter {
 public:
  virtual ~HeadDrafter() = default;
  /// As propose(), up to the first step. The request's `ahead` is for the call alone.
  virtual void begin(const DraftRequest& request) = 0;
  /// What the head is to do next, a view until take(); nullopt: the draft is complete.
  virtual std::optional<models::DraftSlice> next() = 0;
  virtual void take(const models::DraftStep& step) = 0;
  /// The draft. Needed whatever happened since begin(): what steps left behind is dropped.
  virtual Draft end() = 0;
};

class DraftSource {
 public:
  static constexpr std::size_t kAllTokens = std::numeric_limits<std::size_t>::max();

  virtual ~DraftSource() = default;
  /// For logs and metrics only.
  virtual std::string_view name() const noexcept = 0;
  /// Hidden rows it wants from every forward (n_layers: after the final norm).
  virtual std::span<const LayerIndex> taps() const noexcept { return {}; }
  /// "The sequence is now exactly this." The source makes its own state agree, rewinding if needed.
  /// A gap (first_position beyond what it has seen) is legal: it then drafts from what it has, or
  /// not at all.
  virtual void observe(const Committed& committed) = 0;
  /// At most max_tokens drafts; an empty draft is a normal answer. If it throws, the source is as
  /// before the call.
  virtual Draft propose(const DraftRequest& request, std::stop_token stop) = 0;
  /// For drafting in company; null: the source has no such steps.
  virtual HeadDrafter* head_drafter() noexcept { return nullptr; }
  /// What propose(max_tokens) would return, of sources that can tell in next to no time; nullopt:
  /// only drafting tells.
  virtual std::optional<Offer> offer(std::size_t /*max_tokens*/) { return std::nullopt; }
  /// Its own cache, for counts of memory and tests; nullptr if it has none.
  virtual cache::KvCache* cache() noexcept { return nullptr; }

  /// A copy of all that its drafts depend on beside the tokens; null if observe() of the tokens
  /// alone rebuilds it. Whoever uses it has at most the first n_tokens of the sequence in common:
  /// what belongs to later ones can be left out. Not while propose() runs.
  virtual std::unique_ptr<SourceState> save(std::size_t /*n_tokens*/) const { return nullptr; }
  /// For a source that has observed nothing: to be as the one that saved, as far as the first
  /// n_tokens go. False if it cannot use this state; then nothing has changed, and it goes on with
  /// a gap. The session observes next.
  virtual bool restore(const SourceState& /*state*/, std::size_t /*n_tokens*/) { return false; }
  /// All of a source that is not used any more: it may hand over what it has, so that nothing is
  /// held twice.
  virtual std::unique_ptr<SourceState> release() { return save(kAllTokens); }
  /// restore() of a state that nobody else needs: it may be taken apart.
  virtual bool adopt(SourceState& state) { return restore(state, kAllTokens); }
  /// Counts changes of what save() means; states of another version are not offered to restore().
  virtual std::uint32_t state_version() const noexcept { return 1; }
};

/// What a source may borrow for the life of its session.
struct SourceContext {
  const models::Model* model = nullptr;
  sampling::Sampler* sampler =
      nullptr;  // the request's: sources that sample use its law and its noise keys
  cache::CacheOptions cache_options;
  TokenSpan prediction = {};       // the output that the caller expects; for the call alone
  std::size_t history_tokens = 0;  // of earlier sessions that lookups may remember
  WorkMeter* meter = nullptr;      // of the request, for forwards of the source's own; may be null
};

class DraftProvider {
 public:
  virtual ~DraftProvider() = default;
  virtual std::unique_ptr<DraftSource> open(const SourceContext& context) const = 0;
};

/// The provider `name` ("none", "mtp", "ngram", ...) for this model. Throws InvalidInput for an
/// unknown name (listing the known ones) and for a source the model cannot feed (mtp without a
/// complete next-token layer, saying so).
std::unique_ptr<DraftProvider> make_draft_provider(std::string_view name,
                                                   const models::Model& model);

/// Names of all sources this model can feed, in the order the planner should prefer on ties. `none`
/// is not listed.
std::vector<std::string_view> available_sources(const models::Model& model);

}  // namespace ft::speculation
