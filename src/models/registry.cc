// The families this program knows, by the model_type of config.json.
#include "base/error.h"
#include "models/family.h"
#include "models/model.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace ft::models {

#define MODEL_FAMILY(unit) Family unit##_family();
#include "model_family.inc"
#undef MODEL_FAMILY

namespace {

struct Entry {
  std::string_view model_type;
  Family family;
};

const Entry* find_family(std::span<const Entry> entries, std::string_view model_type) {
  for (const Entry& entry : entries) {
    if (entry.model_type == model_type) return &entry;
  }
  return nullptr;
}

}  // namespace

Family family_of(const checkpoint::Checkpoint& checkpoint) {
  const std::array entries{
#define MODEL_FAMILY(unit) Entry{#unit, unit##_family()},
#include "model_family.inc"
#undef MODEL_FAMILY
  };
  const json::Value* value = checkpoint.config().find("model_type");
  if (value == nullptr) fail("config.json: model_type is missing");
  const std::string& model_type = value->as_string("config.json: model_type");
  if (const Entry* entry = find_family(entries, model_type); entry != nullptr) return entry->family;
  std::string known;
  for (const Entry& entry : entries) {
    known += (known.empty() ? "" : ", ") + std::string(entry.model_type);
  }
  fail(
      "config.json: model_type '{}' is not supported (known: {})", model_type.substr(0, 60), known);
}

std::unique_ptr<Model> load_model(checkpoint::Checkpoint checkpoint,
                                  kernels::Backend& backend,
                                  ThreadPool& pool,
                                  const LoadOptions& options) {
  const Family family = family_of(checkpoint);
  return family.load(std::move(checkpoint), backend, pool, options);
}

MemoryNeeds memory_needs(checkpoint::Checkpoint& checkpoint,
                         const kernels::Backend& backend,
                         const MemoryUse& use) {
  return family_of(checkpoint).memory(checkpoint, backend, use);
}

Inspection inspect_model(const checkpoint::Checkpoint& checkpoint) {
  try {
    return family_of(checkpoint).inspect(checkpoint);
  } catch (const InvalidInput& error) {
    Inspection inspection;
    inspection.problems.emplace_back(error.what());
    return inspection;
  }
}

}  // namespace ft::models
