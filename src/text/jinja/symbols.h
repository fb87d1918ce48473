// The variables of one frame while a template is compiled: which names it owns and how each begins.
// Jinja decides this from the text alone, before anything runs; e.g. a name assigned anywhere in a
// loop body is the body's own from the start, and begins as a copy of the outer one.
#pragma once

#include "text/jinja/statement.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ft::text::jinja {

/// What becomes one Scope at run time: the template, a macro, a recursive loop, a loop's filter.
/// Frames on the same level share the slots of equal names, as they share Python's local variables.
class FunctionSlots {
 public:
  explicit FunctionSlots(std::uint32_t depth) : depth_(depth) {}

  std::uint32_t depth() const noexcept { return depth_; }
  std::uint32_t slot(std::uint32_t level, const std::string& name);
  std::uint32_t n_slots() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }

 private:
  std::uint32_t depth_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> slots_;
};

class Symbols {
 public:
  /// The frame of a function, or with a parent one inside of it.
  Symbols(const Symbols* parent, FunctionSlots& function);
  /// One branch of an `if` in the frame `base`: sees and adds to its names until the branches are
  /// merged.
  static Symbols branch_of(const Symbols& base);

  void load(const std::string& name);
  void store(const std::string& name);
  void declare_parameter(const std::string& name);
  /// Takes over what all branches of an `if` (there are always three: if, elif, else) have added. A
  /// name that only some of them assign begins as if it was not assigned here.
  void merge(const std::vector<Symbols>& branches);

  /// Where a name that was loaded, stored or declared lives, seen from this frame's function.
  SlotRef ref(const std::string& name) const;
  FrameLayout layout() const;
  FunctionSlots& function() const noexcept { return *function_; }

 private:
  enum class Begin : std::uint8_t { kParameter, kRequest, kOuter, kNothing };
  struct Owner {
    FunctionSlots* function;
    std::uint32_t level;
  };
  struct Entry {
    Begin begin;
    std::optional<Owner> outer;  // of kOuter
  };

  bool owns(const std::string& name) const;
  bool stores(const std::string& name) const;
  std::optional<Owner> find(const std::string& name) const;
  std::optional<Owner> find_outer(const std::string& name) const;

  const Symbols* parent_;
  const Symbols* base_ = nullptr;
  FunctionSlots* function_;
  std::uint32_t level_;
  std::map<std::string, Entry> entries_;
  std::set<std::string> stores_;
};

}  // namespace ft::text::jinja
