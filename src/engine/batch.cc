#include "engine/batch.h"

#include "speculation/draft_limits.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ft::engine {
namespace {

constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
// A step with so many rows of a prompt takes a few times that of the rounds alone.
constexpr std::size_t kPrefillPart = 8;

// A forward that ends, whatever way, leaves no callback behind.
class ProgressScope {
 public:
  explicit ProgressScope(models::Workspace& workspace) noexcept : workspace_(workspace) {}
  ~ProgressScope() { workspace_.set_progress({}); }
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;
  ProgressScope(ProgressScope&&) = delete;
  ProgressScope& operator=(ProgressScope&&) = delete;

 private:
  models::Workspace& workspace_;
};

}  // namespace

BatchLimits batch_limits(const EngineParts& parts) {
  BatchLimits out;
  out.n_logits = parts.n_logit_rows > 0 ? parts.n_logit_rows : kAnyNumber;
  out.n_rows = std::max(parts.prefill_chunk, speculation::kMaxDraftTokens + 1);
  out.n_prefill_beside_rounds = std::max<std::size_t>(1, parts.prefill_chunk / kPrefillPart);
  return out;
}

bool Batch::step(std::span<Member* const> members, const std::stop_token& closing) {
  std::vector<Member*> rounds;
  std::vector<Member*> prompts;
  const std::vector<Member*> turn = in_turn(members);
  for (Member* member : turn) {
    switch (member->need()) {
      case Member::Need::kRound:
        rounds.push_back(member);
        break;
      case Member::Need::kPrefill:
        prompts.push_back(member);
        break;
      case Member::Need::kReader:
      case Member::Need::kOther:
      case Member::Need::kNothing:
        break;
    }
  }
  if (rounds.empty() && prompts.empty()) return false;
  const Company company = rounds.size() + prompts.size() == 1 ? Company::kAlone : Company::kShared;
  entrants_.clear();
  missed_ = nullptr;
  for (Member* member : rounds) member->begin(kAnyNumber, company);
  draft(rounds, closing);
  add_rounds(rounds);
  add_prompts(prompts, company);
  first_ = missed_ != nullptr ? missed_ : turn[turn.size() > 1 ? 1 : 0];
  if (!entrants_.empty()) forward(closing);
  return true;
}

std::vector<Member*> Batch::in_turn(std::span<Member* const> members) const {
  std::vector<Member*> out(members.begin(), members.end());
  const auto first = std::find(out.begin(), out.end(), first_);
  if (first != out.end()) std::rotate(out.begin(), first, out.end());
  return out;
}

std::size_t Batch::n_rows() const noexcept {
  std::size_t n = 0;
  for (const Entrant& entrant : entrants_) n += entrant.part.slice.tokens.size();
  return n;
}

// Of all rounds that were begun, each step in one pass of the head.
void Batch::draft(std::span<Member* const> members, const std::stop_token& closing) {
  std::vector<Member*> drafters;
  std::vector<speculation::RoundDraft*> drafts;
  for (Member* member : members) {
    if (speculation::RoundDraft* const draft = member->drafting()) {
      drafters.push_back(member);
      drafts.push_back(draft);
    }
  }
  speculation::draft_together({.head = core_.model().draft_head(),
                               .workspace = core_.draft_workspace(),
                               .clock = *core_.parts().clock,
                               .max_rows = limits_.n_rows},
                              drafts,
                              closing);
  for (Member* member : drafters) member->end_drafting();
}

void Batch::add_rounds(std::span<Member* const> members) {
  std::size_t n_logits = 0;
  for (Member* member : members) {
    add(*member, false);
    if (entrants_.empty() || entrants_.back().member != member) continue;  // it failed
    const std::size_t n = entrants_.back().part.slice.tokens.size();
    if (entrants_.size() > 1 && (n_rows() > limits_.n_rows || n_logits + n > limits_.n_logits)) {
      entrants_.pop_back();  // its round waits
      if (missed_ == nullptr) missed_ = member;
      continue;
    }
    n_logits += n;
  }
}

void Batch::add_prompts(std::span<Member* const> members, Company company) {
  const std::size_t n_in_rounds = n_rows();
  std::size_t n_left = limits_.n_rows - std::min(limits_.n_rows, n_in_rounds);
  if (n_in_rounds > 0) n_left = std::min(n_left, limits_.n_prefill_beside_rounds);
  std::size_t n_logits_left = limits_.n_logits - std::min(limits_.n_logits, n_in_rounds);
  bool is_first = n_in_rounds == 0;
  for (Member* member : members) {
    if (!is_first && (n_left == 0 || n_logits_left == 0)) {
      if (missed_ == nullptr) missed_ = member;
      return;
    }
    const std::size_t n_before = n_rows();
    member->begin(is_first ? kAnyNumber : n_left, company);
    add(*member, true);
    const std::size_t n = n_rows() - n_before;
    if (n == 0) continue;
    is_first = false;
    n_left -= std::min(n_left, n);
    n_logits_left -= std::min<std::size_t>(n_logits_left, 1);
  }
}

void Batch::add(Member& member, bool is_prefill) {
  if (member.need() == Member::Need::kNothing) return;
  entrants_.push_back({&member, member.part(), is_prefill});
}

void Batch::forward(const std::stop_token& closing) {
  // The model leaves out rows at the front that nobody sees of the last layer.
  std::stable_partition(entrants_.begin(), entrants_.end(), [](const Entrant& entrant) {
    return entrant.part.slice.n_logits == 0;
  });
  if (entrants_.size() == 1) {
    forward_alone(entrants_.front());
    return;
  }
  try {
    run(entrants_, closing);
  } catch (...) {
    for (const Entrant& entrant : entrants_) forward_alone(entrant);
  }
}

void Batch::forward_alone(const Entrant& entrant) {
  try {
    run({&entrant, 1}, entrant.member->stop_token());
  } catch (...) {
    entrant.member->fail(std::current_exception());
  }
}

void Batch::run(std::span<const Entrant> entrants, const std::stop_token& stop) {
  core_.check_memory();
  const ProgressScope scope(core_.workspace());
  const bool is_long =
      core_.parts().store != nullptr && std::ranges::any_of(entrants, &Entrant::is_prefill);
  const bool has_limit = std::ranges::any_of(
      entrants, [](const Entrant& entrant) { return entrant.member->time_left().has_value(); });
  if (is_long || has_limit) {
    core_.workspace().set_progress([this, entrants](std::size_t n_done, std::size_t n_layers) {
      core_.check_memory();
      for (const Entrant& entrant : entrants) entrant.member->on_layer(n_done, n_layers);
    });
  }
  std::vector<speculation::ForwardPart> parts;
  for (const Entrant& entrant : entrants) parts.push_back(entrant.part);
  const speculation::SharedForward forward(
      {.model = core_.model(),
       .workspace = core_.workspace(),
       .clock = *core_.parts().clock,
       .store = core_.parts().store.get(),
       .meter = entrants.size() == 1 ? entrants.front().member->meter() : nullptr,
       .costs = &costs_},
      parts,
      stop);
  for (std::size_t i = 0; i < entrants.size(); ++i) entrants[i].member->take(forward.share(i));
}

}  // namespace ft::engine
