#include "speculation/prefill.h"

#include "base/error.h"
#include "testing/generation.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using testing::FakeModel;
using testing::FakeModelOptions;
using testing::Generation;
using testing::GenerationOptions;

GenerationOptions some_request() {
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  return options;
}

TEST(Prefill, ChunksGiveTheSameLogitsAndOnlyTheLastHasAny) {
  const FakeModel model(FakeModelOptions{});
  const GenerationOptions options = some_request();
  for (const std::size_t n : {1u, 2u, 4u, 8u}) {
    Generation generation(model, options);
    PrefillResult result;
    for (std::size_t begin = 0; begin < 8; begin += n) {
      result = prefill_chunk(generation.state(), n, {});
      EXPECT_EQ(result.logits.n_rows, begin + n == 8 ? 1u : 0u);
    }
    const std::vector<float> expected = model.logits_after(options.prompt);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), result.logits.row(0).begin()));
    EXPECT_EQ(result.forward_us, 1);
    EXPECT_EQ(result.observe_us, 1);
  }
}

TEST(Prefill, RefusesChunksThatDoNotFitThePrompt) {
  const FakeModel model(FakeModelOptions{});
  Generation generation(model, some_request());
  EXPECT_THROW(prefill_chunk(generation.state(), 0, {}), LogicError);
  EXPECT_THROW(prefill_chunk(generation.state(), generation.tokens().size() + 1, {}), LogicError);
  generation.prefill();
  EXPECT_THROW(prefill_chunk(generation.state(), 1, {}), LogicError);
}

TEST(Prefill, NanInTheFirstTokensLogitsChangesNothing) {
  const FakeModel model(FakeModelOptions{});
  Generation generation(model, some_request());
  const std::size_t n_prompt = generation.tokens().size();
  generation.workspace().nan_row = 0;
  EXPECT_THROW(generation.prefill(), Error);
  EXPECT_EQ(generation.tokens().size(), n_prompt);
}

}  // namespace
}  // namespace ft::speculation
