// The ordered list of instruction sets: what was built in, what this processor runs.
#include "base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/kernels.h"

namespace ft::kernels {
namespace {

struct Entry {
  Isa isa;
  std::string_view name;
  bool (*is_usable)();  // nullptr: not in this build
  CpuKernels (*kernels)() noexcept;
};

/// Fastest first.
constexpr Entry kEntries[] = {
    {Isa::kAvx512, "avx512", nullptr, nullptr},
    {Isa::kAvx2, "avx2", nullptr, nullptr},
    {Isa::kNeon, "neon", nullptr, nullptr},
    {Isa::kRef, "ref", [] { return true; }, ref::kernels},
};

const Entry& entry_of(Isa isa) noexcept {
  for (const Entry& entry : kEntries) {
    if (entry.isa == isa) {
      return entry;
    }
  }
  return kEntries[std::size(kEntries) - 1];
}

bool is_usable(const Entry& entry) {
  return entry.is_usable != nullptr && entry.is_usable();
}

}  // namespace

std::string_view isa_name(Isa isa) noexcept {
  return entry_of(isa).name;
}

std::optional<Isa> isa_from_name(std::string_view name) noexcept {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) {
      return entry.isa;
    }
  }
  return std::nullopt;
}

std::vector<Isa> usable_isas() {
  std::vector<Isa> isas;
  for (const Entry& entry : kEntries) {
    if (is_usable(entry)) {
      isas.push_back(entry.isa);
    }
  }
  return isas;
}

std::unique_ptr<Backend> make_cpu_backend(Isa isa, ThreadPool& pool) {
  const Entry& entry = entry_of(isa);
  if (!is_usable(entry)) {
    std::string usable;
    for (const Isa other : usable_isas()) {
      usable += usable.empty() ? "" : ", ";
      usable += isa_name(other);
    }
    fail("kernels: instruction set '{}' is not {}; usable: {}",
         entry.name,
         entry.is_usable == nullptr ? "part of this build" : "supported by this processor",
         usable);
  }
  return std::make_unique<CpuBackend>(isa, entry.kernels(), pool);
}

}  // namespace ft::kernels
