// Laws of the reply parser over random replies.
#include "json/json.h"
#include "text/reply_parser.h"
#include "text/reply_parser_test_data.h"
#include "text/utf8.h"

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ft::text {
namespace {

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return engine_() % n; }
  bool is_one_in(std::size_t n) { return below(n) == 0; }
  template <typename T>
  const T& of(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937 engine_;  // the same numbers everywhere
};

const std::vector<std::string> kScraps = {
    "a",      "Oslo",       " ",        "\n",   "\\n",         "<",      "</arg_value>",
    "\"",     "\\",         "5",        "-1.5", "null",        "[1, 2]", "{\"a\": \"b\"}",
    "\u20AC", "\U0001F642", "\xE2\x82", "\xFF", "get_weather", "city"};

void append(std::vector<Token>& ids, const std::vector<Token>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

std::vector<Token> random_text(Dice& dice, std::size_t max_scraps) {
  std::vector<Token> ids;
  for (std::size_t n = dice.below(max_scraps + 1); n > 0; --n)
    append(ids, spelled(dice.of(kScraps)));
  return ids;
}

/// Marks that hold no sense together, and calls that are nearly right.
std::vector<Token> random_ids(Dice& dice) {
  std::vector<Token> ids;
  for (std::size_t n = dice.below(8); n > 0; --n) {
    switch (dice.below(4)) {
      case 0:
        ids.push_back(kFirstMark + static_cast<Token>(dice.below(11)));
        break;
      case 1: {
        std::vector<Token> call = reply(
            "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Os</arg_value>"
            "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>");
        if (dice.is_one_in(2)) {
          call[dice.below(call.size())] = kFirstMark + static_cast<Token>(dice.below(8));
        }
        if (dice.is_one_in(4)) call.resize(dice.below(call.size()));
        append(ids, call);
        break;
      }
      default:
        append(ids, random_text(dice, 3));
    }
  }
  return ids;
}

ReplyCase random_case(Dice& dice) {
  ReplyCase request{.ids = random_ids(dice)};
  if (dice.is_one_in(2)) request.prompt = reasoning_prompt();
  if (dice.is_one_in(8)) request.prompt = random_ids(dice);
  if (dice.is_one_in(8)) request.tools.reset();
  if (dice.is_one_in(2)) {
    request.stops = {"slo", "</arg_value></tool", "l>\n", "a<", "think>a"};
    request.stops.resize(1 + dice.below(request.stops.size()));
  }
  return request;
}

void expect_sound(const ParsedReply& out, const ReplyCase& request) {
  std::size_t n_calls = 0;
  std::string arguments;
  for (const ReplyDelta& delta : merged(out.deltas)) {
    ASSERT_FALSE(delta.text.empty());
    ASSERT_TRUE(is_valid_utf8(delta.text));
    if (delta.kind == ReplyDelta::Kind::kToolName) {
      ASSERT_EQ(delta.call_index, n_calls);
      ++n_calls;
    }
    if (delta.kind == ReplyDelta::Kind::kToolArguments) {
      ASSERT_EQ(delta.call_index + 1, n_calls);
      json::parse(delta.text, "arguments").as_object("arguments");
    }
  }
  ASSERT_EQ(n_calls, out.n_calls);
  ASSERT_TRUE(n_calls == 0 || request.tools);
  ASSERT_LE(out.n_reasoning_tokens, out.n_tokens);
}

TEST(ReplyParser_Laws, DeltasDoNotDependOnHowAReplyIsCut) {
  for (std::uint32_t seed = 0; seed < 10'000; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const ReplyCase request = random_case(dice);
    const ParsedReply whole = parse_at_once(reply_tokenizer(), reply_markup(), request);
    expect_sound(whole, request);
    const std::size_t longest = 1 + dice.below(9);
    const std::size_t latest = dice.below(30);
    const ParsedReply cut = parse_in_pieces(
        reply_tokenizer(),
        reply_markup(),
        request,
        [&](std::size_t) { return dice.below(longest + 1); },
        [&](std::size_t) { return dice.below(latest + 1); });
    ASSERT_EQ(described(cut.deltas), described(whole.deltas));
    ASSERT_EQ(cut.n_calls, whole.n_calls);
    ASSERT_EQ(cut.n_reasoning_tokens, whole.n_reasoning_tokens);
    if (testing::Test::HasFatalFailure()) return;
  }
}

struct WrittenCall {
  std::vector<Token> ids;
  std::vector<std::string> lines;  // as described() has them
};

/// A call as the template writes it, string values with marks in them.
WrittenCall write_call(Dice& dice, std::size_t index) {
  WrittenCall out;
  json::Writer arguments;
  arguments.begin_object();
  const auto mark = [&](Token id) { out.ids.push_back(id); };
  mark(kCallToken);
  append(out.ids, spelled("write"));
  for (const std::string key : {"path", "text"}) {
    if (dice.is_one_in(3)) continue;
    std::vector<Token> value;
    for (std::size_t n = dice.below(4); n > 0; --n) {
      append(value, random_text(dice, 2));
      value.push_back(dice.of<Token>(
          {kThinkToken, kEndThinkToken, kCallToken, kEndKeyToken, kValueToken, kEndValueToken}));
    }
    append(value, spelled("."));
    mark(kKeyToken);
    append(out.ids, spelled(key));
    mark(kEndKeyToken);
    mark(kValueToken);
    append(out.ids, value);
    mark(kEndValueToken);
    Detokenizer detokenizer(reply_tokenizer(), {});
    std::string text;
    for (const Token id : value) text += detokenizer.push(id);
    arguments.member(key, std::string_view(text += detokenizer.finish()));
  }
  mark(kEndCallToken);
  arguments.end_object();
  const std::string number = std::to_string(index);
  out.lines = {"name " + number + ": write", "arguments " + number + ": " + arguments.text()};
  return out;
}

TEST(ReplyParser_Laws, CallsComeBackAsTheyWereWritten) {
  for (std::uint32_t seed = 0; seed < 2'000; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    ReplyCase request{.ids = spelled("thought"), .prompt = reasoning_prompt()};
    request.ids.push_back(kEndThinkToken);
    std::vector<std::string> expected = {"reasoning: thought"};
    const std::size_t n_calls = dice.below(4);
    for (std::size_t i = 0; i < n_calls; ++i) {
      const WrittenCall call = write_call(dice, i);
      append(request.ids, call.ids);
      if (dice.is_one_in(2)) append(request.ids, spelled("\n"));
      expected.insert(expected.end(), call.lines.begin(), call.lines.end());
    }
    const ParsedReply out = parse_token_by_token(reply_tokenizer(), reply_markup(), request);
    ASSERT_EQ(described(out.deltas), expected);
  }
}

TEST(ReplyParser_Laws, WithoutMarksContentIsTheText) {
  for (std::uint32_t seed = 0; seed < 1'000; ++seed) {
    Dice dice(seed);
    const ReplyCase request{.ids = random_text(dice, 12)};
    const ParsedReply out = parse_token_by_token(reply_tokenizer(), reply_markup(), request);
    std::string text;
    for (const ReplyDelta& delta : out.deltas) text += delta.text;
    ASSERT_EQ(text, out.text) << seed;
  }
}

}  // namespace
}  // namespace ft::text
