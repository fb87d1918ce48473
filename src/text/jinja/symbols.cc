#include "text/jinja/symbols.h"

#include "base/error.h"

namespace ft::text::jinja {

std::uint32_t FunctionSlots::slot(std::uint32_t level, const std::string& name) {
  return slots_.try_emplace({level, name}, n_slots()).first->second;
}

Symbols::Symbols(const Symbols* parent, FunctionSlots& function)
    : parent_(parent), function_(&function), level_(parent == nullptr ? 0 : parent->level_ + 1) {}

Symbols Symbols::branch_of(const Symbols& base) {
  Symbols branch(base.parent_, *base.function_);
  branch.level_ = base.level_;
  branch.base_ = &base;
  return branch;
}

bool Symbols::owns(const std::string& name) const {
  for (const Symbols* part = this; part != nullptr; part = part->base_) {
    if (part->entries_.count(name) > 0) return true;
  }
  return false;
}

bool Symbols::stores(const std::string& name) const {
  for (const Symbols* part = this; part != nullptr; part = part->base_) {
    if (part->stores_.count(name) > 0) return true;
  }
  return false;
}

std::optional<Symbols::Owner> Symbols::find(const std::string& name) const {
  for (const Symbols* frame = this; frame != nullptr; frame = frame->parent_) {
    if (frame->owns(name)) return Owner{frame->function_, frame->level_};
  }
  return std::nullopt;
}

std::optional<Symbols::Owner> Symbols::find_outer(const std::string& name) const {
  return parent_ == nullptr ? std::nullopt : parent_->find(name);
}

void Symbols::load(const std::string& name) {
  if (!find(name)) entries_[name] = {Begin::kRequest, std::nullopt};
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (owns(name)) return;
  const std::optional<Owner> outer = find_outer(name);
  entries_[name] = {outer ? Begin::kOuter : Begin::kNothing, outer};
}

void Symbols::declare_parameter(const std::string& name) {
  stores_.insert(name);
  entries_[name] = {Begin::kParameter, std::nullopt};
}

void Symbols::merge(const std::vector<Symbols>& branches) {
  std::map<std::string, std::size_t> n_storing;
  for (const Symbols& branch : branches) {
    for (const std::string& name : branch.stores_) {
      if (!stores(name)) ++n_storing[name];
    }
  }
  for (const Symbols& branch : branches) {
    for (const auto& [name, entry] : branch.entries_) entries_[name] = entry;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const auto& [name, n] : n_storing) {
    if (n == branches.size()) continue;
    const std::optional<Owner> outer = find_outer(name);
    entries_[name] = {outer ? Begin::kOuter : Begin::kRequest, outer};
  }
}

SlotRef Symbols::ref(const std::string& name) const {
  const std::optional<Owner> owner = find(name);
  FT_CHECK(owner.has_value());
  return {function_->depth() - owner->function->depth(), owner->function->slot(owner->level, name)};
}

FrameLayout Symbols::layout() const {
  FrameLayout layout;
  for (const auto& [name, entry] : entries_) {
    const std::uint32_t slot = function_->slot(level_, name);
    layout.owned_slots.push_back(slot);
    if (entry.begin == Begin::kParameter) continue;
    SlotLoad load;
    load.slot = slot;
    if (entry.begin == Begin::kRequest) {
      load.from = SlotLoad::From::kRequest;
      load.name = name;
    } else if (entry.begin == Begin::kOuter) {
      load.from = SlotLoad::From::kOuter;
      load.outer = {function_->depth() - entry.outer->function->depth(),
                    entry.outer->function->slot(entry.outer->level, name)};
    }
    layout.loads.push_back(std::move(load));
  }
  return layout;
}

}  // namespace ft::text::jinja
