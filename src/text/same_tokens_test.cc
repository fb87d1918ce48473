#include "text/same_tokens.h"

#include "base/error.h"
#include "text/tokenizer_test_data.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TokenizerFile some_file() {
  return {.merges = {{"t", "h"}, {"th", "e"}}, .added = {{"<|user|>"}, {"<tool>", false}}};
}

std::string difference(const TokenizerFile& target, const TokenizerFile& draft) {
  try {
    require_same_tokens(tokenizer_of(target.text()), tokenizer_of(draft.text()));
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

TEST(SameTokens, EqualOnesPass) {
  EXPECT_EQ(difference(some_file(), some_file()), "");
}

TEST(SameTokens, NamesTheFirstDifferingIdWithBothTexts) {
  TokenizerFile other = some_file();
  other.merges = {{"t", "h"}, {"t", "o"}};
  EXPECT_THAT(difference(some_file(), other), HasSubstr("id 257 is 'to' there and 'the' here"));
}

TEST(SameTokens, NamesWhatOneAloneHas) {
  TokenizerFile longer = some_file();
  longer.added.push_back({"<|end|>"});
  EXPECT_THAT(difference(some_file(), longer),
              HasSubstr("id 260 is the special token '<|end|>' there and nothing here"));
  EXPECT_THAT(difference(longer, some_file()),
              HasSubstr("id 260 is nothing there and the special token '<|end|>' here"));
}

TEST(SameTokens, AddedTokensOfAnotherKindDiffer) {
  TokenizerFile other = some_file();
  other.added[1].is_special = true;
  EXPECT_THAT(
      difference(some_file(), other),
      HasSubstr("id 259 is the special token '<tool>' there and the added token '<tool>' here"));
}

TEST(SameTokens, EqualVocabulariesMaySplitTextDifferently) {
  TokenizerFile other = some_file();
  other.pattern = "[a-z]|[^a-z]+";
  EXPECT_THAT(difference(some_file(), other),
              AllOf(HasSubstr("of a probe text is"), HasSubstr("there and")));
}

}  // namespace
}  // namespace ft::text
