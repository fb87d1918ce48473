// The values of a template: Python's types as far as chat templates need them. Values are cheap to
// copy and immutable; what Python could change in place (namespaces, loops, half-read iterators) is
// an object that its copies share. They belong to one render and one thread; literals of the
// compiled template are shared but never changed.
#pragma once

#include "text/jinja/marked_text.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text::jinja {

enum class Kind : std::uint8_t {
  kMissing,  // no value at all: an argument not given, a variable not set
  kUndefined,
  kNone,
  kBool,
  kInteger,  // 64 bits; Python's longer ones are refused
  kReal,
  kString,
  kList,
  kTuple,
  kRange,
  kDict,
  kDictView,  // dict.keys(), .values(), .items()
  kIterator,  // what map, select, ... give: can be read once
  kNamespace,
  kFunction,
  kMethod,  // a method with the value it was taken from
  kMacro,
  kLoop,
  kCycler,
  kJoiner,
};

/// What lives behind a Value. depth is 1 + the deepest content; it is bounded, so recursion over
/// values is too.
struct Object {
  virtual ~Object() = default;
  /// Lets go of everything it refers to. For the kinds that can be changed, and so can form cycles.
  virtual void drop_content() noexcept {}
  std::uint32_t depth = 1;
};

struct StringObject;
struct SequenceObject;
struct DictObject;
struct Function;

class Value {
 public:
  Value() = default;
  static Value none(bool is_trusted = true) { return {Kind::kNone, is_trusted}; }
  static Value boolean(bool value, bool is_trusted = true);
  static Value integer(std::int64_t value, bool is_trusted = true);
  static Value real(double value, bool is_trusted = true);
  static Value function(const Function& function);
  /// `object` must be of the type that `kind` stands for.
  Value(Kind kind, std::shared_ptr<Object> object, bool is_trusted = true)
      : kind_(kind), is_trusted_(is_trusted), object_(std::move(object)) {}

  Kind kind() const noexcept { return kind_; }
  bool is(Kind kind) const noexcept { return kind_ == kind; }
  /// The mark of a number's digits or a container's punctuation; strings carry their own marks.
  bool is_trusted() const noexcept { return is_trusted_; }
  Value with_trust(bool is_trusted) const;

  bool is_string() const noexcept { return kind_ == Kind::kString; }
  bool is_integral() const noexcept { return kind_ == Kind::kInteger || kind_ == Kind::kBool; }
  bool is_number() const noexcept { return is_integral() || kind_ == Kind::kReal; }
  bool is_sequence() const noexcept {
    return kind_ == Kind::kList || kind_ == Kind::kTuple || kind_ == Kind::kRange;
  }

  // The payload. The caller has looked at kind() first.
  bool as_bool() const noexcept { return integer_ != 0; }
  std::int64_t as_integer() const noexcept { return integer_; }  // also of a boolean
  double as_real() const noexcept {                              // also of the other numbers
    return kind_ == Kind::kReal ? real_ : static_cast<double>(integer_);
  }
  const Function& as_function() const noexcept { return *function_; }
  const MarkedText& text() const noexcept;
  const std::string& bytes() const noexcept { return text().bytes(); }
  const StringObject& as_string() const noexcept;
  const std::vector<Value>& items() const noexcept;  // of list, tuple, range
  const DictObject& as_dict() const noexcept;
  template <typename T>
  T& as() const noexcept {
    return static_cast<T&>(*object_);
  }
  const Object* object() const noexcept { return object_.get(); }
  std::uint32_t depth() const noexcept { return object_ ? object_->depth : 0; }

 private:
  Value(Kind kind, bool is_trusted) : kind_(kind), is_trusted_(is_trusted) {}

  Kind kind_ = Kind::kMissing;
  bool is_trusted_ = true;
  union {
    std::int64_t integer_ = 0;
    double real_;
    const Function* function_;
  };
  std::shared_ptr<Object> object_;
};

struct UndefinedObject final : Object {
  std::string message;  // what an operation on it reports, e.g. "'tools' is undefined"
};

struct StringObject final : Object {
  MarkedText text;
  std::size_t n_characters = 0;
  bool is_ascii() const noexcept { return n_characters == text.size(); }
};

struct SequenceObject final : Object {
  std::vector<Value> items;
  std::int64_t range_start = 0, range_stop = 0,
               range_step = 1;  // of a range: what it was made from
  bool is_group = false;        // a tuple of groupby: its parts are also called grouper and list
};

struct DictObject final : Object {
  struct Entry {
    Value key;
    Value value;
  };
  struct Slot {
    std::uint64_t hash;
    std::uint32_t entry;
  };
  std::vector<Entry> entries;  // in order of insertion, keys differ
  std::vector<Slot> index;     // sorted; empty for small dicts, which are searched one by one
};

struct DictViewObject final : Object {
  enum class Part : std::uint8_t { kKeys, kValues, kItems };
  Value dict;
  Part part = Part::kKeys;
};

struct IteratorObject final : Object {
  std::vector<Value> items;
  std::size_t position = 0;
};

struct NamespaceObject final : Object {
  void drop_content() noexcept override { members.clear(); }
  std::vector<std::pair<std::string, Value>> members;
};

struct CyclerObject final : Object {
  std::vector<Value> items;
  std::size_t position = 0;
};

struct JoinerObject final : Object {
  Value separator;
  bool is_used = false;
};

/// "a string", "a list", "none" ...: for messages.
std::string_view kind_name(Kind kind);

/// Python's truth of a value.
bool is_true(const Value& value);

}  // namespace ft::text::jinja
