#include "server/token_aligner.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ft::server {
namespace {

// Token i of a reply has text i.
class Alignment {
 public:
  explicit Alignment(std::vector<std::string> texts)
      : aligner_([texts](foretoken::Token id) { return texts[static_cast<std::size_t>(id)]; }) {}

  Alignment& push(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const foretoken::TokenLogprobs token{{n_++, 0}, {}};
      aligner_.push({&token, 1});
    }
    return *this;
  }
  std::vector<foretoken::Token> take(const std::string& text) {
    std::vector<foretoken::Token> out;
    for (const auto& token : aligner_.take(text)) out.push_back(token.chosen.id);
    return out;
  }
  void end_text() { aligner_.end_text(); }

 private:
  TokenAligner aligner_;
  foretoken::Token n_ = 0;
};

using Ids = std::vector<foretoken::Token>;

TEST(TokenAligner, LeavesOutTokensWithoutText) {
  const std::vector<std::string> texts = {"think", "</think>", "\n", "Hello", " there"};
  Alignment whole(texts);
  whole.push(5);
  EXPECT_EQ(whole.take("think"), Ids{0});
  EXPECT_EQ(whole.take("Hello there"), (Ids{3, 4}));
  Alignment cut(texts);
  EXPECT_EQ(cut.push(1).take("think"), Ids{0});
  EXPECT_EQ(cut.push(2).take(""), Ids{});
  EXPECT_EQ(cut.push(2).take("He"), Ids{});
  EXPECT_EQ(cut.take("llo the"), Ids{3});
  EXPECT_EQ(cut.take("re"), Ids{4});
}

TEST(TokenAligner, FindsCharactersOfSeveralTokens) {
  Alignment emoji({"a", "\xF0\x9F", "\x98\x80", "b"});
  emoji.push(2);
  EXPECT_EQ(emoji.take("a"), Ids{0});
  emoji.push(2);
  EXPECT_EQ(emoji.take("\xF0\x9F\x98\x80"
                       "b"),
            (Ids{1, 2, 3}));
}

TEST(TokenAligner, BytesThatAreNoTextHaveReplacements) {
  Alignment broken({"a", "\xFF", "b"});
  broken.push(3);
  EXPECT_EQ(broken.take("a\xEF\xBF\xBD"
                        "b"),
            (Ids{0, 1, 2}));
}

TEST(TokenAligner, TextThatAStopCutHasNoToken) {
  Alignment stopped({"best", "!"});
  stopped.push(1);
  EXPECT_EQ(stopped.take("be"), Ids{});
  stopped.end_text();
  stopped.push(1);
  EXPECT_EQ(stopped.take("!"), Ids{1});
}

}  // namespace
}  // namespace ft::server
