// What one render may use, and the makers of its values. Every operation of the engine goes through
// a Runtime, pays for its steps and bytes, and reports errors with the line that is being rendered.
#pragma once

#include "json/json.h"
#include "text/jinja/value.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::text::jinja {

struct Limits {
  /// Evaluated nodes and visited elements. A conversation of 10,000 messages takes about 3 million.
  std::size_t max_steps = 20'000'000;
  /// Bytes built or searched, in total: a bound for memory as well as time.
  std::size_t max_work_bytes = std::size_t{1} << 30;
  /// One string, and so the prompt.
  std::size_t max_text_bytes = std::size_t{64} << 20;
  /// Evaluation inside evaluation; macros that call each other end here, long before the stack
  /// does.
  std::size_t max_depth = 800;
  /// Lists inside lists.
  std::uint32_t max_value_depth = 200;
};

class Runtime {
 public:
  explicit Runtime(const Limits& limits) : limits_(limits) {}
  /// All values of the render must be gone by then.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  Runtime(Runtime&&) = delete;
  Runtime& operator=(Runtime&&) = delete;

  /// The template's line that is being rendered; the interpreter keeps it up to date.
  void set_line(std::uint32_t line) noexcept { line_ = line; }
  /// Throws InvalidInput: "chat template, line 7: <message>". Control characters in the message are
  /// escaped.
  [[noreturn]] void fail(std::string_view message) const;
  /// fail("'upper' of a list") in one wording for all operations on a wrong type.
  [[noreturn]] void fail_type(std::string_view operation, const Value& value) const;

  void spend(std::size_t n_steps);
  void spend_bytes(std::size_t n_bytes);
  /// Refuses a text that has grown too long.
  void check_text(std::size_t n_bytes) const;
  /// Refuses a text of n_bytes before it is built, and pays for it.
  void reserve_text(std::size_t n_bytes);

  Value undefined(std::string message);
  Value string(MarkedText text);
  Value string(std::string_view bytes, bool is_trusted = true);
  Value list(std::vector<Value> items, bool is_trusted = true);
  Value tuple(std::vector<Value> items, bool is_trusted = true);
  Value range(std::int64_t start, std::int64_t stop, std::int64_t step);
  Value iterator(std::vector<Value> items);
  /// Later entries win over earlier ones of the same key, at the place of the first.
  Value dict(std::vector<DictObject::Entry> entries, bool is_trusted = true);
  Value namespace_of(std::vector<std::pair<std::string, Value>> members);
  /// Any other object that holds `content`.
  template <typename T>
  Value object(Kind kind, T content, std::uint32_t content_depth) {
    return adopt(kind, std::make_shared<T>(std::move(content)), content_depth);
  }
  Value from_json(const json::Value& json, bool is_trusted);

  /// Counts one level of evaluation for its lifetime.
  class Level {
   public:
    explicit Level(Runtime& runtime);
    ~Level() { --runtime_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Level(Level&&) = delete;
    Level& operator=(Level&&) = delete;

   private:
    Runtime& runtime_;
  };

  /// Keeps an object that may be part of a cycle until the end of the render, then empties it. So
  /// cycles do not leak and long chains of such objects are not destroyed recursively.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

 private:
  Value adopt(Kind kind, std::shared_ptr<Object> object, std::uint32_t content_depth);
  Value sequence(Kind kind, std::vector<Value> items, bool is_trusted);

  Limits limits_;
  std::size_t n_steps_ = 0;
  std::size_t work_bytes_ = 0;
  std::size_t depth_ = 0;
  std::uint32_t line_ = 0;
  std::vector<std::shared_ptr<Object>> kept_;
};

}  // namespace ft::text::jinja
