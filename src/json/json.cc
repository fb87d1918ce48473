#include "json/json.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>

#include <simdjson.h>

namespace ft::json {
namespace {

namespace dom = simdjson::dom;

std::string_view type_name(Value::Type type) {
  switch (type) {
    case Value::Type::kNull:
      return "null";
    case Value::Type::kBool:
      return "a boolean";
    case Value::Type::kInteger:
      return "an integer";
    case Value::Type::kReal:
      return "a real number";
    case Value::Type::kString:
      return "a string";
    case Value::Type::kArray:
      return "an array";
    case Value::Type::kObject:
      return "an object";
  }
  return "unknown";  // not reached: the switch is complete
}

[[noreturn]] void wrong_type(std::string_view where, const Value& value, Value::Type expected) {
  fail("{} is {}, expected {}", where, type_name(value.type()), type_name(expected));
}

/// Refuses a key that occurs twice. O(n log n) in the worst case, whatever the keys: pairs are
/// sorted by hash, and keys compared only where hashes are equal.
void refuse_duplicate_keys(const Object& object, std::string_view what) {
  using HashedKey = std::pair<std::size_t, std::string_view>;
  std::vector<HashedKey> keys;
  keys.reserve(object.size());
  for (const Member& member : object) {
    keys.emplace_back(std::hash<std::string_view>{}(member.first), member.first);
  }
  std::sort(keys.begin(), keys.end());
  const auto twin = std::adjacent_find(keys.begin(), keys.end());
  if (twin != keys.end()) {
    fail("{}: duplicate key {}", what, in_quotes(twin->second));
  }
}

/// Turns simdjson's tape into our tree. Recursion is bounded by the parser's depth limit.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::string_view what) : what_(what) {}

  Value build(const dom::element& element) const {
    switch (element.type()) {
      case dom::element_type::NULL_VALUE:
        return Value();
      case dom::element_type::BOOL:
        return Value(element.get_bool().value_unsafe());
      case dom::element_type::INT64:
        return Value(element.get_int64().value_unsafe());
      case dom::element_type::UINT64:  // only beyond int64
        return Value(static_cast<double>(element.get_uint64().value_unsafe()));
      case dom::element_type::DOUBLE:
        return Value(element.get_double().value_unsafe());
      case dom::element_type::STRING:
        return Value(text(element.get_string().value_unsafe()));
      case dom::element_type::ARRAY:
        return build_array(element.get_array().value_unsafe());
      case dom::element_type::OBJECT:
        return build_object(element.get_object().value_unsafe());
    }
    fail("{}: not valid JSON", what_);
  }

 private:
  Value build_array(const dom::array& elements) const {
    Array array;
    array.reserve(elements.size());
    for (const dom::element element : elements) {
      array.push_back(build(element));
    }
    return Value(std::move(array));
  }

  Value build_object(const dom::object& members) const {
    Object object;
    object.reserve(members.size());
    for (const dom::key_value_pair member : members) {
      object.emplace_back(text(member.key), build(member.value));
    }
    refuse_duplicate_keys(object, what_);
    return Value(std::move(object));
  }

  std::string text(std::string_view unescaped) const {
    // The input is valid UTF-8 as a whole; what is left is an escaped surrogate without its
    // partner, which the parser may write out as bytes that start with ED.
    if (unescaped.find('\xED') != std::string_view::npos &&
        !simdjson::validate_utf8(unescaped.data(), unescaped.size())) {
      fail("{}: a string holds half a surrogate pair", what_);
    }
    return std::string(unescaped);
  }

  std::string_view what_;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The same document with "e0" after each integer that may not fit 64 bits, so that it reads as a
/// real.
std::string long_integers_as_reals(std::string_view text) {
  constexpr std::size_t kDigitsThatAlwaysFit = 18;
  std::string result;
  result.reserve(text.size() + 64);
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (is_in_string || !is_digit(text[i])) {
      if (text[i] == '"') {
        is_in_string = !is_in_string;
      } else if (is_in_string && text[i] == '\\') {
        end = std::min(i + 2, text.size());
      }
      result.append(text, i, end - i);
      i = end;
      continue;
    }
    // One whole number: digits, and whatever may follow them in a real.
    const auto continues_number = [](char c) {
      return is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
    };
    while (end < text.size() && continues_number(text[end])) {
      ++end;
    }
    const std::string_view number = text.substr(i, end - i);
    result.append(number);
    if (number.size() > kDigitsThatAlwaysFit &&
        std::all_of(number.begin(), number.end(), is_digit)) {
      result.append("e0");
    }
    i = end;
  }
  return result;
}

[[noreturn]] void fail_for_memory(std::string_view text, std::string_view what) {
  throw ResourceExhausted(fmt::format("{}: no memory to parse {} bytes", what, text.size()));
}

simdjson::error_code run_parser(dom::parser& parser, std::string_view text, dom::element& root) {
  return parser.parse(text.data(), text.size(), /*realloc_if_needed=*/true).get(root);
}

}  // namespace

Value::Value(bool value) : content_(value) {}
Value::Value(std::int64_t value) : content_(value) {}
Value::Value(double value) : content_(value) {}
Value::Value(std::string value) : content_(std::make_shared<const std::string>(std::move(value))) {}
Value::Value(Array value) : content_(std::make_shared<const Array>(std::move(value))) {}
Value::Value(Object value) : content_(std::make_shared<const Object>(std::move(value))) {}

bool Value::as_bool(std::string_view where) const {
  if (const bool* value = std::get_if<bool>(&content_)) {
    return *value;
  }
  wrong_type(where, *this, Type::kBool);
}

std::int64_t Value::as_integer(std::string_view where) const {
  if (const std::int64_t* value = std::get_if<std::int64_t>(&content_)) {
    return *value;
  }
  if (const double* value = std::get_if<double>(&content_)) {
    // Both bounds are exact doubles; the upper one is the first value that does not fit.
    if (*value >= -0x1p63 && *value < 0x1p63 && std::trunc(*value) == *value) {
      return static_cast<std::int64_t>(*value);
    }
    fail("{} is {}, expected a 64-bit integer", where, *value);
  }
  wrong_type(where, *this, Type::kInteger);
}

double Value::as_real(std::string_view where) const {
  if (const double* value = std::get_if<double>(&content_)) {
    return *value;
  }
  if (const std::int64_t* value = std::get_if<std::int64_t>(&content_)) {
    return static_cast<double>(*value);
  }
  wrong_type(where, *this, Type::kReal);
}

const std::string& Value::as_string(std::string_view where) const {
  if (!is_string()) {
    wrong_type(where, *this, Type::kString);
  }
  return *std::get<std::shared_ptr<const std::string>>(content_);
}

const Array& Value::as_array(std::string_view where) const {
  if (!is_array()) {
    wrong_type(where, *this, Type::kArray);
  }
  return *std::get<std::shared_ptr<const Array>>(content_);
}

const Object& Value::as_object(std::string_view where) const {
  if (!is_object()) {
    wrong_type(where, *this, Type::kObject);
  }
  return *std::get<std::shared_ptr<const Object>>(content_);
}

const Value* Value::find(std::string_view key) const noexcept {
  const auto* object = std::get_if<std::shared_ptr<const Object>>(&content_);
  if (object == nullptr) {
    return nullptr;
  }
  for (const Member& member : **object) {
    if (member.first == key) {
      return &member.second;
    }
  }
  return nullptr;
}

Value parse(std::string_view text, std::string_view what, const Limits& limits) {
  if (text.size() > limits.max_bytes) {
    fail("{}: {} bytes of JSON, at most {} are read", what, text.size(), limits.max_bytes);
  }
  dom::parser parser;
  if (parser.allocate(std::max<std::size_t>(text.size(), 64), limits.max_depth) !=
      simdjson::SUCCESS) {
    fail_for_memory(text, what);
  }
  dom::element root;
  simdjson::error_code error = run_parser(parser, text, root);
  std::string rewritten;
  if (error == simdjson::NUMBER_ERROR) {
    rewritten = long_integers_as_reals(text);
    error = run_parser(parser, rewritten, root);
  }
  switch (error) {
    case simdjson::SUCCESS:
      return TreeBuilder(what).build(root);
    case simdjson::MEMALLOC:
      fail_for_memory(text, what);
    case simdjson::DEPTH_ERROR:
      fail("{}: JSON nested deeper than {} levels", what, limits.max_depth);
    case simdjson::UTF8_ERROR:
      fail("{}: text is not valid UTF-8", what);
    case simdjson::EMPTY:
      fail("{}: empty, expected JSON", what);
    case simdjson::NUMBER_ERROR:
      fail("{}: not valid JSON: a number is malformed or too large", what);
    default:
      fail("{}: not valid JSON: {}", what, simdjson::error_message(error));
  }
}

}  // namespace ft::json
