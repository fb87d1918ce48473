#include "text/jinja/loop.h"

#include "text/jinja/callable.h"
#include "text/jinja/operators.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ft::text::jinja {
namespace {

Value cycle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto& values = arguments.positional;
  if (values.empty()) runtime.fail("loop.cycle() needs something to cycle through");
  const auto index =
      static_cast<std::size_t>(std::max<std::int64_t>(self.as<LoopObject>().index0(), 0));
  return values[index % values.size()];
}

Value changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Value::boolean(self.as<LoopObject>().is_changed(runtime, arguments.positional));
}

constexpr std::array<Method, 2> kLoopMethods = {{{"cycle", cycle}, {"changed", changed}}};

}  // namespace

const Method* find_loop_method(std::string_view name) {
  const auto* const found = std::find_if(
      kLoopMethods.begin(), kLoopMethods.end(), [name](const Method& m) { return m.name == name; });
  return found == kLoopMethods.end() ? nullptr : found;
}

LoopObject::LoopObject(std::function<bool(Value&)> source,
                       std::optional<std::size_t> known_length,
                       std::int64_t recursion_depth)
    : source_(std::move(source)), length_(known_length), depth0_(recursion_depth) {}

bool LoopObject::read(Value& element) {
  if (n_replayed_ < read_ahead_.size()) {
    element = std::exchange(read_ahead_[n_replayed_++], Value());
    return true;
  }
  return source_ && source_(element);
}

bool LoopObject::has_next() {
  if (!next_) {
    Value element;
    if (!read(element)) return false;
    next_ = std::move(element);
  }
  return true;
}

bool LoopObject::advance(Value& element) {
  if (!has_next()) return false;
  previous_ = std::move(current_);
  current_ = std::move(*next_);
  next_.reset();
  ++index0_;
  element = current_;
  return true;
}

void LoopObject::drop_content() noexcept {
  source_ = nullptr;
  read_ahead_.clear();
  next_.reset();
  current_ = Value();
  previous_ = Value();
  last_changed_.reset();
}

std::size_t LoopObject::length(Runtime& runtime) {
  if (!length_) {
    const std::size_t n_seen = static_cast<std::size_t>(index0_ + 1) + (next_ ? 1 : 0);
    std::vector<Value> rest;
    Value element;
    while (read(element)) {
      runtime.spend(1);
      rest.push_back(std::move(element));
    }
    length_ = n_seen + rest.size();
    read_ahead_ = std::move(rest);
    n_replayed_ = 0;
  }
  return *length_;
}

Value LoopObject::property(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!has_next());
  if (name == "length") return Value::integer(static_cast<std::int64_t>(length(runtime)));
  if (name == "revindex") {
    return Value::integer(static_cast<std::int64_t>(length(runtime)) - index0_);
  }
  if (name == "revindex0") {
    return Value::integer(static_cast<std::int64_t>(length(runtime)) - index0_ - 1);
  }
  if (name == "previtem") {
    return index0_ > 0 ? previous_ : runtime.undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return has_next() ? *next_ : runtime.undefined("there is no next item");
  }
  if (name == "depth") return Value::integer(depth0_ + 1);
  if (name == "depth0") return Value::integer(depth0_);
  return {};
}

bool LoopObject::is_changed(Runtime& runtime, std::vector<Value> values) {
  if (last_changed_ && last_changed_->size() == values.size() &&
      std::equal(values.begin(),
                 values.end(),
                 last_changed_->begin(),
                 [&](const Value& a, const Value& b) { return equal(runtime, a, b); })) {
    return false;
  }
  last_changed_ = std::move(values);
  return true;
}

}  // namespace ft::text::jinja
