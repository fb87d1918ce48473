#include "text/jinja/runtime.h"

#include "base/error.h"
#include "text/jinja/dict.h"
#include "text/jinja/unicode.h"

#include <algorithm>

namespace ft::text::jinja {
namespace {

// What a container pays per element: about the size of a Value with its share of the allocation.
constexpr std::size_t kElementBytes = 48;

std::uint32_t deepest(const std::vector<Value>& items) {
  std::uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

}  // namespace

Runtime::~Runtime() {
  for (const std::shared_ptr<Object>& object : kept_) object->drop_content();
}

void Runtime::fail(std::string_view message) const {
  std::string line;
  for (const char c : message) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
      line.push_back(c);
    } else if (c == '\n') {
      line += "\\n";
    } else {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  ft::fail("chat template, line {}: {}", line_, line);
}

void Runtime::fail_type(std::string_view operation, const Value& value) const {
  if (value.is(Kind::kUndefined)) {
    fail(fmt::format(
        "{} of an undefined value: {}", operation, value.as<UndefinedObject>().message));
  }
  fail(fmt::format("{} of {} is not possible", operation, kind_name(value.kind())));
}

void Runtime::spend(std::size_t n_steps) {
  if (n_steps > limits_.max_steps - n_steps_) {
    fail(
        fmt::format("the render takes more than {} steps; the template or the request is too large",
                    limits_.max_steps));
  }
  n_steps_ += n_steps;
}

void Runtime::spend_bytes(std::size_t n_bytes) {
  if (n_bytes > limits_.max_work_bytes - work_bytes_) {
    fail(
        fmt::format("the render moves more than {} bytes; the template or the request is too large",
                    limits_.max_work_bytes));
  }
  work_bytes_ += n_bytes;
}

void Runtime::check_text(std::size_t n_bytes) const {
  if (n_bytes > limits_.max_text_bytes) {
    fail(fmt::format(
        "a text of {} bytes or more; {} is the limit", n_bytes, limits_.max_text_bytes));
  }
}

void Runtime::reserve_text(std::size_t n_bytes) {
  check_text(n_bytes);
  spend_bytes(n_bytes);
}

Value Runtime::adopt(Kind kind, std::shared_ptr<Object> object, std::uint32_t content_depth) {
  if (content_depth >= limits_.max_value_depth) {
    fail(fmt::format("values nest deeper than {} levels", limits_.max_value_depth));
  }
  spend_bytes(2 * kElementBytes);
  object->depth = content_depth + 1;
  return {kind, std::move(object)};
}

Value Runtime::undefined(std::string message) {
  auto object = std::make_shared<UndefinedObject>();
  object->message = std::move(message);
  return adopt(Kind::kUndefined, std::move(object), 0);
}

Value Runtime::string(MarkedText text) {
  reserve_text(text.size() + text.n_runs() * sizeof(std::uint32_t));
  auto object = std::make_shared<StringObject>();
  object->n_characters = count_characters(text.bytes());
  object->text = std::move(text);
  return adopt(Kind::kString, std::move(object), 0);
}

Value Runtime::string(std::string_view bytes, bool is_trusted) {
  return string(MarkedText(std::string(bytes), is_trusted));
}

Value Runtime::sequence(Kind kind, std::vector<Value> items, bool is_trusted) {
  spend_bytes(items.size() * kElementBytes);
  const std::uint32_t depth = deepest(items);
  auto object = std::make_shared<SequenceObject>();
  object->items = std::move(items);
  return adopt(kind, std::move(object), depth).with_trust(is_trusted);
}

Value Runtime::list(std::vector<Value> items, bool is_trusted) {
  return sequence(Kind::kList, std::move(items), is_trusted);
}

Value Runtime::tuple(std::vector<Value> items, bool is_trusted) {
  return sequence(Kind::kTuple, std::move(items), is_trusted);
}

Value Runtime::range(std::int64_t start, std::int64_t stop, std::int64_t step) {
  constexpr std::uint64_t max_length = 100'000;  // as in Jinja's sandbox
  if (step == 0) fail("range() needs a step other than 0");
  // Differences of int64 fit uint64.
  const auto distance = [](std::int64_t from, std::int64_t to) {
    return static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
  };
  std::uint64_t length = 0;
  if (step > 0 && stop > start) {
    length = (distance(start, stop) - 1) / static_cast<std::uint64_t>(step) + 1;
  } else if (step < 0 && stop < start) {
    length = (distance(stop, start) - 1) / distance(step, 0) + 1;
  }
  if (length > max_length) {
    fail(fmt::format("range() of {} elements; at most {} are allowed", length, max_length));
  }
  std::vector<Value> items;
  items.reserve(length);
  for (std::uint64_t i = 0; i < length; ++i) {
    // Unsigned, because i * step alone may not fit; the sum lies between start and stop.
    items.push_back(Value::integer(static_cast<std::int64_t>(
        static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step))));
  }
  Value out = sequence(Kind::kRange, std::move(items), true);
  auto& object = out.as<SequenceObject>();
  object.range_start = start;
  object.range_stop = stop;
  object.range_step = step;
  return out;
}

Value Runtime::iterator(std::vector<Value> items) {
  spend_bytes(items.size() * kElementBytes);
  const std::uint32_t depth = deepest(items);
  auto object = std::make_shared<IteratorObject>();
  object->items = std::move(items);
  return adopt(Kind::kIterator, std::move(object), depth);
}

Value Runtime::dict(std::vector<DictObject::Entry> entries, bool is_trusted) {
  spend_bytes(entries.size() * 2 * kElementBytes);
  std::uint32_t depth = 0;
  for (const DictObject::Entry& entry : entries) {
    depth = std::max({depth, entry.key.depth(), entry.value.depth()});
  }
  auto object = std::make_shared<DictObject>(make_dict(*this, std::move(entries)));
  return adopt(Kind::kDict, std::move(object), depth).with_trust(is_trusted);
}

Value Runtime::namespace_of(std::vector<std::pair<std::string, Value>> members) {
  spend_bytes((members.size() + 2) * 2 * kElementBytes);
  std::uint32_t depth = 0;
  for (const auto& member : members) depth = std::max(depth, member.second.depth());
  auto object = std::make_shared<NamespaceObject>();
  object->members = std::move(members);
  keep(object);
  return adopt(Kind::kNamespace, std::move(object), depth);
}

Value Runtime::from_json(const json::Value& json, bool is_trusted) {
  spend(1);
  switch (json.type()) {
    case json::Value::Type::kNull:
      return Value::none(is_trusted);
    case json::Value::Type::kBool:
      return Value::boolean(json.as_bool("request"), is_trusted);
    case json::Value::Type::kInteger:
      return Value::integer(json.as_integer("request"), is_trusted);
    case json::Value::Type::kReal:
      return Value::real(json.as_real("request"), is_trusted);
    case json::Value::Type::kString:
      return string(json.as_string("request"), is_trusted);
    case json::Value::Type::kArray: {
      const Level level(*this);
      std::vector<Value> items;
      for (const json::Value& item : json.as_array("request")) {
        items.push_back(from_json(item, is_trusted));
      }
      return list(std::move(items), is_trusted);
    }
    case json::Value::Type::kObject: {
      const Level level(*this);
      std::vector<DictObject::Entry> entries;
      for (const json::Member& member : json.as_object("request")) {
        entries.push_back({string(member.first, is_trusted), from_json(member.second, is_trusted)});
      }
      return dict(std::move(entries), is_trusted);
    }
  }
  return Value::none(is_trusted);
}

Runtime::Level::Level(Runtime& runtime) : runtime_(runtime) {
  if (runtime_.depth_ >= runtime_.limits_.max_depth) {
    runtime_.fail(fmt::format("evaluation nests deeper than {} levels; does a macro call itself?",
                              runtime_.limits_.max_depth));
  }
  ++runtime_.depth_;
}

}  // namespace ft::text::jinja
