// What a prediction costs in memory: the bound that the plan is made with.
#include "speculation/lookup_memory.h"

#include "speculation/draft_source.h"
#include "testing/fake_model.h"

#include <cstdint>
#include <functional>
#include <malloc.h>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace ft::speculation {
namespace {

/// Of the whole process; a sanitizer's allocator tells 0.
std::uint64_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(LookupMemory, APredictionHoldsNoMoreThanPlanned) {
  const testing::FakeModel model({});
  const auto provider = make_draft_provider("prediction", model);
  const std::vector<std::function<std::size_t(std::size_t)>> laws = {
      [](std::size_t i) { return i; },       // all different
      [](std::size_t i) { return i / 2; },   // two of each
      [](std::size_t i) { return i % 37; },  // lists grow side by side
      [](std::size_t) { return std::size_t{3}; }};
  for (const std::size_t n : {std::size_t{1000}, std::size_t{5300}, std::size_t{66000}}) {
    for (std::size_t law = 0; law < laws.size(); ++law) {
      const std::uint64_t before = allocated_bytes();
      std::vector<Token> request(n);
      for (std::size_t i = 0; i < n; ++i) request[i] = static_cast<Token>(laws[law](i));
      const std::vector<Token> session = request;
      const auto source =
          provider->open({.model = &model, .cache_options = {}, .prediction = session});
      std::vector<Token> text = {1};
      std::size_t n_seen = 0;
      for (const Token token : request) {
        text.push_back(token);
        if (text.size() % 64 != 0 && text.size() != n + 1) continue;
        source->observe({.sequence = text, .n_prompt = 1, .n_same = n_seen, .taps = {}});
        n_seen = text.size();
      }
      text = {};
      const std::uint64_t held = allocated_bytes() - before;
      EXPECT_LE(held, prediction_bytes(n, n)) << n << " tokens, law " << law;
    }
  }
  EXPECT_EQ(prediction_bytes(0, 1000), 0U);
}

}  // namespace
}  // namespace ft::speculation
