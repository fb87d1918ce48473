// What quantizing the draft head at load changes, and what it must not.
#include "models/glm_test_model.h"

#include <cmath>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace ft::models {
namespace {

constexpr std::size_t kDrafts = 3;

struct Outcome {
  RowCopy trunk;
  RowCopy drafts;
};

Outcome outcome(std::optional<QuantFormat> format) {
  LoadOptions options;
  options.draft_format = format;
  const LoadedModel loaded(
      FT_SOURCE_DIR "/models/glm-mini", kernels::usable_isas().front(), 1, options);
  // A question of the model's own dialogue format.
  const std::vector<Token> tokens = {6110, 6112, 6115, 686, 337, 275, 894, 321, 698, 447, 279, 3};
  const auto cache = loaded.model->new_cache({.max_tokens = 64});
  const Fed fed = feed(*loaded.model, *cache, tokens, tokens.size());
  const DraftHead& head = *loaded.model->draft_head();
  const auto draft_cache = head.new_cache({.max_tokens = 64});
  const Drafted drafted = draft(head,
                                *draft_cache,
                                fed.hidden.view(0, tokens.size() - 1),
                                TokenSpan(tokens).subspan(1),
                                kDrafts);
  return {fed.logits, drafted.logits};
}

/// Root mean square of the difference of the first drafts' logits, over that of the logits.
double distance(const Outcome& a, const Outcome& b) {
  double difference = 0;
  double square = 0;
  for (std::size_t i = 0; i < a.drafts.n_cols; ++i) {
    const double x = a.drafts.values[i];
    difference += (x - b.drafts.values[i]) * (x - b.drafts.values[i]);
    square += x * x;
  }
  return std::sqrt(difference / square);
}

TEST(DraftFormat, ChangesDraftsALittleAndTheTrunkNotAtAll) {
  const Outcome stored = outcome(std::nullopt);
  const Outcome q8 = outcome(QuantFormat::kQ8);
  const Outcome q4 = outcome(QuantFormat::kQ4);
  EXPECT_EQ(q8.trunk, stored.trunk);
  EXPECT_EQ(q4.trunk, stored.trunk);
  EXPECT_GT(distance(stored, q8), 0);
  EXPECT_LT(distance(stored, q8), 0.03);
  EXPECT_GT(distance(stored, q4), distance(stored, q8));
  EXPECT_LT(distance(stored, q4), 0.25);
}

}  // namespace
}  // namespace ft::models
