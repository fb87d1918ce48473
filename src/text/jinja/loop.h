// The `loop` variable of a for loop: where it is, what comes next, how long it is.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace ft::text::jinja {

struct For;
struct Scope;

/// Reads its elements only when they are needed, so that a loop's filter sees what the body did
/// before. Copies of the variable that outlive the loop see an ended one.
class LoopObject final : public Object {
 public:
  /// `source` gives the next element, false at the end. `known_length` is the length if it is known
  /// without reading.
  LoopObject(std::function<bool(Value&)> source,
             std::optional<std::size_t> known_length,
             std::int64_t recursion_depth);

  /// Moves to the next element. False at the end.
  bool advance(Value& element);
  /// The loop is over; forgets the source.
  void end() noexcept { source_ = nullptr; }
  void drop_content() noexcept override;

  /// index, first, length, nextitem ...; missing for other names. May read ahead.
  Value property(Runtime& runtime, std::string_view name);
  std::size_t length(Runtime& runtime);
  std::int64_t index0() const noexcept { return index0_; }
  std::int64_t depth0() const noexcept { return depth0_; }
  /// True if called for the first time or with other values than last time.
  bool is_changed(Runtime& runtime, std::vector<Value> values);

  /// For a recursive loop: its node and the variables around it; nullptr otherwise.
  const For* recursive_node = nullptr;
  Scope* closure = nullptr;

 private:
  bool read(Value& element);
  bool has_next();

  std::function<bool(Value&)> source_;
  std::optional<std::size_t> length_;
  std::vector<Value> read_ahead_;  // elements taken from the source to count them
  std::size_t n_replayed_ = 0;     // how many of them have been given out
  std::optional<Value> next_;      // one element looked at
  Value current_;
  Value previous_;
  std::optional<std::vector<Value>> last_changed_;
  std::int64_t index0_ = -1;
  std::int64_t depth0_ = 0;
};

/// cycle and changed.
const struct Method* find_loop_method(std::string_view name);

}  // namespace ft::text::jinja
