#include "testing/fake_model.h"

#include "base/error.h"
#include "base/random.h"

#include <algorithm>
#include <array>
#include <limits>

namespace ft::testing {
namespace {

constexpr std::size_t kLayers = 3;

// A hidden row spells out the state: everything in it is a whole number below 2^24, exact in f32.
constexpr std::size_t kHidden = 12;
constexpr std::size_t kLength = 8;
constexpr std::size_t kIsChained = 11;

// The finaliser of SplitMix64 (Steele et al. 2014).
std::uint64_t mix(std::uint64_t key, std::uint64_t value) {
  std::uint64_t z = key * 0x9E3779B97F4A7C15u + value + 1;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void spell(std::uint64_t value, std::span<float> out) {
  for (float& piece : out) {
    piece = static_cast<float>(value & 0xFFFF);
    value >>= 16;
  }
}

std::uint64_t read(std::span<const float> in) {
  std::uint64_t value = 0;
  for (std::size_t i = in.size(); i-- > 0;) value = value << 16 | static_cast<std::uint64_t>(in[i]);
  return value;
}

void write_hidden(const FakeState& state, bool is_chained, std::span<float> row) {
  spell(state.recurrent, row.subspan(0, 4));
  spell(state.attention, row.subspan(4, 4));
  row[kLength] = static_cast<float>(state.length);
  row[9] = static_cast<float>(state.last);
  row[10] = static_cast<float>(state.before_last);
  row[kIsChained] = is_chained ? 1 : 0;
}

FakeState read_hidden(std::span<const float> row) {
  FakeState state;
  state.recurrent = read(row.subspan(0, 4));
  state.attention = read(row.subspan(4, 4));
  state.length = static_cast<std::size_t>(row[kLength]);
  state.last = static_cast<Token>(row[9]);
  state.before_last = static_cast<Token>(row[10]);
  return state;
}

// A residual's rows are those after the final norm with all signs turned, and say which layer's: a
// source that mixes up its taps gets nonsense.
float residual_of(float x, LayerIndex layer) {
  return -x - 1 - static_cast<float>(layer);
}

std::uint64_t digest(const FakeModelOptions& options, const FakeState& state) {
  if (options.is_repetitive) {
    return mix(static_cast<std::uint64_t>(state.last) + 1,
               static_cast<std::uint64_t>(state.before_last) + 1);
  }
  return mix(state.recurrent, state.attention);
}

void write_logits(const FakeModelOptions& options, std::uint64_t key, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double u = noise_uniform(key, NoisePurpose::kDraft, 1, static_cast<std::uint32_t>(i));
    out[i] = static_cast<float>(6 * u);
  }
  out[static_cast<std::size_t>(options.eos_token)] -= 2;  // texts of a few dozen tokens
}

class FakeHeadWorkspace final : public models::Workspace {
 public:
  std::vector<FakeHeadResult> results;
  std::vector<models::DraftStep> steps;  // views of them
};

}  // namespace

FakeState advance(const FakeState& state, Token token) {
  FakeState next;
  const auto value = static_cast<std::uint64_t>(token) + 1;
  next.recurrent = mix(state.recurrent, value);
  next.attention = state.attention + mix(value, state.length);
  next.length = state.length + 1;
  next.last = token;
  next.before_last = state.last;
  return next;
}

FakeCache::FakeCache(std::size_t max_tokens, std::optional<std::size_t> rollback_window)
    : max_tokens_(max_tokens), rollback_window_(rollback_window), recurrent_{0} {}

std::size_t FakeCache::rollback_limit() const noexcept {
  return rollback_window_.value_or(max_tokens_);
}

void FakeCache::truncate(std::size_t new_length) {
  if (new_length > length()) throw LogicError("fake cache: truncated to more than it has");
  const std::size_t n_dropped = length() - new_length;
  if (n_dropped > rollback_limit() || n_dropped >= recurrent_.size()) {
    throw LogicError("fake cache: truncated by more than its rollback limit");
  }
  tokens_.resize(new_length);
  recurrent_.erase(recurrent_.end() - static_cast<std::ptrdiff_t>(n_dropped), recurrent_.end());
}

std::unique_ptr<cache::KvCache> FakeCache::clone() const {
  return std::make_unique<FakeCache>(*this);
}

void FakeCache::push_back(Token token) {
  FakeState state;
  state.recurrent = recurrent_.back();
  recurrent_.push_back(advance(state, token).recurrent);
  tokens_.push_back(token);
  if (rollback_window_ && recurrent_.size() > *rollback_window_ + 1) recurrent_.pop_front();
}

FakeState FakeCache::state() const {
  FakeState state = FakeModel::state_after(tokens_);
  state.recurrent = recurrent_.back();
  return state;
}

void FakeHeadCache::truncate(std::size_t new_length) {
  if (new_length > rows_.size() || rows_.size() - new_length > rollback_limit()) {
    throw LogicError(
        "fake head cache: truncated to more than it has, or beyond its rollback limit");
  }
  rows_.resize(new_length);
}

std::unique_ptr<cache::KvCache> FakeHeadCache::clone() const {
  return std::make_unique<FakeHeadCache>(*this);
}

void FakeHeadCache::add(const Row& row) {
  if (rows_.size() >= max_tokens_) throw InvalidInput("fake head cache: full");
  if (rows_.empty() && row.is_chained)
    throw LogicError("fake head: a chain starts without a true row");
  if (!rows_.empty()) {
    const Row& last = rows_.back();
    if (last.is_chained && !row.is_chained)
      throw LogicError("fake head: a true row stands on a chained one");
    const bool is_next = row.state.length == last.state.length + 1;
    if (row.state.length <= last.state.length || (row.is_chained && !is_next))
      throw LogicError("fake head: a row is out of order");
    if (is_next && row.state != advance(last.state, last.next))
      throw LogicError("fake head: a row is not true");
  }
  rows_.push_back(row);
}

std::unique_ptr<cache::KvCache> FakeDraftHead::new_cache(const cache::CacheOptions& options) const {
  return std::make_unique<FakeHeadCache>(options.max_tokens, options_.rollback_window);
}

std::unique_ptr<models::Workspace> FakeDraftHead::new_workspace() const {
  return std::make_unique<FakeHeadWorkspace>();
}

void FakeDraftHead::append(cache::KvCache& cache,
                           ConstMatrix hidden,
                           TokenSpan next_tokens,
                           models::Workspace& /*workspace*/) const {
  FT_CHECK(hidden.n_rows == next_tokens.size());
  auto& rows = dynamic_cast<FakeHeadCache&>(cache);
  for (std::size_t i = 0; i < hidden.n_rows; ++i) {
    rows.add({read_hidden(hidden.row(i)), next_tokens[i], hidden.row(i)[kIsChained] != 0});
  }
  n_appended_ += hidden.n_rows;
  most_rows_ = std::max(most_rows_, hidden.n_rows);
}

std::span<const models::DraftStep> FakeDraftHead::step(std::span<const models::DraftSlice> slices,
                                                       models::Workspace& workspace) const {
  FT_CHECK(!slices.empty());
  auto& space = dynamic_cast<FakeHeadWorkspace&>(workspace);
  space.results.clear();
  n_shared_ += slices.size() > 1 ? 1 : 0;
  for (const models::DraftSlice& slice : slices) {
    FT_CHECK(slice.hidden.n_rows >= 1 && slice.sets->is_set == slices.front().sets->is_set);
    append(*slice.cache, slice.hidden, slice.next_tokens, workspace);
    n_appended_ -= slice.hidden.n_rows;
    n_stepped_ += slice.hidden.n_rows;
  }
  if (fails_in_ && (*fails_in_)-- == 0) {
    fails_in_.reset();
    throw IoError("fake head: planned failure");
  }
  for (const models::DraftSlice& slice : slices) space.results.push_back(result_of(slice));
  space.steps.clear();
  for (const FakeHeadResult& result : space.results)
    space.steps.push_back({result.logits, result.hidden, result.is_finite});
  return space.steps;
}

FakeHeadResult FakeDraftHead::result_of(const models::DraftSlice& slice) const {
  const FakeHeadCache::Row& row = dynamic_cast<FakeHeadCache&>(*slice.cache).rows().back();
  if (slice.sets->is_set != row.is_chained)
    throw LogicError("fake head: index sets are not those of this chain");
  slice.sets->is_set = true;

  FakeHeadResult out;
  const FakeState next = advance(row.state, row.next);
  const std::uint64_t key = digest(options_, next);
  const bool is_right = mix(key, 2) % 100 < options_.head_quality.value_or(0);
  out.logits.assign(options_.n_vocab, 0);
  write_logits(options_, is_right ? key : ~key, out.logits);
  out.hidden.assign(kHidden, 0);
  write_hidden(next, true, out.hidden);
  out.is_finite = n_to_spoil_ == 0 || (spoils_in_ > 0 && spoils_in_-- > 0);
  if (!out.is_finite) {
    --n_to_spoil_;
    for (std::vector<float>* values : {&out.logits, &out.hidden})
      std::fill(values->begin(), values->end(), std::numeric_limits<float>::quiet_NaN());
  }
  return out;
}

FakeModel::FakeModel(FakeModelOptions options) : options_(std::move(options)) {
  config_.weights_hash = options_.weights_hash;
  config_.family = "fake";
  config_.n_layers = kLayers;
  config_.d_model = kHidden;
  config_.n_vocab = options_.n_vocab;
  config_.max_context = options_.max_context;
  config_.eos_tokens = {options_.eos_token};
  if (options_.head_quality) {
    head_ = std::make_unique<FakeDraftHead>(options_);
  } else {
    config_.draft_head_absence = "made without one";
  }
}

std::unique_ptr<cache::KvCache> FakeModel::new_cache(const cache::CacheOptions& options) const {
  return std::make_unique<FakeCache>(options.max_tokens, options_.rollback_window);
}

std::unique_ptr<models::Workspace> FakeModel::new_workspace() const {
  return std::make_unique<FakeWorkspace>();
}

const models::DraftHead* FakeModel::draft_head() const noexcept {
  return head_.get();
}

FakeState FakeModel::state_after(TokenSpan tokens) {
  FakeState state;
  for (const Token token : tokens) state = advance(state, token);
  return state;
}

std::vector<float> FakeModel::hidden_after(TokenSpan tokens, LayerIndex layer) {
  std::vector<float> row(kHidden);
  write_hidden(state_after(tokens), false, row);
  if (layer != static_cast<LayerIndex>(kLayers)) {
    for (float& x : row) x = residual_of(x, layer);
  }
  return row;
}

ConstMatrix FakeModel::embed(TokenSpan tokens, models::Workspace& workspace) const {
  FT_CHECK(!tokens.empty());
  check_tokens(tokens);
  std::vector<float>& rows = dynamic_cast<FakeWorkspace&>(workspace).embedded;
  std::fill(rows.begin(), rows.end(), std::numeric_limits<float>::quiet_NaN());
  rows = {};
  for (const Token token : tokens) {
    rows.resize(rows.size() + kHidden);
    spell(mix(3, static_cast<std::uint64_t>(token)), std::span(rows).last(kHidden).first(4));
  }
  return {rows.data(), tokens.size(), kHidden, kHidden};
}

ConstMatrix FakeModel::project(ConstMatrix hidden,
                               TokenSpan ids,
                               models::Workspace& workspace) const {
  FT_CHECK(hidden.n_rows > 0 && hidden.n_cols == kHidden);
  check_tokens(ids);
  const std::size_t n_cols = ids.empty() ? options_.n_vocab : ids.size();
  std::vector<float> out;
  std::vector<float> logits(options_.n_vocab);
  for (std::size_t r = 0; r < hidden.n_rows; ++r) {
    const std::span<const float> row = hidden.row(r);
    if (row[kLength] < 0)
      throw LogicError("fake model: a row to project is not one after the final norm");
    write_logits(options_, digest(options_, read_hidden(row)), logits);
    if (ids.empty()) out.insert(out.end(), logits.begin(), logits.end());
    for (const Token id : ids) out.push_back(logits[static_cast<std::size_t>(id)]);
  }
  std::vector<float>& kept = dynamic_cast<FakeWorkspace&>(workspace).projected;
  std::fill(kept.begin(), kept.end(), std::numeric_limits<float>::quiet_NaN());
  kept = std::move(out);
  return {kept.data(), hidden.n_rows, n_cols, n_cols};
}

std::vector<float> FakeModel::logits_after(TokenSpan tokens) const {
  std::vector<float> logits(options_.n_vocab);
  write_logits(options_, digest(options_, state_after(tokens)), logits);
  return logits;
}

void FakeModel::check(const models::SequenceSlice& slice) const {
  FT_CHECK(!slice.tokens.empty() && slice.n_logits <= slice.tokens.size());
  if (slice.tokens.size() > slice.cache->max_tokens() - slice.cache->length()) {
    throw InvalidInput("fake model: the cache is full");
  }
  check_tokens(slice.tokens);
}

void FakeModel::check_tokens(TokenSpan tokens) const {
  for (const Token token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= options_.n_vocab)
      fail("fake model: token {}", token);
  }
}

void FakeModel::feed(const models::SequenceSlice& slice, FakeWorkspace& space) const {
  auto& cache = dynamic_cast<FakeCache&>(*slice.cache);
  space.fed.push_back({cache.length(), {slice.tokens.begin(), slice.tokens.end()}});
  for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
    cache.push_back(slice.tokens[i]);
    const FakeState state = cache.state();
    space.hidden.resize(space.hidden.size() + kHidden);
    write_hidden(state, false, std::span(space.hidden).last(kHidden));
    if (i + slice.n_logits < slice.tokens.size()) continue;
    space.logits.resize(space.logits.size() + options_.n_vocab);
    write_logits(options_, digest(options_, state), std::span(space.logits).last(options_.n_vocab));
  }
}

const models::ForwardOutput& FakeModel::forward(std::span<const models::SequenceSlice> slices,
                                                std::span<const LayerIndex> taps,
                                                std::stop_token stop,
                                                models::Workspace& workspace) const {
  if (options_.before_forward) options_.before_forward(slices, stop, workspace);
  auto& space = dynamic_cast<FakeWorkspace&>(workspace);
  for (const models::SequenceSlice& slice : slices) check(slice);
  if (stop.stop_requested()) throw Cancelled();
  if (space.fails_in && (*space.fails_in)-- == 0) {
    space.fails_in.reset();
    throw IoError("fake model: planned failure");
  }
  // Views of earlier forwards die here; filling them with NaN shows who still reads them.
  std::fill(space.logits.begin(), space.logits.end(), std::numeric_limits<float>::quiet_NaN());
  std::fill(space.hidden.begin(), space.hidden.end(), std::numeric_limits<float>::quiet_NaN());
  space.logits = {};
  space.hidden = {};
  for (const models::SequenceSlice& slice : slices) feed(slice, space);

  const std::size_t n_vocab = options_.n_vocab;
  const std::size_t n_rows = space.hidden.size() / kHidden;
  if (space.nan_row) {
    space.logits.at(*space.nan_row * n_vocab) = std::numeric_limits<float>::quiet_NaN();
    space.nan_row.reset();
  }
  space.output.logits = {space.logits.data(), space.logits.size() / n_vocab, n_vocab, n_vocab};
  for (std::vector<float>& old : space.residuals)
    std::fill(old.begin(), old.end(), std::numeric_limits<float>::quiet_NaN());
  space.residuals.assign(taps.size(), {});
  space.output.taps.clear();
  for (std::size_t i = 0; i < taps.size(); ++i) {
    std::vector<float>& rows = space.residuals[i];
    rows = space.hidden;
    if (taps[i] != static_cast<LayerIndex>(kLayers)) {
      for (float& x : rows) x = residual_of(x, taps[i]);
    }
    space.output.taps.push_back({rows.data(), n_rows, kHidden, kHidden});
  }
  return space.output;
}

}  // namespace ft::testing
