#include "text/tokenizer.h"

#include "base/error.h"
#include "json/json.h"
#include "text/model_files_test_data.h"
#include "text/tokenizer_test_data.h"

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<Token>;

Tokenizer load(const TokenizerFile& file) {
  return tokenizer_of(file.text());
}

const Tokenizer& glm_mini() {
  static const Tokenizer tokenizer = tokenizer_of(read_model_file("glm-mini/tokenizer.json"));
  return tokenizer;
}

Ids ids_of(const json::Value& value) {
  Ids ids;
  for (const json::Value& id : value.as_array("ids"))
    ids.push_back(static_cast<Token>(id.as_integer("id")));
  return ids;
}

/// The error of loading `text`, which must be InvalidInput of one line.
std::string error_of(const std::string& text) {
  try {
    tokenizer_of(text);
  } catch (const InvalidInput& error) {
    std::string what = error.what();
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_THAT(what, HasSubstr("tokenizer.json"));
    return what;
  }
  ADD_FAILURE() << "loaded: " << text.substr(0, 200);
  return {};
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// ---- the shipped model ----

TEST(Tokenizer_Encode, GivesGoldenIds) {
  const json::Value goldens = json::parse(read_model_file("goldens/tokenizer.json"), "goldens");
  ASSERT_EQ(goldens.as_array("goldens").size(), 60U);
  for (const json::Value& golden : goldens.as_array("goldens")) {
    const std::string& text = golden.find("text")->as_string("text");
    const Ids expected = ids_of(*golden.find("ids"));
    EXPECT_EQ(glm_mini().encode(text), expected) << text;
    EXPECT_EQ(glm_mini().decode(expected), text);
  }
}

/// The prompt as the template renders it: what the messages say is not trusted.
std::vector<TextSegment> chat_segments(const json::Value& request, const std::string& prompt) {
  std::vector<TextSegment> segments;
  std::size_t at = 0;
  for (const json::Value& message : request.find("messages")->as_array("messages")) {
    const json::Value* content = message.find("content");
    if (content == nullptr || !content->is_string()) continue;
    const std::string& text = content->as_string("content");
    const std::size_t begin = prompt.find(text, at);
    if (begin == std::string::npos) continue;
    segments.push_back({prompt.substr(at, begin - at), true});
    segments.push_back({text, false});
    at = begin + text.size();
  }
  segments.push_back({prompt.substr(at), true});
  return segments;
}

TEST(Tokenizer_Encode, GivesGoldenIdsOfChatPrompts) {
  const json::Value goldens = json::parse(read_model_file("goldens/chat.json"), "goldens");
  ASSERT_FALSE(goldens.as_array("goldens").empty());
  int n_with_typed_markers = 0;
  for (const json::Value& golden : goldens.as_array("goldens")) {
    const std::string& prompt = golden.find("prompt")->as_string("prompt");
    const Ids expected = ids_of(*golden.find("ids"));
    const Ids ids = glm_mini().encode(chat_segments(*golden.find("request"), prompt));
    EXPECT_EQ(ids, expected) << prompt;
    EXPECT_EQ(glm_mini().decode(expected), prompt);
    n_with_typed_markers += glm_mini().encode(prompt) == expected ? 0 : 1;
  }
  EXPECT_EQ(n_with_typed_markers, 1);
}

TEST(Tokenizer_Load, KnowsTheShippedTables) {
  const Tokenizer& tokenizer = glm_mini();
  EXPECT_EQ(tokenizer.n_tokens(), 6144U);
  const std::optional<Token> user = tokenizer.added_token("<|user|>");
  const std::optional<Token> think = tokenizer.added_token("<think>");
  ASSERT_TRUE(user && think);
  EXPECT_TRUE(tokenizer.is_special(*user));
  EXPECT_FALSE(tokenizer.is_special(*think));
  EXPECT_EQ(tokenizer.token_bytes(*think), "<think>");
  EXPECT_EQ(tokenizer.added_token("Hello"), std::nullopt);
  EXPECT_EQ(tokenizer.added_token(""), std::nullopt);
  EXPECT_FALSE(tokenizer.has_token(6144));
  EXPECT_FALSE(tokenizer.has_token(-1));
  EXPECT_FALSE(tokenizer.is_special(-1));
}

TEST(Tokenizer_Decode, ReturnsTheBytes_WhateverTheyAre) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string bytes;
    const std::size_t size = random() % 200;
    for (std::size_t k = 0; k < size; ++k) bytes.push_back(static_cast<char>(random() % 256));
    ASSERT_EQ(glm_mini().decode(glm_mini().encode(bytes)), bytes) << "round " << i;
  }
}

TEST(Tokenizer_Decode, RefusesUnknownIds) {
  EXPECT_THROW(glm_mini().decode(Ids{1, 6144}), InvalidInput);
  EXPECT_THROW(glm_mini().decode(Ids{-1}), InvalidInput);
}

TEST(Tokenizer_Encode, IsNearLinear_WhenOnePieceIsHuge) {
  // Quadratic merging would not come back from these.
  const std::size_t size = 1'000'000;
  std::mt19937 random(5);
  std::string letters;
  for (std::size_t i = 0; i < size; ++i) letters.push_back(static_cast<char>('a' + random() % 26));
  for (const std::string& text :
       {std::string(size, 'a'), letters, std::string(size, ' '), std::string(size, '\n')}) {
    const Ids ids = glm_mini().encode(text);
    EXPECT_LT(ids.size(), size);
    EXPECT_EQ(glm_mini().decode(ids), text);
  }
}

// ---- rules, on small vocabularies ----

TEST(Tokenizer_Encode, MergesInsidePiecesOnly) {
  const Tokenizer tokenizer = load({.merges = {{"a", " "}, {"a", "b"}, {" ", "ab"}}});
  EXPECT_THAT(tokenizer.encode("ab a"), ElementsAre(257, ' ', 'a'));
  EXPECT_THAT(tokenizer.encode(" ab"), ElementsAre(258));
  EXPECT_EQ(tokenizer.token_bytes(258), " ab");
}

TEST(Tokenizer_Encode, ReadsMergesAsStringsOrPairs) {
  TokenizerFile file{.merges = {{"a", "b"}, {" ", "ab"}, {"\xff", "\n"}}};
  const Tokenizer strings = load(file);
  file.has_merge_arrays = true;
  const Tokenizer pairs = load(file);
  for (const std::string text : {" ab", "\xff\n", "ba"})
    EXPECT_EQ(strings.encode(text), pairs.encode(text));
  EXPECT_THAT(pairs.encode(" ab"), ElementsAre(257));
}

TEST(Tokenizer_Encode, TakesWholePieces_OnlyWithIgnoreMerges) {
  // "abc" is made of "a" + "bc", but merging begins with "ab".
  TokenizerFile file{.merges = {{"a", "b"}, {"b", "c"}, {"a", "bc"}}};
  EXPECT_THAT(load(file).encode("abc"), ElementsAre(256, 'c'));
  file.ignores_merges = true;
  EXPECT_THAT(load(file).encode("abc"), ElementsAre(258));
  EXPECT_THAT(load(file).encode("abcc"), ElementsAre(256, 'c', 'c'));
}

TEST(Tokenizer_Encode, AppliesPreTokenizersInOrder) {
  const std::string two_splits = replaced(
      TokenizerFile{.merges = {{"1", "2"}, {"b", "c"}, {"a", "bc"}}, .pattern = "\\d"}.text(),
      R"({"type":"ByteLevel")",
      R"({"type":"Split","behavior":"Isolated","pattern":{"String":"b"}},{"type":"ByteLevel")");
  EXPECT_THAT(tokenizer_of(two_splits).encode("abc12"), ElementsAre('a', 'b', 'c', '1', '2'));
  const Tokenizer no_split = load({.merges = {{"1", "a"}}, .pattern = ""});
  EXPECT_THAT(no_split.encode("1a"), ElementsAre(256));
  const std::string own_regex =
      replaced(TokenizerFile{.merges = {{"1", "a"}, {" ", "a"}}, .pattern = ""}.text(),
               R"("use_regex":false)",
               R"("use_regex":true)");
  EXPECT_THAT(tokenizer_of(own_regex).encode("1a a"), ElementsAre('1', 'a', 257));
}

TEST(Tokenizer_Encode, MatchesAddedTokensFirst) {
  const Tokenizer tokenizer =
      load({.merges = {{"<", "x"}, {"a", "b"}},
            .added = {{"<x>"}, {"<x><y>"}, {"qu", false}, {"\xE4\xB8\xAD", false}}});
  EXPECT_THAT(tokenizer.encode("<x"), ElementsAre(256));
  EXPECT_THAT(tokenizer.encode("<x><x><y>"), ElementsAre(258, 259));
  EXPECT_THAT(tokenizer.encode("aquab"), ElementsAre('a', 260, 257));
  EXPECT_THAT(tokenizer.encode("\xE4\xB8\xAD"), ElementsAre(261));
  EXPECT_EQ(tokenizer.token_bytes(261), "\xE4\xB8\xAD");
  EXPECT_TRUE(tokenizer.is_special(258));
  EXPECT_FALSE(tokenizer.is_special(260));
  EXPECT_FALSE(tokenizer.is_special('a'));
}

TEST(Tokenizer_Encode, MatchesAddedTokensInTrustedTextOnly) {
  const Tokenizer tokenizer = load({.added = {{"<x>"}}});
  using Segments = std::vector<TextSegment>;
  EXPECT_THAT(tokenizer.encode(Segments{}), ElementsAre());
  EXPECT_THAT(tokenizer.encode(Segments{{"<x>", true}, {"<x>", false}}),
              ElementsAre(256, '<', 'x', '>'));
  // One run of trusted segments may hold a token together; a user may not complete one.
  EXPECT_THAT(tokenizer.encode(Segments{{"<", true}, {"x>", true}}), ElementsAre(256));
  EXPECT_THAT(tokenizer.encode(Segments{{"<", true}, {"x", false}, {">", true}}),
              ElementsAre('<', 'x', '>'));
  EXPECT_THAT(tokenizer.encode(Segments{{"<x", true}, {">", false}}), ElementsAre('<', 'x', '>'));
  EXPECT_THAT(tokenizer.encode(Segments{{"<x", false}, {">", true}}), ElementsAre('<', 'x', '>'));
}

TEST(Tokenizer_Encode, JoinsPlainTextAcrossTrustBorders) {
  const Tokenizer tokenizer = load({.merges = {{"a", "b"}, {" ", "ab"}}, .added = {{"<x>"}}});
  const std::vector<TextSegment> segments{{"<x> ", true}, {"a", false}, {"b<x>", true}};
  EXPECT_THAT(tokenizer.encode(segments), ElementsAre(258, 257, 258));
}

TEST(Tokenizer_Encode, NeverMakesAddedTokensOutOfUserText) {
  // "ab" is an added token and the result of a merge; "abc" is one and a whole piece.
  TokenizerFile file{.merges = {{"a", "b"}, {"b", "c"}, {"a", "bc"}}, .ignores_merges = true};
  const std::string text = replaced(
      file.text(),
      R"("added_tokens":[])",
      R"("added_tokens":[{"id":256,"content":"ab","special":true},{"id":258,"content":"abc"}])");
  const Tokenizer tokenizer = tokenizer_of(text);
  EXPECT_THAT(tokenizer.encode("ab abc"), ElementsAre(256, ' ', 258));
  EXPECT_THAT(tokenizer.encode(std::vector<TextSegment>{{"ab abc", false}}),
              ElementsAre('a', 'b', ' ', 'a', 257));
  EXPECT_TRUE(tokenizer.is_special(256));
  EXPECT_FALSE(tokenizer.is_special(258));
}

TEST(Tokenizer_Load, LeavesGapsBetweenIds) {
  const std::string text = replaced(TokenizerFile{}.text(),
                                    R"("added_tokens":[])",
                                    R"("added_tokens":[{"id":300,"content":"<x>"}])");
  const Tokenizer tokenizer = tokenizer_of(text);
  EXPECT_EQ(tokenizer.n_tokens(), 301U);
  EXPECT_TRUE(tokenizer.has_token(255));
  EXPECT_FALSE(tokenizer.has_token(256));
  EXPECT_EQ(tokenizer.token_bytes(256), "");
  EXPECT_TRUE(tokenizer.has_token(300));
  EXPECT_THROW(tokenizer.decode(Ids{256}), InvalidInput);
}

TEST(Tokenizer_Load, KeepsVocabularyEntriesThatAreNotByteLetters) {
  const std::string text = replaced(TokenizerFile{.added = {{"x y"}}}.text(),
                                    R"("vocab":{)",
                                    R"("vocab":{"x y":256,"中 b":257,)");
  const Tokenizer tokenizer = tokenizer_of(text);
  EXPECT_EQ(tokenizer.token_bytes(257), "中 b");
  EXPECT_THAT(tokenizer.encode("x y"), ElementsAre(256));
  EXPECT_EQ(tokenizer.encode("中 b").size(), 5U);
}

// ---- hostile files ----

TEST(Tokenizer_Load, RefusesTextThatIsNoTokenizer) {
  for (const std::string text : {"", "{", "[]", "null", "{}", "\xff", R"({"model":5})"})
    error_of(text);
  error_of(std::string(100'000, '['));
  error_of(TokenizerFile{}.text() + "x");
  EXPECT_THAT(error_of(replaced(TokenizerFile{}.text(), R"("model":)", R"("mod":)")),
              HasSubstr("no member 'model'"));
}

TEST(Tokenizer_Load, RefusesBadIds) {
  const std::string good = TokenizerFile{}.text();
  for (const std::string id : {"-1",
                               "1048576",
                               "1099511627776",
                               "1e300",
                               "0.5",
                               "\"1\"",
                               "null",
                               "[1]",
                               "99999999999999999999"}) {
    EXPECT_THAT(error_of(replaced(good, R"("a":97)", R"("a":)" + id)), HasSubstr("'a'")) << id;
    error_of(replaced(
        good, R"("added_tokens":[])", R"("added_tokens":[{"content":"q","id":)" + id + "}]"));
  }
  EXPECT_THAT(error_of(replaced(good, R"("a":97)", R"("a":98)")), HasSubstr("id 98"));
  EXPECT_THAT(error_of(replaced(good, R"("a":97)", R"("aa":97)")), HasSubstr("byte 0x61"));
  EXPECT_THAT(error_of(replaced(good, R"("a":97)", R"("":97)")), HasSubstr("empty"));
  error_of(replaced(good, R"("a":97)", R"("a":97,"a":256)"));
}

TEST(Tokenizer_Load, RefusesBadAddedTokens) {
  const std::string good = TokenizerFile{.merges = {{"a", "b"}}}.text();
  const auto with = [&](const std::string& list) {
    return error_of(replaced(good, R"("added_tokens":[])", R"("added_tokens":)" + list));
  };
  EXPECT_THAT(with(R"([{"id":257,"content":"x"},{"id":258,"content":"x"}])"), HasSubstr("'x'"));
  EXPECT_THAT(with(R"([{"id":257,"content":"x"},{"id":257,"content":"y"}])"), HasSubstr("id 257"));
  EXPECT_THAT(with(R"([{"id":257,"content":"<x>"},{"id":257,"content":"<x>"}])"),
              HasSubstr("id 257"));
  EXPECT_THAT(with(R"([{"id":257,"content":"<x>"},{"id":258,"content":"<x>"}])"),
              HasSubstr("ids 257 and 258"));
  EXPECT_THAT(with(R"([{"id":97,"content":"<x>"}])"), HasSubstr("id 97"));
  EXPECT_THAT(with(R"([{"id":257,"content":"ab"}])"), HasSubstr("id 256"));
  EXPECT_THAT(with(R"([{"id":195,"content":"Ã"}])"), HasSubstr("other bytes"));
  for (const std::string list : {R"({})",
                                 R"(["x"])",
                                 R"([{}])",
                                 R"([{"id":257}])",
                                 R"([{"content":"x"}])",
                                 R"([{"id":257,"content":""}])",
                                 R"([{"id":257,"content":7}])",
                                 R"([{"id":257,"content":"x","special":1}])",
                                 R"([{"id":257,"content":"x","lstrip":true}])",
                                 R"([{"id":257,"content":"x","single_word":true}])"}) {
    with(list);
  }
}

TEST(Tokenizer_Load, RefusesBadMerges) {
  const std::string good = TokenizerFile{.merges = {{"a", "b"}}}.text();
  const auto with = [&](const std::string& merges) {
    return error_of(replaced(good, R"("merges":["a b"])", R"("merges":)" + merges));
  };
  EXPECT_THAT(with(R"(["a bb"])"), HasSubstr("'bb'"));
  EXPECT_THAT(with(R"(["aa b"])"), HasSubstr("'aa'"));
  EXPECT_THAT(with(R"(["a b","b a"])"), HasSubstr("merges[1] needs token 'ba'"));
  for (const std::string merges : {R"({})",
                                   R"("a b")",
                                   R"([5])",
                                   R"(["ab"])",
                                   R"(["a b c"])",
                                   R"(["a  b"])",
                                   R"([" b"])",
                                   R"([["a"]])",
                                   R"([["a","b","c"]])",
                                   R"([["a",5]])",
                                   R"([["a","中"]])",
                                   R"(["a 中"])",
                                   "null"}) {
    with(merges);
  }
}

TEST(Tokenizer_Load, RefusesWhatItDoesNotSupport) {
  const std::string good = TokenizerFile{}.text();
  const auto with = [&](const std::string& from, const std::string& to) {
    return error_of(replaced(good, from, to));
  };
  EXPECT_THAT(with(R"("type":"BPE")", R"("type":"Unigram")"), HasSubstr("Unigram"));
  EXPECT_THAT(with(R"("normalizer":null)", R"("normalizer":{"type":"NFC"})"), HasSubstr("NFC"));
  EXPECT_THAT(with(R"("normalizer":null)", R"("decoder":{"type":"Metaspace"})"),
              HasSubstr("Metaspace"));
  EXPECT_THAT(with(R"("behavior":"Isolated")", R"("behavior":"Removed")"), HasSubstr("Removed"));
  EXPECT_THAT(with(R"({"type":"Split")", R"({"type":"Digits"},{"type":"Split")"),
              HasSubstr("Digits"));
  EXPECT_THAT(with(R"("add_prefix_space":false)", R"("add_prefix_space":true)"),
              HasSubstr("add_prefix_space"));
  EXPECT_THAT(
      with(R"({"type":"Split")", R"({"type":"ByteLevel","use_regex":false},{"type":"Split")"),
      HasSubstr("last"));
  EXPECT_THAT(with(R"({"type":"ByteLevel")",
                   R"({"type":"Split","pattern":{},"behavior":"Isolated"},{"type":"ByteLevel")"),
              HasSubstr("String"));
  EXPECT_THAT(with(R"("ignore_merges":false)", R"("ignore_merges":3)"), HasSubstr("ignore_merges"));
  EXPECT_THAT(with(R"("ignore_merges":false)", R"("byte_fallback":true)"),
              HasSubstr("byte_fallback"));
  EXPECT_THAT(with(R"("ignore_merges":false)", R"("dropout":0.1)"), HasSubstr("dropout"));
  EXPECT_THAT(with(R"("ignore_merges":false)", R"("end_of_word_suffix":"</w>")"),
              HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(with(R"("pre_tokenizer":)", R"("pre":)"), HasSubstr("pre_tokenizer"));
  std::string many = R"({"type":"ByteLevel","use_regex":false})";
  for (int i = 0; i < 20; ++i)
    many.insert(0, R"({"type":"Split","behavior":"Isolated","pattern":{"String":"b"}},)");
  EXPECT_THAT(error_of(replaced(good, R"({"type":"Split")", many + R"(,{"type":"Split")")),
              HasSubstr("at most 16"));
}

TEST(Tokenizer_Load, TakesWhatChangesNothing) {
  const std::string good = TokenizerFile{}.text();
  for (const std::string extra :
       {R"("normalizer":{"type":"Sequence","normalizers":[]})",
        R"("normalizer":null,"decoder":{"type":"ByteLevel"})",
        R"("normalizer":null,"post_processor":{"type":"TemplateProcessing"})",
        R"("normalizer":null,"truncation":{"max_length":1})"}) {
    EXPECT_THAT(tokenizer_of(replaced(good, R"("normalizer":null)", extra)).encode("ab"),
                ElementsAre('a', 'b'));
  }
}

}  // namespace
}  // namespace ft::text
