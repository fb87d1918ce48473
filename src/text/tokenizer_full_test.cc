// Against references that take seconds: the Python oracle on generated texts, and PCRE2 on every
// code point.
#include "text/detokenizer.h"
#include "text/model_files_test_data.h"
#include "text/splitter.h"
#include "text/tokenizer.h"
#include "text/tokenizer_test_data.h"
#include "text/utf8.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ft::text {
namespace {

std::string to_utf8(char32_t c) {
  const auto continuation = [&](int shift) {
    return static_cast<char>(0x80 | ((c >> shift) & 0x3F));
  };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), continuation(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), continuation(6), continuation(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), continuation(12), continuation(6), continuation(0)};
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

// ---- generated texts ----

constexpr std::string_view kWords[] = {"the",
                                       " fox",
                                       " Hello",
                                       "World",
                                       "don't",
                                       "WE'LL",
                                       "I'm",
                                       "'s",
                                       "'S",
                                       "'\u017F",
                                       "x'",
                                       "return",
                                       "std::vector<int>",
                                       "foo_bar",
                                       "()",
                                       " {",
                                       "};",
                                       "/* */",
                                       "#include",
                                       "https://example.org/?a=b",
                                       "<|user|>",
                                       "<|assistant|>",
                                       "<think>",
                                       "</think>",
                                       "[gMASK]<sop>",
                                       "<tool_call>",
                                       "<|",
                                       "|>",
                                       "/nothink",
                                       "\u4F60\u597D\uFF0C",
                                       "\u4E16\u754C\u3002",
                                       "\u3053\u3093\u306B\u3061\u306F",
                                       "\uD55C\uAD6D\uC5B4",
                                       "\u0395\u03BB\u03BB\u03AC\u03C2",
                                       "\u0440\u0443\u0441",
                                       "\u0639\u0631\u0628\u064A",
                                       "\u0928\u092E\u0938\u094D\u0924\u0947",
                                       "e\u0301",
                                       "n\u0303o",
                                       "\u0301",
                                       "\U0001F642",
                                       "\U0001F469\u200D\U0001F469\u200D\U0001F467",
                                       "\U0001F1E9\U0001F1EA",
                                       "\u2764\uFE0F",
                                       "\u00BD",
                                       "\u0661\u0662\u0663\u0664",
                                       "\u2167",
                                       "\u00B2\u00B3",
                                       "...",
                                       "\u2014",
                                       "\u201Cq\u201D",
                                       "$9.99",
                                       "50%"};

constexpr std::string_view kSpaces[] = {" ",
                                        "  ",
                                        "    ",
                                        "\t",
                                        "\n",
                                        "\r\n",
                                        "\r",
                                        "\n\n",
                                        "\r\n\r\n",
                                        "\u00A0",
                                        "\u3000",
                                        "\u0085",
                                        "\u2028",
                                        "\u180E",
                                        "\u200B",
                                        "\x0b",
                                        "\x0c",
                                        "\x1c"};

constexpr std::pair<char32_t, char32_t> kBlocks[] = {{0xA0, 0x24F},
                                                     {0x300, 0x36F},
                                                     {0x370, 0x3FF},
                                                     {0x400, 0x4FF},
                                                     {0x5D0, 0x5EA},
                                                     {0x660, 0x669},
                                                     {0x905, 0x94D},
                                                     {0xE01, 0xE3A},
                                                     {0x2000, 0x206F},
                                                     {0x2150, 0x218B},
                                                     {0x3041, 0x30FF},
                                                     {0x4E00, 0x4FFF},
                                                     {0xAC00, 0xACFF},
                                                     {0xFF01, 0xFF9F},
                                                     {0x1D400, 0x1D4FF},
                                                     {0x1F600, 0x1F64F},
                                                     {0x20000, 0x200FF}};

/// Prose-like and adversarial stretches, glued at random. All characters are in Unicode 14, so that
/// the Unicode version of the oracle's regex library does not matter.
std::string random_stretch(std::mt19937& random) {
  switch (random() % 8) {
    case 0:
    case 1:
      return std::string(kSpaces[random() % std::size(kSpaces)]);
    case 2:
      return std::to_string(random() % 10'000'000);
    case 3:
      return {static_cast<char>(random() % 128)};
    case 4: {
      const auto [first, last] = kBlocks[random() % std::size(kBlocks)];
      return to_utf8(first + static_cast<char32_t>(random() % (last - first + 1)));
    }
    case 5:
      return std::string(1 + random() % 12, "aA. \n1"[random() % 6]);
    default:
      return std::string(kWords[random() % std::size(kWords)]);
  }
}

std::string random_text(std::mt19937& random) {
  std::string text;
  const std::size_t n_stretches = random() % 24;
  for (std::size_t i = 0; i < n_stretches; ++i) text += random_stretch(random);
  return text;
}

// ---- the oracle ----

/// Lines "e <hex of UTF-8>" are answered by ids, "d <ids>" by the hex of the visible text.
constexpr const char* kOracleProgram = R"(
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from tokenizer_oracle import Tokenizer
tokenizer = Tokenizer(sys.argv[2])
for line in open(sys.argv[3]):
    kind, _, rest = line.rstrip('\n').partition(' ')
    if kind == 'e':
        print(*tokenizer.encode(bytes.fromhex(rest).decode('utf-8')))
    else:
        print(tokenizer.decode([int(i) for i in rest.split()], skip_special=True).encode('utf-8').hex())
)";

std::vector<std::string> ask_oracle(const std::vector<std::string>& questions) {
  // Tests run side by side, so each has its own files.
  const std::string stem = std::string(FT_BINARY_DIR "/tokenizer_oracle_") +
                           testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string program_path = stem + ".py";
  const std::string questions_path = stem + ".txt";
  std::ofstream(program_path) << kOracleProgram;
  std::ofstream file(questions_path);
  for (const std::string& question : questions) file << question << '\n';
  file.close();
  const std::string command = fmt::format("/usr/bin/python3 '{}' '{}' '{}' '{}'",
                                          program_path,
                                          FT_SOURCE_DIR "/tests/oracle",
                                          FT_SOURCE_DIR "/models/glm-mini/tokenizer.json",
                                          questions_path);
  const auto close_pipe = [](std::FILE* pipe) { return pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close_pipe)> pipe(popen(command.c_str(), "r"),
                                                              close_pipe);
  std::string output;
  std::vector<char> buffer(1 << 16);
  while (pipe) {
    const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get());
    if (n == 0) break;
    output.append(buffer.data(), n);
  }
  std::vector<std::string> answers;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) answers.push_back(line);
  return answers;
}

std::string joined_ids(const std::vector<Token>& ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

class TokenizerOracle : public testing::Test {
 protected:
  static constexpr unsigned kSeed = 20240715;
  Tokenizer tokenizer_ = tokenizer_of(read_model_file("glm-mini/tokenizer.json"));
};

TEST_F(TokenizerOracle, GivesTheSameIds) {
  std::mt19937 random(kSeed);
  std::vector<std::string> texts;
  std::vector<std::string> questions;
  for (int i = 0; i < 5'000; ++i) {
    texts.push_back(random_text(random));
    questions.push_back("e " + to_hex(texts.back()));
  }
  const std::vector<std::string> answers = ask_oracle(questions);
  ASSERT_EQ(answers.size(), texts.size()) << "the oracle failed; it needs python3-regex";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(joined_ids(tokenizer_.encode(texts[i])), answers[i])
        << "text " << i << ": " << testing::PrintToString(texts[i]);
  }
}

TEST_F(TokenizerOracle, GivesTheSameVisibleText) {
  std::mt19937 random(kSeed);
  std::vector<std::vector<Token>> sequences;
  std::vector<std::string> questions;
  for (int i = 0; i < 5'000; ++i) {
    // Low ids are single bytes: most sequences hold broken characters.
    const std::size_t n_ids = random() % 2 == 0 ? 260 : tokenizer_.n_tokens();
    std::vector<Token> ids;
    const std::size_t size = random() % 20;
    for (std::size_t k = 0; k < size; ++k) ids.push_back(static_cast<Token>(random() % n_ids));
    questions.push_back("d " + joined_ids(ids));
    sequences.push_back(std::move(ids));
  }
  const std::vector<std::string> answers = ask_oracle(questions);
  ASSERT_EQ(answers.size(), sequences.size()) << "the oracle failed; it needs python3-regex";
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Detokenizer detokenizer(tokenizer_, {});
    std::string text;
    for (const Token id : sequences[i]) text += detokenizer.push(id);
    text += detokenizer.finish();
    ASSERT_EQ(to_hex(text), answers[i]) << "sequence " << i << ": " << joined_ids(sequences[i]);
  }
}

// ---- Unicode versions ----

std::vector<std::size_t> piece_ends(const Splitter& splitter, std::string_view text) {
  std::vector<std::size_t> ends;
  splitter.split(text, 0, text.size(), ends);
  return ends;
}

/// utf8proc 2.8 knows Unicode 15.0, PCRE2 10.42 knows 14.0. The two ways to split may differ at
/// characters that came in between, which PCRE2 takes for unassigned, and nowhere else.
TEST(GlmSplitter, AgreesWithPcre2_OnEveryCodePointBothKnow) {
  const auto fast = make_glm_splitter();
  const auto clock = std::make_shared<const SteadyClock>();
  const auto slow = make_regex_splitter("(?:" + std::string(kGlmPattern) + ")", clock);
  const auto unassigned = make_regex_splitter("\\p{Cn}", clock);
  std::size_t n_different = 0;
  std::string differing;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string character = to_utf8(c);
    const std::string text = fmt::format("a{0}b1{0}2 {0}{0} .{0}\n'{0}", character);
    if (piece_ends(*fast, text) == piece_ends(*slow, text)) continue;
    ++n_different;
    differing += fmt::format(" {:X}", static_cast<std::uint32_t>(c));
    ASSERT_EQ(piece_ends(*unassigned, "a" + character + "a").size(), 3U)
        << "U+" << std::hex << static_cast<std::uint32_t>(c)
        << " is split differently though PCRE2 knows it";
  }
  // Unicode 15.0 brought 4,489 characters, 4,388 of them letters or numbers.
  EXPECT_LT(n_different, 20'000U) << differing;
  RecordProperty("n_different", static_cast<int>(n_different));
}

}  // namespace
}  // namespace ft::text
