#include "engine/memory_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace ft::engine {
namespace {

constexpr std::uint64_t kMi = std::uint64_t{1} << 20;

// Stacks of the reading threads, rings, lists of reads; experts are read into their slots.
constexpr std::uint64_t kReadingBytes = 4 * kMi;
// What the allocator keeps of freed blocks, text and token lists of a request: so much, and a part
// of what is planned.
constexpr std::uint64_t kLeastReserveBytes = 12 * kMi;
constexpr std::uint64_t kReservePart = 128;
// From run to run the process holds a little more or less before the plan is made: a budget or a
// context that is suggested holds for all of them.
constexpr std::uint64_t kHeldSlack = kMi;
// Left to others: so much of the memory, and no more than that.
constexpr std::uint64_t kSystemPart = 32;
constexpr std::uint64_t kMostSystemReserve = 512 * kMi;
// Fewer positions are no change that helps anybody.
constexpr std::size_t kLeastContext = 16;
// The draft tier may have so many rows' experts before the trunk has all of its own. A chain of
// drafts asks for one row's experts of one layer again and again, and they are a hundredth of a
// round's work.
constexpr std::size_t kDraftRows = 4;
constexpr std::uint64_t kDraftPart = 8;  // and at most this part of the pool

constexpr std::string_view kDraftModel = "draft model";
constexpr std::string_view kDraftHistory = "draft history";
constexpr std::string_view kPrediction = "prediction";

/// An option that decoding can do without, and the term that is there for it.
struct Spare {
  std::string_view term;
  std::string_view option;
  void (*leave_out)(MemoryPlanRequest& request);
};
constexpr std::array kSpares = {
    Spare{kDraftModel,
          "--draft-model",
          [](MemoryPlanRequest& request) { request.draft_model_needs_of = nullptr; }},
    Spare{kDraftHistory,
          "--draft-history",
          [](MemoryPlanRequest& request) { request.history_bytes = 0; }},
    Spare{kPrediction,
          "--prediction",
          [](MemoryPlanRequest& request) { request.prediction_bytes_of = nullptr; }},
};

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
  return a - std::min(a, b);
}

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// "31.8 MB", as the program prints sizes.
std::string text_of(std::uint64_t bytes) {
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", static_cast<double>(bytes) * 1e-9);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

SlotPlan least_slots(const models::ExpertNeeds& needs, bool is_used) {
  SlotPlan out;
  out.n_experts = needs.n_layers * needs.n_experts;
  out.slot_bytes = needs.slot_bytes;
  if (out.n_experts > 0) out.least_slots = is_used ? needs.n_active : 1;
  out.n_slots = out.least_slots;
  return out;
}

/// Hands `room` bytes to the tiers, in this order: the draft tier up to kDraftRows rows' experts
/// within its part, the trunk, the draft tier again.
void share_out(std::uint64_t room, bool drafts, SlotPlan& trunk, SlotPlan& draft) {
  const auto grow = [&room](SlotPlan& tier, std::uint64_t most_slots) {
    const std::uint64_t most = std::min<std::uint64_t>(tier.n_experts, most_slots);
    if (tier.slot_bytes == 0 || most <= tier.n_slots) return;
    const std::uint64_t n = std::min<std::uint64_t>(room / tier.slot_bytes, most - tier.n_slots);
    tier.n_slots += n;
    room -= n * tier.slot_bytes;
  };
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  if (drafts && draft.slot_bytes > 0) {
    grow(draft,
         std::min<std::uint64_t>(kDraftRows * draft.least_slots,
                                 room / kDraftPart / draft.slot_bytes));
  }
  grow(trunk, kAll);
  if (drafts) grow(draft, kAll);
}

/// One of the two ways to place experts.
class Layout {
 public:
  Layout(const MemoryPlanRequest& request, bool streams)
      : request_(request), needs_(request.needs_of(request.use)) {
    const models::MemoryNeeds& needs = needs_;
    plan_.streams = streams;
    plan_.mapped_bytes = needs.mapped_bytes;
    add("program so far", request.held_bytes);
    add("packed weights", needs.packed_bytes);
    if (streams) {
      plan_.trunk = least_slots(needs.trunk, true);
      plan_.draft = least_slots(needs.draft, request.use.drafts);
      add("expert pool", plan_.trunk.bytes());
      add("expert pool of drafts", plan_.draft.bytes());
    } else {
      add("packed experts", needs.trunk.packed_bytes + needs.draft.packed_bytes);
      for (const models::ExpertNeeds* tier : {&needs.trunk, &needs.draft}) {
        plan_.mapped_bytes += minus(tier->stored_bytes, tier->packed_bytes);
      }
    }
    add("cache", needs.kv_bytes);
    if (request.use.drafts) {
      add("cache of drafts", needs.draft_kv_bytes);
      if (request.lookup_bytes_of) {
        add("lookup tables", request.lookup_bytes_of(request.use.context));
      }
      add(kDraftHistory, request.history_bytes);
      if (request.prediction_bytes_of) {
        add(kPrediction, request.prediction_bytes_of(request.use.context));
      }
    }
    add("workspaces", needs.workspace_bytes);
    if (request.draft_model_needs_of) add_draft_model();
    if (streams) add("reading", kReadingBytes + needs.routing_bytes);
    const std::uint64_t planned = plan_.planned_bytes() - request.held_bytes;
    add("allocator and runtime reserve", kLeastReserveBytes + planned / kReservePart);
    least_bytes_ = plan_.planned_bytes();
    plan_.least_budget_bytes = rounded_up(least_bytes_ + kHeldSlack, kMi);
    set_budget();
  }

  bool can_stream() const noexcept {
    return needs_.trunk.slot_bytes > 0 &&
           (needs_.draft.n_layers == 0 || needs_.draft.slot_bytes > 0);
  }
  bool fits() const noexcept { return !bound_ || least_bytes_ <= *bound_; }

  MemoryPlan take() {
    plan_.budget_bytes = bound_.value_or(0);
    if (!fits()) {
      plan_.refusal = refusal();
    } else if (plan_.streams) {
      fill_pool();
    }
    if (asked_ > 0 && bound_ && *bound_ < asked_ && plan_.refusal.empty()) {
      plan_.cut_from_bytes = asked_;
    }
    return std::move(plan_);
  }

 private:
  void add(std::string_view name, std::uint64_t bytes) {
    if (bytes > 0) plan_.terms.push_back({name, bytes});
  }
  std::uint64_t& term(std::string_view name) {
    return std::ranges::find(plan_.terms, name, &MemoryTerm::name)->bytes;
  }
  std::uint64_t bytes_of(std::string_view name) const {
    const auto found = std::ranges::find(plan_.terms, name, &MemoryTerm::name);
    return found == plan_.terms.end() ? 0 : found->bytes;
  }

  void add_draft_model() {
    models::MemoryUse use = request_.use;
    use.drafts = false;
    const models::MemoryNeeds needs = request_.draft_model_needs_of(use);
    std::uint64_t bytes = needs.packed_bytes + needs.kv_bytes + needs.workspace_bytes;
    plan_.mapped_bytes += needs.mapped_bytes;
    for (const models::ExpertNeeds* tier : {&needs.trunk, &needs.draft}) {
      bytes += tier->packed_bytes;
      plan_.mapped_bytes += minus(tier->stored_bytes, tier->packed_bytes);
    }
    add(kDraftModel, bytes);
  }

  void set_budget() {
    asked_ = request_.budget_bytes;
    if (asked_ > 0) bound_ = asked_;
    if (const auto free = request_.limits.allocatable_bytes()) {
      left_ = minus(*free + request_.held_bytes, system_reserve_bytes(request_.limits));
      bound_ = std::min(bound_.value_or(*left_), minus(*left_, plan_.mapped_bytes));
    }
  }

  void fill_pool() {
    // Without a bound nothing says no to all of them.
    std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
    if (bound_) {
      // The reserve grows with the pool.
      room = (*bound_ - least_bytes_) / (kReservePart + 1) * kReservePart;
    }
    const std::uint64_t before = plan_.trunk.bytes() + plan_.draft.bytes();
    share_out(room, request_.use.drafts, plan_.trunk, plan_.draft);
    if (plan_.trunk.n_slots > 0) term("expert pool") = plan_.trunk.bytes();
    if (plan_.draft.n_slots > 0) term("expert pool of drafts") = plan_.draft.bytes();
    const std::uint64_t added = plan_.trunk.bytes() + plan_.draft.bytes() - before;
    term("allocator and runtime reserve") += added / kReservePart;
  }

  bool is_machine_too_small() const { return left_ && least_bytes_ + plan_.mapped_bytes > *left_; }

  std::string refusal() const {
    const auto largest = std::ranges::max_element(plan_.terms, {}, &MemoryTerm::bytes);
    const bool is_mapped_largest = is_machine_too_small() && plan_.mapped_bytes > largest->bytes;
    std::string out = fmt::format(
        "memory: {} with experts {} needs {}",
        request_.use.drafts && needs_.draft_kv_bytes > 0 ? "decoding with drafts" : "decoding",
        plan_.streams ? "streamed" : "resident",
        text_of(least_bytes_));
    if (is_machine_too_small()) {
      if (plan_.mapped_bytes > 0) {
        out += fmt::format(" beside {} of weights in the page cache", text_of(plan_.mapped_bytes));
      }
      out += fmt::format(", {} leaves {}", where(), text_of(*left_));
    } else {
      out += fmt::format(", the budget is {}", text_of(*bound_));
    }
    out += fmt::format(
        "; the largest part is {} ({}); ",
        is_mapped_largest ? std::string_view("the weights in the page cache") : largest->name,
        text_of(is_mapped_largest ? plan_.mapped_bytes : largest->bytes));
    const std::vector<std::string> ways = changes();
    if (!ways.empty()) return out + fmt::format("use {}", fmt::join(ways, ", or ")) + savings();
    const std::string all = all_changes();
    if (!all.empty()) return out + fmt::format("use {} together", all) + savings();
    return out + "no smaller setting fits: free memory, or use a smaller format" + savings();
  }

  std::string where() const {
    const auto& group = request_.limits.group;
    const bool is_group =
        group && group->available_bytes() &&
        *group->available_bytes() <=
            request_.limits.available_bytes.value_or(std::numeric_limits<std::uint64_t>::max());
    return is_group ? fmt::format("the control group {}", group->folder.native()) : "the machine";
  }

  /// Each alone makes it fit.
  std::vector<std::string> changes() const {
    std::vector<std::string> out;
    if (!is_machine_too_small()) {
      out.push_back(fmt::format("--ram-budget {}Mi or more", plan_.least_budget_bytes / kMi));
    }
    const models::MemoryUse& use = request_.use;
    const std::size_t context =
        most(kLeastContext, use, plan_.streams, &models::MemoryUse::context);
    if (context > 0) out.push_back(fmt::format("--context {} or less", context));
    // A round's rows are a forward too.
    const std::size_t chunk = most(use.n_logits, use, plan_.streams, &models::MemoryUse::n_rows);
    if (chunk > 0) out.push_back(fmt::format("--prefill-chunk {} or less", chunk));
    models::MemoryUse undrafted = use;
    undrafted.drafts = false;
    if (use.drafts && fits_with(undrafted, plan_.streams)) out.emplace_back("--speculate none");
    for (const Spare& spare : kSpares) {
      if (fits_without(spare))
        out.push_back(fmt::format("no {} ({})", spare.option, text_of(bytes_of(spare.term))));
    }
    if (!plan_.streams && can_stream() && fits_with(use, true)) {
      out.emplace_back("--experts stream");
    }
    return out;
  }

  /// All savings at once, with the largest context that then fits; empty if none does.
  std::string all_changes() const {
    models::MemoryUse use = request_.use;
    use.drafts = false;
    use.n_rows = std::min(use.n_rows, use.n_logits);
    const bool streams = plan_.streams || can_stream();
    std::string out = streams && !plan_.streams ? "--experts stream, " : "";
    if (request_.use.drafts) out += "--speculate none, ";
    out += fmt::format("--prefill-chunk {}", use.n_rows);
    if (fits_with(use, streams)) return out;
    const std::size_t context = most(kLeastContext, use, streams, &models::MemoryUse::context);
    return context == 0 ? "" : out + fmt::format(", --context {}", context);
  }

  /// What leaving out the options saves that are not among the changes.
  std::string savings() const {
    std::string out;
    for (const Spare& spare : kSpares) {
      const std::uint64_t bytes = bytes_of(spare.term);
      if (bytes == 0 || fits_without(spare)) continue;
      out += out.empty() ? "; leaving out " : ", ";
      out += fmt::format("{} saves {}", spare.option, text_of(bytes));
    }
    return out;
  }

  bool fits_without(const Spare& spare) const {
    if (bytes_of(spare.term) == 0) return false;
    MemoryPlanRequest other = request_;
    spare.leave_out(other);
    return fits_later(std::move(other), plan_.streams);
  }

  bool fits_with(const models::MemoryUse& use, bool streams) const {
    MemoryPlanRequest other = request_;
    other.use = use;
    // Nobody drafts: it is not loaded.
    if (request_.use.drafts && !use.drafts) other.draft_model_needs_of = nullptr;
    return fits_later(std::move(other), streams);
  }

  /// Also if the process holds a little more next time.
  static bool fits_later(MemoryPlanRequest request, bool streams) {
    request.held_bytes += kHeldSlack;
    return Layout(request, streams).fits();
  }

  /// The largest value from `least` up to below that of `use` that fits, 0 if none does.
  std::size_t most(std::size_t least,
                   const models::MemoryUse& use,
                   bool streams,
                   std::size_t models::MemoryUse::*value) const {
    const auto fits = [&](std::size_t n) {
      models::MemoryUse smaller = use;
      smaller.*value = n;
      return fits_with(smaller, streams);
    };
    if (least >= use.*value || !fits(least)) return 0;
    std::size_t does_not = use.*value;
    while (does_not - least > 1) {
      const std::size_t middle = least + (does_not - least) / 2;
      (fits(middle) ? least : does_not) = middle;
    }
    return least;
  }

 private:
  const MemoryPlanRequest& request_;
  models::MemoryNeeds needs_;
  MemoryPlan plan_;
  std::uint64_t least_bytes_ = 0;       // anonymous, with the smallest pool
  std::uint64_t asked_ = 0;             // the budget asked for
  std::optional<std::uint64_t> left_;   // of machine and groups, for budget and mapped weights
  std::optional<std::uint64_t> bound_;  // of anonymous memory
};

}  // namespace

std::uint64_t MemoryPlan::planned_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const MemoryTerm& term : terms) sum += term.bytes;
  return sum;
}

std::uint64_t system_reserve_bytes(const io::MemoryLimits& limits) noexcept {
  const auto most = limits.most_bytes();
  return most ? std::min(*most / kSystemPart, kMostSystemReserve) : 0;
}

MemoryPlan plan_memory(const MemoryPlanRequest& request) {
  switch (request.experts) {
    case ExpertPlacement::kStream:
      return Layout(request, true).take();
    case ExpertPlacement::kResident:
      return Layout(request, false).take();
    case ExpertPlacement::kAuto:
      break;
  }
  Layout resident(request, false);
  if (resident.fits() || !resident.can_stream()) return resident.take();
  return Layout(request, true).take();
}

}  // namespace ft::engine
