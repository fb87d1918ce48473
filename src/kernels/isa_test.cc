// The list of instruction sets, and what packing refuses.
#include "base/error.h"
#include "kernels/kernels.h"
#include "kernels/test_backend.h"
#include "kernels/test_weights.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace ft::kernels {
namespace {

constexpr Isa kAllIsas[] = {Isa::kRef, Isa::kNeon, Isa::kAvx2, Isa::kAvx512};

TEST(Isa_Names, AreTheInverseOfEachOther) {
  for (const Isa isa : kAllIsas) {
    EXPECT_EQ(isa_from_name(isa_name(isa)), isa);
  }
  EXPECT_EQ(isa_name(Isa::kAvx512), "avx512");
  EXPECT_EQ(isa_from_name("sse2"), std::nullopt);
  EXPECT_EQ(isa_from_name(""), std::nullopt);
}

TEST(Isa_Usable, EndsWithRefAndHasNoDuplicates) {
  std::vector<Isa> isas = usable_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.back(), Isa::kRef);
  std::sort(isas.begin(), isas.end());
  EXPECT_EQ(std::adjacent_find(isas.begin(), isas.end()), isas.end());
}

TEST(Isa_Backend, SaysItsNameOrWhyNot) {
  ThreadPool pool(1);
  const std::vector<Isa> usable = usable_isas();
  for (const Isa isa : kAllIsas) {
    if (std::find(usable.begin(), usable.end(), isa) != usable.end()) {
      EXPECT_EQ(make_cpu_backend(isa, pool)->name(), isa_name(isa));
      continue;
    }
    try {
      make_cpu_backend(isa, pool);
      ADD_FAILURE() << isa_name(isa) << " is not usable but was made";
    } catch (const InvalidInput& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(isa_name(isa)), std::string::npos) << message;
      EXPECT_NE(message.find("usable: "), std::string::npos) << message;
    }
  }
}

TEST(Pack_Refuses, PartsThatDoNotFitTogether) {
  std::mt19937 rng(1);
  TestBackend test(Isa::kRef, 1);
  const auto refuses = [&](const TestMatrixShape& a, const TestMatrixShape& b) {
    const TestMatrix first = make_matrix(a, rng);
    const TestMatrix second = make_matrix(b, rng);
    const StoredMatrix parts[] = {first.matrix, second.matrix};
    EXPECT_THROW(test.backend->packed_bytes(parts), LogicError);
  };
  const TestMatrixShape shape = {.dtype = DType::kF8E4M3, .n_rows = 8, .n_cols = 32, .block = 16};
  TestMatrixShape other = shape;
  other.n_cols = 31;
  refuses(shape, other);
  other = shape;
  other.block = 8;
  refuses(shape, other);
  other = shape;
  other.col_origin = 3;
  refuses(shape, other);
  other = {.dtype = DType::kBF16, .n_rows = 8, .n_cols = 32};
  refuses(shape, other);

  const TestMatrix gate = make_matrix({.n_rows = 8, .n_cols = 4}, rng);
  const TestMatrix up = make_matrix({.n_rows = 7, .n_cols = 4}, rng);
  EXPECT_THROW(test.backend->packed_gate_up_bytes(gate.matrix, up.matrix), LogicError);
  EXPECT_THROW(test.backend->packed_bytes({}), LogicError);

  Buffer small(64);
  EXPECT_THROW(test.backend->pack({&gate.matrix, 1}, {small.data(), small.size()}), LogicError);
}

TEST(Pack_Scales, MayBeMissingFromSomeParts) {
  std::mt19937 rng(2);
  TestBackend test(Isa::kRef, 1);
  const TestMatrix scaled =
      make_matrix({.dtype = DType::kF8E4M3, .n_rows = 3, .n_cols = 20, .block = 16}, rng);
  const TestMatrix plain = make_matrix({.dtype = DType::kF8E4M3, .n_rows = 2, .n_cols = 20}, rng);
  for (const bool scaled_first : {true, false}) {
    const StoredMatrix parts[] = {scaled_first ? scaled.matrix : plain.matrix,
                                  scaled_first ? plain.matrix : scaled.matrix};
    const PackedWeight packed = pack(*test.backend, parts);
    std::vector<float> x(20);
    std::vector<float> y(5);
    for (std::size_t k = 0; k < 20; ++k) {
      x.assign(20, 0.0f);
      x[k] = 1;
      const MatmulOp op = {
          .y = {y.data(), 1, 5, 5}, .x = {x.data(), 1, 20, 20}, .weight = &packed.weight};
      test.backend->matmul({&op, 1});
      for (std::size_t r = 0; r < 5; ++r) {
        const StoredMatrix& part = r < parts[0].n_rows ? parts[0] : parts[1];
        EXPECT_EQ(y[r], part.at(r < parts[0].n_rows ? r : r - parts[0].n_rows, k));
      }
    }
  }
}

TEST(CpuBackend, TellsHowMuchScratchItTakes) {
  ThreadPool one(1);
  ThreadPool two(2);
  const auto backend = make_cpu_backend(Isa::kRef, one);
  const std::size_t least = backend->scratch_bytes(0);
  EXPECT_EQ(backend->scratch_bytes(1000) - least, 2000U);
  EXPECT_EQ(backend->scratch_bytes(std::uint64_t{1} << 40) - least, std::size_t{32} << 20);
  EXPECT_GT(make_cpu_backend(Isa::kRef, two)->scratch_bytes(0), least);
}

}  // namespace
}  // namespace ft::kernels
