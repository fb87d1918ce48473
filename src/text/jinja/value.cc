#include "text/jinja/value.h"

namespace ft::text::jinja {

Value Value::boolean(bool value, bool is_trusted) {
  Value out(Kind::kBool, is_trusted);
  out.integer_ = value ? 1 : 0;
  return out;
}

Value Value::integer(std::int64_t value, bool is_trusted) {
  Value out(Kind::kInteger, is_trusted);
  out.integer_ = value;
  return out;
}

Value Value::real(double value, bool is_trusted) {
  Value out(Kind::kReal, is_trusted);
  out.real_ = value;
  return out;
}

Value Value::function(const Function& function) {
  Value out(Kind::kFunction, true);
  out.function_ = &function;
  return out;
}

Value Value::with_trust(bool is_trusted) const {
  Value out = *this;
  out.is_trusted_ = is_trusted;
  return out;
}

const StringObject& Value::as_string() const noexcept {
  return static_cast<const StringObject&>(*object_);
}

const MarkedText& Value::text() const noexcept {
  return as_string().text;
}

const std::vector<Value>& Value::items() const noexcept {
  return static_cast<const SequenceObject&>(*object_).items;
}

const DictObject& Value::as_dict() const noexcept {
  return static_cast<const DictObject&>(*object_);
}

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kMissing:
      return "nothing";
    case Kind::kUndefined:
      return "an undefined value";
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "a boolean";
    case Kind::kInteger:
      return "an integer";
    case Kind::kReal:
      return "a real number";
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kRange:
      return "a range";
    case Kind::kDict:
      return "a dict";
    case Kind::kDictView:
      return "a view of a dict";
    case Kind::kIterator:
      return "an iterator";
    case Kind::kNamespace:
      return "a namespace";
    case Kind::kFunction:
      return "a function";
    case Kind::kMethod:
      return "a method";
    case Kind::kMacro:
      return "a macro";
    case Kind::kLoop:
      return "the loop variable";
    case Kind::kCycler:
      return "a cycler";
    case Kind::kJoiner:
      return "a joiner";
  }
  return "a value";
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInteger:
      return value.as_integer() != 0;
    case Kind::kReal:
      return value.as_real() != 0;
    case Kind::kString:
      return !value.bytes().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return !value.items().empty();
    case Kind::kDict:
      return !value.as_dict().entries.empty();
    case Kind::kDictView:
      return !value.as<DictViewObject>().dict.as_dict().entries.empty();
    case Kind::kIterator:
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kMacro:
    case Kind::kLoop:  // has a length, but is never empty while it can be seen
    case Kind::kCycler:
    case Kind::kJoiner:
      return true;
  }
  return true;
}

}  // namespace ft::text::jinja
