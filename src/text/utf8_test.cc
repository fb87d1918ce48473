#include "text/utf8.h"

#include "text/printable.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ft::text {
namespace {

using Kind = Utf8Step::Kind;

struct Case {
  std::string bytes;
  Kind kind;
  std::uint32_t n_bytes;
  char32_t code_point;
};

TEST(Utf8_Decode, ReadsCharactersAndMaximalSubparts) {
  const char32_t bad = kReplacementCharacter;
  const std::vector<Case> cases = {
      {"a", Kind::kCharacter, 1, 'a'},
      {std::string("\0", 1), Kind::kCharacter, 1, 0},
      {"\x7F", Kind::kCharacter, 1, 0x7F},
      {"\xC2\x80", Kind::kCharacter, 2, 0x80},
      {"\xDF\xBF", Kind::kCharacter, 2, 0x7FF},
      {"\xE0\xA0\x80", Kind::kCharacter, 3, 0x800},
      {"\xED\x9F\xBF", Kind::kCharacter, 3, 0xD7FF},
      {"\xEE\x80\x80", Kind::kCharacter, 3, 0xE000},
      {"\xEF\xBF\xBD", Kind::kCharacter, 3, 0xFFFD},
      {"\xF0\x90\x80\x80", Kind::kCharacter, 4, 0x10000},
      {"\xF4\x8F\xBF\xBF", Kind::kCharacter, 4, 0x10FFFF},
      {"\x80", Kind::kInvalid, 1, bad},
      {"\xC0\x80", Kind::kInvalid, 1, bad},
      {"\xC1\xBF", Kind::kInvalid, 1, bad},
      {"\xE0\x9F\xBF", Kind::kInvalid, 1, bad},
      {"\xED\xA0\x80", Kind::kInvalid, 1, bad},
      {"\xF0\x8F\xBF\xBF", Kind::kInvalid, 1, bad},
      {"\xF4\x90\x80\x80", Kind::kInvalid, 1, bad},
      {"\xF5\x80\x80\x80", Kind::kInvalid, 1, bad},
      {"\xFF", Kind::kInvalid, 1, bad},
      {"\xE4\xB8"
       "a",
       Kind::kInvalid,
       2,
       bad},
      {"\xF0\x9F\x99"
       "a",
       Kind::kInvalid,
       3,
       bad},
      {"\xF0\x9F"
       "a",
       Kind::kInvalid,
       2,
       bad},
      {"\xC3", Kind::kTruncated, 1, bad},
      {"\xE4\xB8", Kind::kTruncated, 2, bad},
      {"\xF0\x9F\x99", Kind::kTruncated, 3, bad},
      {"\xF0", Kind::kTruncated, 1, bad},
  };
  for (const Case& c : cases) {
    const Utf8Step step = decode_utf8("x" + c.bytes, 1);
    EXPECT_EQ(step.kind, c.kind) << printable(c.bytes);
    EXPECT_EQ(step.n_bytes, c.n_bytes) << printable(c.bytes);
    EXPECT_EQ(step.code_point, c.code_point) << printable(c.bytes);
    EXPECT_EQ(is_valid_utf8(c.bytes), c.kind == Kind::kCharacter) << printable(c.bytes);
  }
}

TEST(Printable_Text, StaysOnOneLineAndShort) {
  EXPECT_EQ(printable("a b"), "'a b'");
  EXPECT_EQ(printable("\n\x1b[31m\xff"), "'\\x0a\\x1b[31m\\xff'");
  EXPECT_EQ(printable("\xE2\x80\xA8"), "'\\xe2\\x80\\xa8'");
  EXPECT_EQ(printable("\xE4\xB8\xAD"), "'\xE4\xB8\xAD'");
  EXPECT_EQ(printable(std::string(100, 'x')), "'" + std::string(60, 'x') + "...'");
}

}  // namespace
}  // namespace ft::text
