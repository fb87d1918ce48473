// Fuzz target: any bytes as tokenizer.json; what loads must encode and decode any bytes.
#include "base/error.h"
#include "text/detokenizer.h"
#include "text/splitter.h"
#include "text/tokenizer.h"
#include "text/tokenizer_test_data.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace {

void round_trip(const ft::text::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<ft::Token> ids = tokenizer.encode(text);
  FT_CHECK(tokenizer.decode(ids) == text);
  ft::text::Detokenizer detokenizer(tokenizer, {"ab", "bc\u00E9"});
  std::size_t n_bytes = 0;
  for (const ft::Token id : ids) {
    n_bytes += detokenizer.push(id).size();
    if (detokenizer.matched_stop()) break;
  }
  n_bytes += detokenizer.finish().size();
  FT_CHECK(n_bytes <= 3 * text.size());
}

/// A file with the parts that a fuzzer would hardly find by itself: all 256 bytes in the
/// vocabulary, the right frame.
std::string framed_file(const std::vector<std::string_view>& fields) {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary +=
        fmt::format("\"{}\":{},", ft::text::byte_letter(static_cast<unsigned char>(byte)), byte);
  }
  return fmt::format(
      R"({{"added_tokens":[{}],"pre_tokenizer":{{"type":"Sequence","pretokenizers":[{}{{"type":"ByteLevel",)"
      R"("use_regex":{}}}]}},"model":{{"ignore_merges":{},"vocab":{{{}"ab":256{}}},"merges":["a b"{}]}}}})",
      fields[1],
      fields[2],
      fields[3].empty(),
      fields[4].empty(),
      vocabulary,
      fields[5],
      fields[6]);
}

void try_file(std::string_view file, std::string_view text) {
  try {
    round_trip(ft::text::tokenizer_of(file), text);
  } catch (const ft::InvalidInput&) {
    return;  // the expected answer to nearly everything
  }
}

}  // namespace

/// Fields end with a zero byte: text to encode, then the parts of framed_file(). The last one is
/// also tried as a split pattern and, alone, as a whole file.
// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kFields = 8;
  constexpr std::size_t kMaxTextBytes = 64;  // hostile patterns take time that grows with the text
  const std::string input(data, data + size);
  std::vector<std::string_view> fields;
  std::string_view rest = input;
  while (fields.size() < kFields) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    fields.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const std::string_view text = fields[0].substr(0, kMaxTextBytes);
  try_file(fields[7], text);
  try_file(framed_file(fields), text);
  try {
    std::vector<std::size_t> ends;
    const auto clock = std::make_shared<const ft::SteadyClock>();
    ft::text::make_regex_splitter(fields[7], clock)->split(text, 0, text.size(), ends);
    FT_CHECK(text.empty() || ends.back() == text.size());
  } catch (const ft::InvalidInput&) {
    return 0;
  }
  return 0;
}
