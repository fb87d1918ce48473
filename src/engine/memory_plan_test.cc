#include "engine/memory_plan.h"

#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kMi = std::uint64_t{1} << 20;

/// 10 layers of 32 experts, 4 per row, 1 Mi each; one draft layer of 2 Mi experts.
models::MemoryNeeds needs_of(const models::MemoryUse& use) {
  models::MemoryNeeds needs;
  needs.packed_bytes = 100 * kMi;
  needs.mapped_bytes = 50 * kMi;
  needs.trunk = {.n_layers = 10,
                 .n_experts = 32,
                 .n_active = 4,
                 .stored_bytes = 320 * kMi,
                 .packed_bytes = 0,
                 .slot_bytes = kMi};
  needs.draft = {.n_layers = 1,
                 .n_experts = 32,
                 .n_active = 4,
                 .stored_bytes = 64 * kMi,
                 .packed_bytes = 0,
                 .slot_bytes = 2 * kMi};
  needs.kv_bytes = use.context * 8192;
  if (use.drafts) needs.draft_kv_bytes = use.context * 1024;
  needs.workspace_bytes = use.n_rows * 65536 + use.n_logits * 4096;
  return needs;
}

MemoryPlanRequest request() {
  MemoryPlanRequest out;
  out.needs_of = needs_of;
  out.use.n_rows = 512;
  out.use.n_logits = 65;
  out.use.context = 4096;
  out.held_bytes = 5 * kMi;
  return out;
}

MemoryPlanRequest streaming(std::uint64_t budget_bytes) {
  MemoryPlanRequest out = request();
  out.experts = ExpertPlacement::kStream;
  out.budget_bytes = budget_bytes;
  return out;
}

io::MemoryLimits machine_with(std::uint64_t available_bytes) {
  io::MemoryLimits out;
  out.total_bytes = 2 * available_bytes;
  out.available_bytes = available_bytes;
  out.are_groups_known = true;
  return out;
}

/// The number behind the option in a refusal; 0 if it is not proposed.
std::uint64_t proposed(const std::string& refusal, const std::string& option) {
  const std::size_t at = refusal.find(option + " ");
  if (at == std::string::npos) return 0;
  return std::strtoull(refusal.c_str() + at + option.size() + 1, nullptr, 10);
}

TEST(MemoryPlan, CountsWhatLookupsHoldWhereDraftsArePlanned) {
  const auto lookup_bytes = [](const MemoryPlan& plan) {
    const auto found = std::ranges::find(plan.terms, "lookup tables", &MemoryTerm::name);
    return found == plan.terms.end() ? 0 : found->bytes;
  };
  MemoryPlanRequest asked = request();
  EXPECT_EQ(lookup_bytes(plan_memory(asked)), 0u);
  asked.lookup_bytes_of = [](std::size_t context) { return context * 300; };
  EXPECT_EQ(lookup_bytes(plan_memory(asked)), asked.use.context * 300);
  asked.use.drafts = false;
  EXPECT_EQ(lookup_bytes(plan_memory(asked)), 0u);
}

/// A small second model: 30 Mi, and a tenth of the cache and the workspace.
models::MemoryNeeds draft_model_needs_of(const models::MemoryUse& use) {
  models::MemoryNeeds needs;
  needs.packed_bytes = 30 * kMi;
  needs.kv_bytes = use.context * 819;
  needs.workspace_bytes = use.n_rows * 6554;
  return needs;
}

MemoryPlanRequest drafting(std::uint64_t budget_bytes) {
  MemoryPlanRequest out = streaming(budget_bytes);
  out.draft_model_needs_of = draft_model_needs_of;
  out.history_bytes = 12 * kMi;
  out.prediction_bytes_of = [](std::size_t context) { return context * 2048; };
  return out;
}

TEST(MemoryPlan, RefusalNamesWhatEachOptionTakesThatCanBeLeftOut) {
  const std::uint64_t least = plan_memory(drafting(kMi)).least_budget_bytes;
  ASSERT_EQ(plan_memory(drafting(least)).refusal, "");

  // A little short: leaving out any of them is enough.
  const std::string little = plan_memory(drafting(least - 5 * kMi)).refusal;
  EXPECT_EQ(little.find('\n'), std::string::npos);
  EXPECT_THAT(little,
              HasSubstr(", or no --draft-model (38.2 MB), or no --draft-history (12.6 MB), or no "
                        "--prediction (8.4 MB)"));
  EXPECT_THAT(little, Not(HasSubstr("leaving out")));

  // History or prediction alone are too little.
  const std::string more = plan_memory(drafting(least - 30 * kMi)).refusal;
  EXPECT_THAT(more, HasSubstr(", or no --draft-model (38.2 MB)"));
  EXPECT_THAT(more,
              HasSubstr("; leaving out --draft-history saves 12.6 MB, --prediction saves 8.4 MB"));
  MemoryPlanRequest without = drafting(least - 30 * kMi);
  without.draft_model_needs_of = nullptr;
  EXPECT_EQ(plan_memory(without).refusal, "");

  // All of them are.
  const std::string most = plan_memory(drafting(60 * kMi)).refusal;
  EXPECT_THAT(most,
              HasSubstr("; leaving out --draft-model saves 38.2 MB, --draft-history saves 12.6 MB, "
                        "--prediction saves 8.4 MB"));

  // Nothing is said of what is not there.
  const std::string none = plan_memory(streaming(60 * kMi)).refusal;
  EXPECT_THAT(none, Not(HasSubstr("leaving out")));
}

TEST(MemoryPlan, WithoutDraftsNoDraftModelIsLoaded) {
  const std::uint64_t least = plan_memory(drafting(kMi)).least_budget_bytes;
  // The model's own drafts, history and prediction are not enough.
  const std::string refusal = plan_memory(drafting(least - 58 * kMi)).refusal;
  EXPECT_THAT(refusal, HasSubstr("--speculate none"));
  MemoryPlanRequest undrafted = drafting(least - 58 * kMi);
  undrafted.use.drafts = false;
  undrafted.draft_model_needs_of = nullptr;
  EXPECT_EQ(plan_memory(undrafted).refusal, "");
}

TEST(MemoryPlan, KeepsExpertsResident_WhenTheyFit) {
  const MemoryPlan plan = plan_memory(request());
  EXPECT_EQ(plan.refusal, "");
  EXPECT_FALSE(plan.streams);
  EXPECT_EQ(plan.budget_bytes, 0U);  // nothing is known
  EXPECT_EQ(plan.mapped_bytes, (50 + 320 + 64) * kMi);
  MemoryPlanRequest roomy = request();
  roomy.limits = machine_with(2000 * kMi);
  EXPECT_FALSE(plan_memory(roomy).streams);
}

TEST(MemoryPlan, StreamsByItself_WhenTheyDoNotFit) {
  MemoryPlanRequest tight = request();
  tight.limits = machine_with(500 * kMi);  // mapped experts alone take 434
  const MemoryPlan plan = plan_memory(tight);
  EXPECT_EQ(plan.refusal, "");
  EXPECT_TRUE(plan.streams);
  EXPECT_EQ(plan.budget_bytes, 505 * kMi - system_reserve_bytes(tight.limits) - 50 * kMi);
  EXPECT_LE(plan.planned_bytes(), plan.budget_bytes);
}

TEST(MemoryPlan, FillsTheBudgetAndNoMore) {
  const std::uint64_t least = plan_memory(streaming(4096 * kMi)).least_budget_bytes;
  for (std::uint64_t more = 0; more < 500 * kMi; more += 7 * kMi) {
    const MemoryPlan plan = plan_memory(streaming(least + more));
    ASSERT_EQ(plan.refusal, "");
    EXPECT_LE(plan.planned_bytes(), plan.budget_bytes);
    EXPECT_GE(plan.trunk.n_slots, 4U);
    EXPECT_GE(plan.draft.n_slots, 4U);
    EXPECT_LE(plan.trunk.n_slots, 320U);
    EXPECT_LE(plan.draft.n_slots, 32U);
    if (plan.trunk.n_slots < 320) {
      EXPECT_LE(plan.draft.n_slots, 16U);
      // What is left is less than a slot and the part of the reserve.
      EXPECT_LE(plan.budget_bytes - plan.planned_bytes(), 2 * kMi + more / 64);
    }
  }
  const MemoryPlan all = plan_memory(streaming(4096 * kMi));
  EXPECT_EQ(all.trunk.n_slots, 320U);
  EXPECT_EQ(all.draft.n_slots, 32U);
}

TEST(MemoryPlan, GivesTheDraftTierNoMoreThanOneSlot_WithoutDrafts) {
  MemoryPlanRequest undrafted = streaming(4096 * kMi);
  undrafted.use.drafts = false;
  EXPECT_EQ(plan_memory(undrafted).draft.n_slots, 1U);
}

TEST(MemoryPlan, RefusalNamesTheLargestTermAndChangesThatWork) {
  const MemoryPlan plan = plan_memory(streaming(180 * kMi));
  ASSERT_NE(plan.refusal, "");
  EXPECT_EQ(plan.refusal.find('\n'), std::string::npos);
  EXPECT_THAT(plan.refusal, HasSubstr("packed weights (104.9 MB)"));

  const std::uint64_t budget = proposed(plan.refusal, "--ram-budget");
  EXPECT_EQ(plan_memory(streaming(budget * kMi)).refusal, "");
  EXPECT_NE(plan_memory(streaming((budget - 3) * kMi)).refusal, "");

  MemoryPlanRequest shorter = streaming(180 * kMi);
  shorter.use.context = proposed(plan.refusal, "--context");
  ASSERT_GT(shorter.use.context, 0U);
  EXPECT_EQ(plan_memory(shorter).refusal, "");
  shorter.use.context += 2 * kMi / 9216 + 1;
  EXPECT_NE(plan_memory(shorter).refusal, "");

  MemoryPlanRequest narrower = streaming(180 * kMi);
  narrower.use.n_rows = proposed(plan.refusal, "--prefill-chunk");
  ASSERT_GT(narrower.use.n_rows, 0U);
  EXPECT_EQ(plan_memory(narrower).refusal, "");
}

TEST(MemoryPlan, ProposesToDecodeWithoutDraftsOrToStream_WhenThatIsEnough) {
  const std::uint64_t least = plan_memory(streaming(4096 * kMi)).least_budget_bytes;
  const MemoryPlan drafting = plan_memory(streaming(least - 4 * kMi));
  EXPECT_THAT(drafting.refusal, HasSubstr("--speculate none"));
  MemoryPlanRequest undrafted = streaming(least - 4 * kMi);
  undrafted.use.drafts = false;
  EXPECT_EQ(plan_memory(undrafted).refusal, "");

  MemoryPlanRequest resident = request();
  resident.experts = ExpertPlacement::kResident;
  resident.limits = machine_with(500 * kMi);
  const std::string refusal = plan_memory(resident).refusal;
  EXPECT_THAT(refusal, HasSubstr("--experts stream"));
  EXPECT_THAT(refusal, HasSubstr("the machine leaves"));
  EXPECT_THAT(refusal, Not(HasSubstr("--ram-budget")));  // none would help
}

TEST(MemoryPlan, ProposesAllSavingsTogether_WhenNoneAloneIsEnough) {
  MemoryPlanRequest tight = streaming(0);
  const std::uint64_t least = plan_memory(streaming(kMi)).least_budget_bytes;
  // 50 Mi are mapped; what a 16th of it leaves to others comes on top.
  tight.limits = machine_with((least - 10 * kMi) / 15 * 16);
  const std::string refusal = plan_memory(tight).refusal;
  EXPECT_THAT(refusal, HasSubstr("use --speculate none, --prefill-chunk 65, --context "));
  EXPECT_THAT(refusal, HasSubstr(" together"));
  tight.use.drafts = false;
  tight.use.n_rows = 65;
  tight.use.context = proposed(refusal, "--context");
  EXPECT_EQ(plan_memory(tight).refusal, "");
  tight.limits = machine_with(100 * kMi);
  EXPECT_THAT(plan_memory(tight).refusal, HasSubstr("no smaller setting fits"));
}

TEST(MemoryPlan, NamesTheControlGroupThatIsTooSmall) {
  MemoryPlanRequest grouped = streaming(0);
  grouped.limits = machine_with(4096 * kMi);
  grouped.limits.group = io::GroupLimit{.folder = "/sys/fs/cgroup/small",
                                        .limit_bytes = 100 * kMi,
                                        .used_bytes = 60 * kMi,
                                        .cache_bytes = 40 * kMi};
  const std::string refusal = plan_memory(grouped).refusal;
  EXPECT_THAT(refusal, HasSubstr("/sys/fs/cgroup/small"));
  EXPECT_THAT(refusal, HasSubstr("no smaller setting fits"));
}

TEST(MemoryPlan, CutsABudgetThatTheMachineHasNot) {
  MemoryPlanRequest wanted = streaming(4096 * kMi);
  wanted.limits = machine_with(500 * kMi);
  const MemoryPlan plan = plan_memory(wanted);
  EXPECT_EQ(plan.refusal, "");
  EXPECT_EQ(plan.cut_from_bytes, 4096 * kMi);
  EXPECT_LT(plan.budget_bytes + plan.mapped_bytes, 505 * kMi);
}

}  // namespace
}  // namespace ft::engine
