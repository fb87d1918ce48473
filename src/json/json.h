// JSON as the rest of the project sees it: an immutable tree in document order, and a writer. The
// parser behind it is simdjson; no other module includes it. Input is hostile: size and depth are
// bounded, duplicate keys are refused, text must be UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ft::json {

struct Limits {
  std::size_t max_bytes = std::size_t{256} << 20;
  std::size_t max_depth = 64;
};

class Value;
using Array = std::vector<Value>;
using Member = std::pair<std::string, Value>;
using Object = std::vector<Member>;  // in document order

/// One JSON value. Copying is cheap (arrays and objects are shared and immutable).
class Value {
 public:
  enum class Type { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

  Value() = default;
  explicit Value(bool value);
  explicit Value(std::int64_t value);
  explicit Value(double value);
  explicit Value(std::string value);
  explicit Value(Array value);
  explicit Value(Object value);

  Type type() const noexcept { return static_cast<Type>(content_.index()); }
  bool is_null() const noexcept { return type() == Type::kNull; }
  bool is_string() const noexcept { return type() == Type::kString; }
  bool is_array() const noexcept { return type() == Type::kArray; }
  bool is_object() const noexcept { return type() == Type::kObject; }
  bool is_number() const noexcept { return type() == Type::kInteger || type() == Type::kReal; }

  // Typed access. A wrong type throws InvalidInput naming `where` and both types, e.g.
  // "config.json: hidden_size is a string, expected an integer".
  bool as_bool(std::string_view where) const;
  std::int64_t as_integer(
      std::string_view where) const;             // a real with an exact integer value is accepted
  double as_real(std::string_view where) const;  // accepts integers
  const std::string& as_string(std::string_view where) const;
  const Array& as_array(std::string_view where) const;
  const Object& as_object(std::string_view where) const;

  /// The member `key` of an object, or nullptr if it is absent or this is no object. O(members).
  const Value* find(std::string_view key) const noexcept;

 private:
  // The alternatives are in the order of Type.
  std::variant<std::monostate,
               bool,
               std::int64_t,
               double,
               std::shared_ptr<const std::string>,
               std::shared_ptr<const Array>,
               std::shared_ptr<const Object>>
      content_;
};

/// Parses one document. `what` names it in errors ("config.json"). Integers outside int64 become
/// reals. Throws InvalidInput on malformed text, invalid UTF-8, a duplicate key, trailing text, or
/// a limit exceeded, ResourceExhausted for want of memory.
Value parse(std::string_view text, std::string_view what, const Limits& limits = {});

/// Builds one JSON text. Keys and values come in the order of the calls; commas and escapes are the
/// writer's.
class Writer {
 public:
  Writer& begin_object();
  Writer& end_object();
  Writer& begin_array();
  Writer& end_array();
  Writer& key(std::string_view name);
  Writer& value(std::string_view text);  // invalid UTF-8 is replaced by U+FFFD
  Writer& value(const char* text) { return value(std::string_view(text)); }
  Writer& value(bool flag);
  Writer& value(
      double number);  // shortest text that reads back exactly; NaN and infinities become null
  Writer& value(float number);  // shortest text that reads back exactly as f32
  Writer& value(std::int64_t number);
  Writer& value(std::uint64_t number);
  Writer& value(int number) { return value(static_cast<std::int64_t>(number)); }
  Writer& value(const Value& value);  // all of it; integers stay integers
  Writer& null();
  template <typename T>
  Writer& member(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  /// The finished text. Valid once every begin has its end.
  const std::string& text() const noexcept { return text_; }

 private:
  void separate();
  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace ft::json
