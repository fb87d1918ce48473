#include "text/tokenizer_json.h"

#include "base/error.h"
#include "json/json.h"
#include "text/byte_alphabet.h"
#include "text/printable.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace ft::text {

namespace {

using json::Value;
using Kind = Vocabulary::Kind;

/// Bounds the memory of the matcher, which takes about 40 bytes for each of these.
constexpr std::size_t kMaxAddedBytes = std::size_t{16} << 20;
/// Each takes a pass over the text; public files have at most four.
constexpr std::size_t kMaxPreTokenizers = 16;

const Value& member(const Value& object, std::string_view key, std::string_view where) {
  const Value* value = object.find(key);
  if (value == nullptr) fail("tokenizer.json: {} has no member '{}'", where, key);
  return *value;
}

bool is_absent(const Value* value) noexcept {
  return value == nullptr || value->is_null();
}

/// A flag that may be left out; then it is false, or `otherwise`.
bool flag(const Value& object,
          std::string_view key,
          std::string_view where,
          bool otherwise = false) {
  const Value* value = object.find(key);
  if (is_absent(value)) return otherwise;
  return value->as_bool(fmt::format("tokenizer.json: {}.{}", where, key));
}

/// Refuses a setting that would change ids in a way the engine does not follow.
void require_off(const Value& object, std::string_view key, std::string_view where) {
  if (flag(object, key, where)) {
    fail("tokenizer.json: {}.{} is true, which is not supported; only false is", where, key);
  }
}

std::string type_of(const Value& object, std::string_view where) {
  return member(object, "type", where).as_string(fmt::format("tokenizer.json: {}.type", where));
}

Token checked_id(const Value& value, std::string_view token) {
  // The place is put together only for an error: a vocabulary has 150,000 ids.
  if (value.type() != Value::Type::kInteger) {
    value.as_integer(fmt::format("tokenizer.json: id of token {}", printable(token)));
    fail("tokenizer.json: id of token {} is written as a real number, expected an integer",
         printable(token));
  }
  const std::int64_t id = value.as_integer("tokenizer.json: id");
  if (id < 0 || id >= kMaxTokens) {
    fail("tokenizer.json: token {} has id {}, expected 0 to {}",
         printable(token),
         id,
         kMaxTokens - 1);
  }
  return static_cast<Token>(id);
}

void check_id_is_free(const Vocabulary& vocabulary, Token id, std::string_view token) {
  if (vocabulary.kind(id) == Kind::kAbsent) return;
  fail("tokenizer.json: id {} is given to token {} and to token {}",
       id,
       printable(vocabulary.bytes(id)),
       printable(token));
}

// ---- model ----

void read_vocabulary(const Value& model, TokenizerParts& parts) {
  const json::Object& entries =
      member(model, "vocab", "model").as_object("tokenizer.json: model.vocab");
  std::size_t n_bytes = 0;
  for (const auto& [letters, id] : entries) n_bytes += letters.size();
  parts.vocabulary.reserve(entries.size(), n_bytes);
  std::string bytes;
  for (const auto& [letters, value] : entries) {
    const Token id = checked_id(value, letters);
    check_id_is_free(parts.vocabulary, id, letters);
    if (letters.empty()) fail("tokenizer.json: token with id {} is empty", id);
    bytes.clear();
    if (!append_alphabet_bytes(letters, bytes)) {
      parts.vocabulary.add(id, letters, Kind::kOpaque);
    } else if (!parts.vocabulary.add(id, bytes, Kind::kBytes)) {
      fail("tokenizer.json: token {} is given twice", printable(letters));
    }
  }
  for (std::size_t byte = 0; byte < parts.byte_tokens.size(); ++byte) {
    const char c = static_cast<char>(byte);
    const std::optional<Token> id = parts.vocabulary.find({&c, 1});
    if (!id) {
      fail(
          "tokenizer.json: model.vocab has no token for byte 0x{:02x}; a byte-level vocabulary "
          "needs all 256",
          byte);
    }
    parts.byte_tokens[byte] = *id;
  }
}

/// The two halves of a merge, as "left right" or ["left", "right"]. The views last as long as
/// `merge`.
std::pair<std::string_view, std::string_view> halves_of(const Value& merge, std::size_t index) {
  if (merge.is_string()) {
    const std::string_view both = merge.as_string("tokenizer.json: model.merges");
    const std::size_t space = both.find(' ');
    if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos) {
      fail("tokenizer.json: model.merges[{}] is {}, expected two tokens with a space between",
           index,
           printable(both));
    }
    return {both.substr(0, space), both.substr(space + 1)};
  }
  if (!merge.is_array()) merge.as_string(fmt::format("tokenizer.json: model.merges[{}]", index));
  const json::Array& both = merge.as_array("tokenizer.json: model.merges");
  if (both.size() != 2) {
    fail("tokenizer.json: model.merges[{}] has {} items, expected two tokens", index, both.size());
  }
  if (!both[0].is_string() || !both[1].is_string()) {
    fail("tokenizer.json: model.merges[{}] holds something else than strings, expected two tokens",
         index);
  }
  return {both[0].as_string("tokenizer.json: model.merges"),
          both[1].as_string("tokenizer.json: model.merges")};
}

[[noreturn]] void fail_unknown_token(std::size_t index, std::string_view letters) {
  fail(
      "tokenizer.json: model.merges[{}] needs token {}, which model.vocab does not have as a "
      "byte-level token",
      index,
      printable(letters));
}

void read_merges(const Value& model, TokenizerParts& parts) {
  const json::Array& entries =
      member(model, "merges", "model").as_array("tokenizer.json: model.merges");
  const Vocabulary& vocabulary = parts.vocabulary;
  std::vector<Merge> merges;
  merges.reserve(entries.size());
  std::string bytes;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const auto [left, right] = halves_of(entries[index], index);
    bytes.clear();
    const bool is_left_known = append_alphabet_bytes(left, bytes);
    const std::size_t split = bytes.size();
    if (!is_left_known || !append_alphabet_bytes(right, bytes)) {
      fail_unknown_token(index, is_left_known ? right : left);
    }
    const std::string_view both = bytes;
    const std::optional<Token> left_id = vocabulary.find(both.substr(0, split));
    const std::optional<Token> right_id = vocabulary.find(both.substr(split));
    const std::optional<Token> result = vocabulary.find(both);
    if (!left_id) fail_unknown_token(index, left);
    if (!right_id) fail_unknown_token(index, right);
    if (!result) fail_unknown_token(index, std::string(left).append(right));
    // Added tokens never come out of merges. In trusted text none is left to be made; in other text
    // a user could type one.
    if (vocabulary.kind(*result) == Kind::kBytes) merges.push_back({*left_id, *right_id, *result});
  }
  parts.merges = MergeTable(merges);
}

void check_model(const Value& model) {
  model.as_object("tokenizer.json: model");
  if (!is_absent(model.find("type"))) {
    const std::string type = type_of(model, "model");
    if (type != "BPE")
      fail("tokenizer.json: model.type is {}, only BPE is supported", printable(type));
  }
  if (const Value* dropout = model.find("dropout"); !is_absent(dropout)) {
    if (dropout->as_real("tokenizer.json: model.dropout") != 0) {
      fail("tokenizer.json: model.dropout is not 0; it would make encoding random");
    }
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Value* affix = model.find(key);
    if (is_absent(affix) || affix->as_string(fmt::format("tokenizer.json: model.{}", key)).empty())
      continue;
    fail("tokenizer.json: model.{} is set, which byte-level BPE does not use", key);
  }
  require_off(model, "byte_fallback", "model");
}

// ---- added tokens ----

void read_added_token(const Value& entry, TokenizerParts& parts) {
  constexpr std::string_view kWhere = "an added token";
  entry.as_object("tokenizer.json: an entry of added_tokens");
  const std::string& content =
      member(entry, "content", kWhere).as_string("tokenizer.json: content of an added token");
  if (content.empty()) fail("tokenizer.json: an added token has an empty content");
  const Token id = checked_id(member(entry, "id", kWhere), content);
  for (const std::string_view key : {"single_word", "lstrip", "rstrip"})
    require_off(entry, key, printable(content));
  const Kind kind = flag(entry, "special", printable(content)) ? Kind::kSpecial : Kind::kAdded;

  Vocabulary& vocabulary = parts.vocabulary;
  std::string bytes;
  const bool is_alphabet_text = append_alphabet_bytes(content, bytes);
  const std::optional<Token> known = is_alphabet_text ? vocabulary.find(bytes) : std::nullopt;
  if (known && known != id) {
    fail("tokenizer.json: token {} has id {} in model.vocab and id {} in added_tokens",
         printable(content),
         *known,
         id);
  }
  if (known && bytes != content) {
    fail(
        "tokenizer.json: added token {} is also in model.vocab, where the same letters stand for "
        "other bytes",
        printable(content));
  }
  const Kind kind_before = vocabulary.kind(id);
  const bool is_opaque_twin = kind_before == Kind::kOpaque && vocabulary.bytes(id) == content;
  if (is_opaque_twin || (kind_before == Kind::kBytes && known)) {
    vocabulary.mark_added(id, kind);
  } else {
    check_id_is_free(vocabulary, id, content);
    vocabulary.add(id, content, kind);
  }
  parts.added_tokens.push_back(id);
}

/// Texts of added and opaque tokens, which Vocabulary does not look up, must differ too.
void check_texts_differ(const Vocabulary& vocabulary) {
  std::vector<Token> ids;
  for (Token id = 0; static_cast<std::size_t>(id) < vocabulary.n_tokens(); ++id) {
    const Kind kind = vocabulary.kind(id);
    if (kind == Kind::kOpaque || kind == Kind::kAdded || kind == Kind::kSpecial) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end(), [&](Token a, Token b) {
    return vocabulary.bytes(a) < vocabulary.bytes(b);
  });
  const auto twin = std::adjacent_find(ids.begin(), ids.end(), [&](Token a, Token b) {
    return vocabulary.bytes(a) == vocabulary.bytes(b);
  });
  if (twin == ids.end()) return;
  fail("tokenizer.json: ids {} and {} are both given to token {}",
       *twin,
       *(twin + 1),
       printable(vocabulary.bytes(*twin)));
}

void read_added_tokens(const Value& root, TokenizerParts& parts) {
  const Value* entries = root.find("added_tokens");
  if (!is_absent(entries)) {
    for (const Value& entry : entries->as_array("tokenizer.json: added_tokens"))
      read_added_token(entry, parts);
  }
  const Vocabulary& vocabulary = parts.vocabulary;
  check_texts_differ(vocabulary);
  std::vector<std::pair<std::string_view, Token>> contents;
  std::size_t n_bytes = 0;
  for (const Token id : parts.added_tokens) {
    contents.emplace_back(vocabulary.bytes(id), id);
    n_bytes += vocabulary.bytes(id).size();
  }
  if (n_bytes > kMaxAddedBytes) {
    fail("tokenizer.json: added_tokens hold {} bytes of text, expected at most {}",
         n_bytes,
         kMaxAddedBytes);
  }
  parts.added_matcher = AddedTokenMatcher(contents);
  std::sort(parts.added_tokens.begin(), parts.added_tokens.end(), [&](Token a, Token b) {
    return vocabulary.bytes(a) < vocabulary.bytes(b);
  });
}

// ---- the steps before the model ----

void check_normalizer(const Value* normalizer) {
  if (is_absent(normalizer)) return;
  const std::string type = type_of(*normalizer, "normalizer");
  const Value* steps = normalizer->find("normalizers");
  if (type == "Sequence" && steps != nullptr &&
      steps->as_array("tokenizer.json: normalizer.normalizers").empty())
    return;
  fail("tokenizer.json: normalizer is {}, only null is supported", printable(type));
}

void check_decoder(const Value* decoder) {
  if (is_absent(decoder)) return;
  const std::string type = type_of(*decoder, "decoder");
  if (type != "ByteLevel")
    fail("tokenizer.json: decoder is {}, only ByteLevel is supported", printable(type));
}

/// `invert` needs no look: Isolated keeps matches and gaps alike.
std::unique_ptr<const Splitter> read_split(const Value& step,
                                           const std::shared_ptr<const Clock>& clock) {
  constexpr std::string_view kWhere = "a Split pre-tokenizer";
  const std::string& behavior = member(step, "behavior", kWhere)
                                    .as_string("tokenizer.json: behavior of a Split pre-tokenizer");
  if (behavior != "Isolated") {
    fail("tokenizer.json: a Split pre-tokenizer has behavior {}, only Isolated is supported",
         printable(behavior));
  }
  const Value& pattern = member(step, "pattern", kWhere);
  pattern.as_object("tokenizer.json: pattern of a Split pre-tokenizer");
  if (const Value* regex = pattern.find("Regex"); regex != nullptr) {
    return make_splitter(regex->as_string("tokenizer.json: pattern.Regex of a Split pre-tokenizer"),
                         clock);
  }
  const Value& literal = member(pattern, "String", "the pattern of a Split pre-tokenizer");
  return make_literal_splitter(
      literal.as_string("tokenizer.json: pattern.String of a Split pre-tokenizer"), clock);
}

void read_pre_tokenizer(const Value& root,
                        const std::shared_ptr<const Clock>& clock,
                        TokenizerParts& parts) {
  const Value* pre_tokenizer = root.find("pre_tokenizer");
  if (is_absent(pre_tokenizer))
    fail("tokenizer.json: pre_tokenizer is missing; byte-level BPE needs ByteLevel");
  json::Array steps{*pre_tokenizer};
  if (type_of(*pre_tokenizer, "pre_tokenizer") == "Sequence") {
    steps = member(*pre_tokenizer, "pretokenizers", "pre_tokenizer")
                .as_array("tokenizer.json: pretokenizers");
  }
  if (steps.size() > kMaxPreTokenizers) {
    fail("tokenizer.json: {} pre-tokenizers, expected at most {}", steps.size(), kMaxPreTokenizers);
  }
  // After ByteLevel the text is in byte letters, and nothing could split it any more.
  bool is_byte_level = false;
  for (const Value& step : steps) {
    const std::string type = type_of(step, "a pre-tokenizer");
    if (is_byte_level)
      fail("tokenizer.json: pre-tokenizer {} comes after ByteLevel, which must be last",
           printable(type));
    if (type == "Split") {
      parts.splitters.push_back(read_split(step, clock));
    } else if (type == "ByteLevel") {
      is_byte_level = true;
      require_off(step, "add_prefix_space", "pre_tokenizer");
      if (flag(step, "use_regex", "pre_tokenizer", true))
        parts.splitters.push_back(make_splitter(kByteLevelPattern, clock));
    } else {
      fail("tokenizer.json: pre-tokenizer {} is not supported, only Split and ByteLevel are",
           printable(type));
    }
  }
  if (!is_byte_level)
    fail("tokenizer.json: pre_tokenizer has no ByteLevel step; only byte-level BPE is supported");
}

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view text,
                                    const std::shared_ptr<const Clock>& clock) {
  const Value root = json::parse(text, "tokenizer.json");
  root.as_object("tokenizer.json");
  TokenizerParts parts;
  check_normalizer(root.find("normalizer"));
  check_decoder(root.find("decoder"));
  read_pre_tokenizer(root, clock, parts);
  const Value& model = member(root, "model", "the file");
  check_model(model);
  parts.ignores_merges = flag(model, "ignore_merges", "model");
  read_vocabulary(model, parts);
  read_added_tokens(root, parts);
  read_merges(model, parts);
  return parts;
}

}  // namespace ft::text
