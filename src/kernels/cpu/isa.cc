// The ordered list of instruction sets: what was built in, what this processor runs.
#include "base/error.h"
#ifdef FT_HAS_AVX2
#include "kernels/cpu/avx2/avx2_kernels.h"
#endif
#ifdef FT_HAS_AVX512
#include "kernels/cpu/avx512/avx512_kernels.h"
#endif
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_kernels.h"
#ifdef FT_HAS_NEON
#include "kernels/cpu/neon/neon_kernels.h"
#endif
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
#ifdef FT_HAS_AVX512
    {Isa::kAvx512, "avx512", avx512::is_usable, avx512::kernels},
#else
    {Isa::kAvx512, "avx512", nullptr, nullptr},
#endif
#ifdef FT_HAS_AVX2
    {Isa::kAvx2, "avx2", avx2::is_usable, avx2::kernels},
#else
    {Isa::kAvx2, "avx2", nullptr, nullptr},
#endif
#ifdef FT_HAS_NEON
    {Isa::kNeon, "neon", neon::is_usable, neon::kernels},
#else
    {Isa::kNeon, "neon", nullptr, nullptr},
#endif
    {Isa::kRef, "ref", []() noexcept { return true; }, ref::kernels},
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
