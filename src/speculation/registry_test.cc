#include "base/error.h"
#include "speculation/draft_source.h"
#include "testing/fake_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

testing::FakeModelOptions with_head() {
  testing::FakeModelOptions options;
  options.head_quality = 50;
  return options;
}

TEST(DraftRegistry, ListsWhatTheModelCanFeed) {
  EXPECT_THAT(available_sources(testing::FakeModel(with_head())),
              ElementsAre("prediction", "mtp", "suffix", "ngram"));
  EXPECT_THAT(available_sources(testing::FakeModel({})),
              ElementsAre("prediction", "suffix", "ngram"));
}

TEST(DraftRegistry, MakesEachByName) {
  const testing::FakeModel model(with_head());
  sampling::Sampler sampler({}, model.config().n_vocab);
  for (const std::string_view name : {"none", "prediction", "mtp", "suffix", "ngram"}) {
    const auto provider = make_draft_provider(name, model);
    const auto source = provider->open({&model, &sampler, {.max_tokens = 16}});
    EXPECT_EQ(source->name(), name);
  }
}

std::string error_of(std::string_view name, const models::Model& model) {
  try {
    make_draft_provider(name, model);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(DraftRegistry, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(
      error_of("medusa", testing::FakeModel({})),
      HasSubstr(
          "'medusa' is unknown, expected one of: none, prediction, mtp, draft, suffix, ngram"));
}

TEST(DraftRegistry, MtpWithoutAHeadSaysWhatIsMissing) {
  EXPECT_THAT(error_of("mtp", testing::FakeModel({})),
              HasSubstr("no next-token head (made without one)"));
}

}  // namespace
}  // namespace ft::speculation
